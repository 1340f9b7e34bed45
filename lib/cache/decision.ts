/**
 * What becomes of a request for a file once the policy has admitted it. Asks all that know something of the file, and has
 * rfc9111/lookup.ts decide. The pipeline acts on the decision; `explain` puts it into words.
 */
import type { Milliseconds } from '../async/clock.ts'
import type { RequestDirectives } from '../http/message/cache-control.ts'
import type { ArchivePath } from './archive/path.ts'
import type { Config } from './config/config.ts'
import { type Decision, lookup } from './rfc9111/lookup.ts'
import type { NegativeMemory } from './rfc9111/negative.ts'
import type { Entry } from './store/entry.ts'
import type { Claim, Suites } from './suites/suites.ts'

interface Asked {
  readonly key: string
  readonly archive: ArchivePath
  readonly stored: Entry | undefined
  readonly claim: Claim | undefined
  readonly directives: RequestDirectives
  /** Whether the request carries credentials for the origin. */
  readonly authorization: boolean
  readonly passthrough: boolean
  readonly now: Milliseconds
}

/** A command that runs beside the service has neither a memory of 404s nor suites. */
interface Known {
  readonly negative?: Pick<NegativeMemory, 'until'> | undefined
  readonly suites?: Pick<Suites, 'checkFrom'> | undefined
  readonly config: Pick<Config, 'offline' | 'freshness'>
}

export function decide(asked: Asked, { negative, suites, config }: Known): Decision {
  const { archive, stored } = asked
  return lookup({
    stored,
    negativeUntil: negative?.until(asked.key),
    path: archive,
    claim: asked.claim,
    checkFrom: archive.kind === 'release' && stored ? suites?.checkFrom(stored) : undefined,
    directives: asked.directives,
    authorization: asked.authorization,
    passthrough: asked.passthrough,
    offline: config.offline,
    settings: config.freshness,
    now: asked.now,
  })
}
