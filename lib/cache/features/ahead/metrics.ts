/**
 * The metrics of fetches ahead and of the refresh by schedule.
 */
import type { Metrics } from '../../../metrics.ts'

/** Adds the counters. */
export function aheadMetrics(metrics: Metrics) {
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
