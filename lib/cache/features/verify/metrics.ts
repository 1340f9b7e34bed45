/**
 * The metrics of the regular verification.
 */
import type { Metrics } from '../../../metrics.ts'
import type { LastVerification } from './schedule.ts'

/** Adds the metrics. Returns the counter of warnings. */
export function verificationMetrics(metrics: Metrics, last: () => LastVerification | undefined) {
  const figures = [
    [
      'verification_timestamp_seconds',
      'End of the last verification; 0 for none.',
      () => Math.floor((last()?.finished ?? 0) / 1000),
    ],
    ['verification_files', 'Files the last verification looked at.', () => last()?.files ?? 0],
    [
      'verification_wrong_files',
      'Files the last verification found wrong.',
      () => last()?.wrong ?? 0,
    ],
  ] as const
  for (const [name, help, read] of figures)
    metrics.reading({ name: `cachesvc_${name}`, help }, read)
  return metrics.counter({
    name: 'cachesvc_repository_verification_warnings_total',
    help: 'Stored files found wrong and removed.',
  })
}
