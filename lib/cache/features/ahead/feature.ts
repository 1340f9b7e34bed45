/**
 * The feature `ahead`: packages are fetched before a client asks for them, and origins are asked about suites by schedule.
 */
import type { Feature } from '../feature.ts'
import { aheadMetrics } from './metrics.ts'

export const aheadFeature: Feature = {
  name: 'ahead',
  listMetrics: metrics => void aheadMetrics(metrics),
  open: async () => ({ join: (await import('./joints.ts')).joints }),
}
