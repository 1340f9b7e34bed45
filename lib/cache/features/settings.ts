/**
 * The settings of the features, a line for each as in features.ts, and where they stand in cachesvc.yaml. The settings of a feature know
 * nothing of the rest of it.
 */
import { aheadSettings } from './ahead/settings.ts'
import { buildSettings } from './builds/settings.ts'
import { delaySettings } from './delay/settings.ts'
import { denySettings } from './deny/settings.ts'
import { sharedStoreSettings } from './shared/settings.ts'
import { verificationSettings } from './verify/settings.ts'

// biome-ignore format: one line each, so that a feature is deleted with its line.
const all = [
  delaySettings,
  buildSettings,
  denySettings,
  sharedStoreSettings,
  aheadSettings,
  verificationSettings,
] as const

/** The groups of the core in which settings of features stand; `root` is the file itself. */
type Place = 'root' | 'archives' | 'suites' | 'verification'

type NoSettings = Readonly<Record<never, never>>

type At<P extends Place, L> = L extends readonly [infer First, ...infer Rest]
  ? (First extends { readonly [K in P]: infer Members } ? Members : NoSettings) & At<P, Rest>
  : NoSettings

/** The settings of all features at a place. */
export function settingsAt<P extends Place>(place: P): At<P, typeof all> {
  const found = all.map(one => (place in one ? (one as { [K in P]?: object })[place] : {}))
  return Object.assign({}, ...found)
}

/** The checks of the settings of features in a whole file. */
export const settingsChecks = all.flatMap(one => ('check' in one ? [one.check] : []))
