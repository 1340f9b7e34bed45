/**
 * The features of authproxy. One without its line here, and without its folder and its tests, is gone: `tools/without.ts` tries that.
 */
import { Failure } from '../errors.ts'
import type { Config } from './config/config.ts'
import { doctor } from './doctor/feature.ts'
import type {
  CheckingParts,
  ChecksListener,
  Feature,
  PeopleTokens,
  SharedState,
  StateParts,
  TokenParts,
} from './features/feature.ts'
import { forwardAuth } from './forward-auth/feature.ts'
import { replay } from './replay/feature.ts'
import type { EndedSessions } from './session/revocation.ts'
import { sharedState } from './shared-state/feature.ts'
import { tokens } from './tokens/feature.ts'

// biome-ignore format: one line each, so that a feature is deleted with its line.
export const features: readonly Feature[] = [
  doctor,
  forwardAuth,
  replay,
  sharedState,
  tokens,
]

/** The state that instances share; undefined where the settings name none. */
export async function shareState(
  { state }: Config,
  parts: StateParts,
): Promise<SharedState | undefined> {
  if (state === undefined) return undefined
  const [open] = features.flatMap(({ shareState }) => shareState ?? [])
  return open === undefined ? missing('state') : open(state, parts)
}

/** The record of the tokens of people; undefined where they can make none. */
export async function openTokens(
  config: Config,
  parts: Omit<TokenParts, 'revocations'> & { readonly revocations: EndedSessions | undefined },
): Promise<PeopleTokens | undefined> {
  const { revocations } = parts
  if (config.tokens.longest === undefined || revocations === undefined) return undefined
  const [open] = features.flatMap(({ openTokens }) => openTokens ?? [])
  return open === undefined ? missing('tokens') : open({ ...parts, revocations })
}

/** The listener for the checks of an edge; undefined where the settings name none. */
export async function listenForChecks(
  config: Config,
  parts: CheckingParts,
): Promise<ChecksListener | undefined> {
  if (config.forwardAuth === undefined) return undefined
  const [open] = features.flatMap(({ listenForChecks }) => listenForChecks ?? [])
  return open === undefined ? missing('forwardAuth') : open(config, parts)
}

/** A setting without its feature stops the start: what it asks for would not happen. */
function missing(setting: string): never {
  throw new Failure(`this program was made without what ${setting} sets; remove the setting`, {
    code: 'NO_FEATURE',
  })
}
