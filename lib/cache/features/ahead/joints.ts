/**
 * What the feature `ahead` is in a running service: the fetches ahead of each adopted suite, and the schedule of refreshes.
 */
import type { Core, Joints } from '../feature.ts'
import { AheadFetches } from './ahead.ts'
import { aheadMetrics } from './metrics.ts'
import { RefreshSchedule } from './refresh.ts'

export function joints(core: Core): Joints {
  const { cacheDirectory, clock, log, store, fetcher, suites, updates, rules } = core
  const counted = aheadMetrics(core.metrics)
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
