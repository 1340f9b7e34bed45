/**
 * The feature `intercept`: HTTPS through the proxy is read and cached, with certificates of a CA that clients trust.
 */
import type { Feature } from '../feature.ts'

export const interceptFeature: Feature = {
  name: 'intercept',
  problem: async (config, now) => (await import('./authority.ts')).authorityProblem(config, now),
}
