/**
 * The feature `shared`: several nodes share a bucket, so that what one has fetched the others need not fetch.
 */
import type { Feature } from '../feature.ts'
import { sharedStoreMetrics } from './metrics.ts'

export const sharedFeature: Feature = {
  name: 'shared',
  listMetrics: metrics => sharedStoreMetrics(metrics, () => undefined),
}
