/**
 * What the steps of login and logout share: the parts the service was given, and those it has made.
 */
import { LRUCache } from 'lru-cache'
import { type Clock, hour } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import type { Allowance } from '../../http/server/gather.ts'
import type { Logger } from '../../log/log.ts'
import type { SamlConfig } from '../config/config.ts'
import type { KeptForms } from '../form-preservation/kept-forms.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import type { PageMaker } from '../pages/page.ts'
import type { Sessions } from '../session/sessions.ts'
import type { IdpMetadataSource } from './metadata/idp-metadata-source.ts'
import type { UsedIds } from './replay-cache.ts'
import type { WorkerPool } from './worker/pool.ts'

/** What the SAML service is given. */
export interface SamlParts {
  readonly config: () => SamlConfig
  readonly keys: Pick<KeyRing, 'sealing' | 'saml'>
  readonly sessions: Pick<Sessions, 'establish' | 'read' | 'end' | 'revoke' | 'diagnose'>
  readonly failurePage: FailurePage
  readonly page: PageMaker
  readonly clock: Clock
  /** So many random bytes, fit for keys. */
  readonly random: (size: number) => Buffer
  readonly log: Logger
  /** The client's address, read from the fields of trusted proxies; for logs and limits. */
  readonly clientAddress: (request: Request) => string
  /** Counts how a login or a logout ended, by its code: `accepted`, `signature`, `audience`, … */
  readonly count: (code: string) => void
}

export interface Saml extends SamlParts {
  readonly source: IdpMetadataSource
  /** Verify messages in threads: a pool each, so that messages of one kind never wait for those of the other. */
  readonly verifiers: { readonly login: WorkerPool; readonly logout: WorkerPool }
  readonly tries: DecryptionTries
  readonly replayCache: UsedIds
  readonly forms: KeptForms
  /** Memory for forms that are being read. */
  readonly room: Allowance
}

/** Wrong guesses that a login may send; reading one byte from an encrypted assertion by its padding takes 128 on average. */
const MOST_TRIES = 32

/**
 * Counts the messages that could not be decrypted, for each login, or for each network when no login is under way. CBC makes
 * every such answer a hint at the plain text. A count is forgotten an hour after its first try; no login lasts longer.
 */
export class DecryptionTries {
  readonly #failed: LRUCache<string, number>

  constructor(clock: Clock) {
    const forgetting = { ttl: hour, noUpdateTTL: true, ttlResolution: 0, perf: clock }
    this.#failed = new LRUCache({ max: 50_000, ...forgetting })
  }

  /**
   * What `work` answers; undefined when one of the logins or networks has used up its tries. A try counts from its start, so that many at
   * once are no more than one after the other.
   */
  async within<T extends { readonly ok: boolean; readonly refusal?: { readonly code: string } }>(
    logins: readonly string[],
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    if (logins.some(login => (this.#failed.get(login) ?? 0) >= MOST_TRIES)) return undefined
    this.#add(logins, 1)
    const result = await work()
    if (result.ok || !result.refusal?.code.startsWith('encryption_')) this.#add(logins, -1)
    return result
  }

  #add(logins: readonly string[], difference: number): void {
    for (const login of logins) {
      this.#failed.set(login, Math.max(0, (this.#failed.get(login) ?? 0) + difference))
    }
  }
}

/** What a logout message of ours begins with. Its new ID is unguessable, and an xs:ID (saml-core-2.0-os section 1.3.4). */
export function newHead(saml: Saml, destination: string) {
  const id = `_${saml.random(20).toString('hex')}`
  return { id, issuer: saml.config().entityId, issued: saml.clock.now(), destination }
}

/**
 * A path of ours to send a browser to; "/" in the place of text that is no path, could be read as another host, or leads back
 * here. Only ever used behind our own base URL.
 */
export function safeReturn(returnTo: string): string {
  if (!/^\/(?![/\\])[\x21-\x7e]*$/.test(returnTo)) return '/'
  const [path = ''] = returnTo.split(/[?#]/)
  // Without its dot segments it would be another host to those who resolve it: `/.//host`.
  if (new URL(`https://own.invalid${path}`).pathname.startsWith('//')) return '/'
  return path.startsWith('/saml/') || path === returnPath ? '/' : returnTo
}

/** Where a browser comes back to after the IdP's answer has been taken. */
export const returnPath = '/__authproxy-redirect'

/** Where a browser comes back to: with a login that was completed, or with one to go on with that is not known any more. */
export function backAddress(baseUrl: string, id: string, as: 'flow' | 'resume' = 'flow'): string {
  return `${baseUrl}${returnPath}?flow=${id}${as === 'resume' ? '&resume=1' : ''}`
}

/** The address a script may send its user to: a login that comes back to `returnTo`. */
export function loginAddress(baseUrl: string, returnTo: string): string {
  return `${baseUrl}${returnPath}?login=${encodeURIComponent(safeReturn(returnTo))}`
}
