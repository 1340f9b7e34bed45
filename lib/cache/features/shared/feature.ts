/**
 * The feature `shared`: several nodes share a bucket, so that what one has fetched the others need not fetch.
 */
import type { Feature } from '../feature.ts'
import { sharedStoreMetrics } from './metrics.ts'

export const sharedFeature: Feature = {
  name: 'shared',
  listMetrics: metrics => sharedStoreMetrics(metrics, () => undefined),
  // Without these settings no file of the bucket is loaded.
  open: async ground =>
    ground.rules().config.sharedStore.url === undefined
      ? {}
      : (await import('./joints.ts')).openBucket(ground),
}
