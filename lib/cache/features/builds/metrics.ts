/**
 * The metrics of builds.
 */
import type { Metrics } from '../../../metrics.ts'
import type { Builds } from './builds.ts'

/** Adds the gauges. */
export function buildMetrics(metrics: Metrics, builds: Pick<Builds, 'all' | 'bytes'>): void {
  metrics.reading(
    { name: 'cachesvc_builds', help: 'Builds that are recorded or locked.' },
    () => builds.all.length,
  )
  metrics.reading(
    {
      name: 'cachesvc_build_bytes',
      help: 'Bytes of contents that stay because builds were given them, each counted once.',
    },
    () => builds.bytes,
  )
}
