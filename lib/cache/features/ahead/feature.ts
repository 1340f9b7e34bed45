/**
 * The feature `ahead`: packages are fetched before a client asks for them, and origins are asked about suites by schedule.
 */
import type { Metrics } from '../../../metrics.ts'
import type { Core, Feature, Joints } from '../feature.ts'
import { AheadFetches } from './ahead.ts'
import { RefreshSchedule } from './refresh.ts'

export const aheadFeature: Feature = {
  name: 'ahead',
  listMetrics: metrics => void aheadMetrics(metrics),
  open: ({ metrics }) => {
    const counted = aheadMetrics(metrics)
    return { join: core => joints(core, counted) }
  },
}

type AheadMetrics = ReturnType<typeof aheadMetrics>

function aheadMetrics(metrics: Metrics) {
  return {
    files: metrics.counter({
      name: 'cachesvc_fetched_ahead_total',
      help: 'Packages fetched before a client asked for them, by result: fetched or failed.',
      labels: ['result'],
    }),
    bytes: metrics.counter({
      name: 'cachesvc_fetched_ahead_bytes_total',
      help: 'Bytes of those fetched.',
    }),
    refreshes: metrics.counter({
      name: 'cachesvc_suite_refreshes_total',
      help: 'Release files that origins were asked about by schedule, by result: confirmed, updated or failed.',
      labels: ['result'],
    }),
  }
}

function joints(core: Core, counted: AheadMetrics): Joints {
  const { cacheDirectory, clock, log, store, fetcher, suites, updates, rules } = core
  const fetches = new AheadFetches({
    cacheDirectory,
    clock,
    log: log.child({ part: 'ahead' }),
    store,
    fetcher,
    onEnd(result, bytes) {
      counted.files.add({ result })
      if (result === 'fetched') counted.bytes.add({}, bytes)
    },
    settings: () => (rules().config.offline ? undefined : rules().config.suites.warm),
  })
  const schedule = new RefreshSchedule({
    clock,
    log: log.child({ part: 'suites' }),
    store,
    suites,
    updates,
    onEnd: result => counted.refreshes.add({ result }),
    settings: () => (rules().config.offline ? undefined : rules().config.suites),
    random: Math.random,
  })
  return {
    adopted: suite => fetches.adopted(suite),
    quiet: () => Promise.all([schedule.close(), fetches.close()]),
  }
}
