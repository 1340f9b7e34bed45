/**
 * The features of cachesvc, in the order in which they join the core. A feature without its line here, and without its folder and its
 * tests, is gone: `node dist/tools/without.js NAME` tries that.
 */
import { aheadFeature } from './features/ahead/feature.ts'
import { buildsFeature } from './features/builds/feature.ts'
import { bundleFeature } from './features/bundle/feature.ts'
import { delayFeature } from './features/delay/feature.ts'
import { denyFeature } from './features/deny/feature.ts'
import type { Feature } from './features/feature.ts'
import { fetchListFeature } from './features/fetch-list/feature.ts'
import { interceptFeature } from './features/intercept/feature.ts'
import { jobFeature } from './features/job/feature.ts'
import { sharedFeature } from './features/shared/feature.ts'
import { verifyFeature } from './features/verify/feature.ts'

// biome-ignore format: one line each, so that a feature is deleted with its line.
export const features: readonly Feature[] = [
  delayFeature,
  sharedFeature,
  interceptFeature,
  denyFeature,
  buildsFeature,
  aheadFeature,
  verifyFeature,
  bundleFeature,
  fetchListFeature,
  jobFeature,
]
