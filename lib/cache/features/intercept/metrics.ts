/**
 * The metrics of interception.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Metrics } from '../../../metrics.ts'

interface InterceptionFigures {
  readonly distrusting: number
  /** The end of the certificate of the CA; undefined without one. */
  readonly notAfter: Milliseconds | undefined
}

/** Adds the gauges. That of the CA is there only with one. */
export function interceptionMetrics(metrics: Metrics, figures: InterceptionFigures): void {
  metrics.reading(
    {
      name: 'cachesvc_distrusting_clients',
      help: 'Clients remembered as rejecting our certificates, once for each host.',
    },
    () => figures.distrusting,
  )
  const { notAfter } = figures
  if (notAfter === undefined) return
  metrics.reading(
    {
      name: 'cachesvc_authority_expiry_timestamp_seconds',
      help: 'When the certificate of the CA expires, in seconds since the epoch.',
    },
    () => Math.floor(notAfter / 1000),
  )
}
