/**
 * The metrics of denied packages.
 */
import type { Metrics } from '../../../metrics.ts'

/** Adds the gauge, and answers the counter. */
export function denyMetrics(metrics: Metrics, rows: () => number) {
  metrics.reading(
    { name: 'cachesvc_deny_rows', help: 'Rows of the files under `deny` that are in force.' },
    rows,
  )
  return metrics.counter({
    name: 'cachesvc_denied_requests_total',
    help: 'Requests for packages that were answered 403 because of a row under `deny`.',
  })
}
