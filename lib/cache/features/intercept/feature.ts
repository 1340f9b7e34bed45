/**
 * The feature `intercept`: HTTPS through the proxy is read and cached, with certificates of a CA that clients trust.
 */
import type { Feature } from '../feature.ts'
import { interceptionMetrics } from './metrics.ts'

export const interceptFeature: Feature = {
  name: 'intercept',
  listMetrics: metrics => interceptionMetrics(metrics, { distrusting: 0, notAfter: 0 }),
  problem: async (config, now) => (await import('./authority.ts')).authorityProblem(config, now),
  open: async () => ({ join: (await import('./joints.ts')).joints }),
}
