/**
 * The parts that the steps of login and logout share: those the service was given, and those it has made.
 */
import type { Clock } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import type { Allowance } from '../../http/server/gather.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import type { AccessRule } from '../access/rules.ts'
import type { SamlConfig } from '../config/config.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import type { PageMaker } from '../pages/page.ts'
import type { Sessions } from '../session/sessions.ts'
import type { UnreadAttributes } from '../session/unread-attributes.ts'
import type { IdpMetadataSource } from '../idp/metadata-source.ts'
import type { FormStore, KeptForms } from './kept-forms.ts'
import type { SharedIds, UsedIds } from './used-answers.ts'
import type { WorkerPool } from '../idp/worker/pool.ts'

/** The parts the SAML service is given. */
export interface SamlParts {
  readonly config: () => SamlConfig
  readonly keys: Pick<KeyRing, 'sealingKeys' | 'saml'>
  readonly sessions: Pick<
    Sessions,
    'establish' | 'read' | 'end' | 'canRevoke' | 'revoke' | 'diagnose' | 'useIssuer'
  >
  readonly failurePage: FailurePage
  readonly page: PageMaker
  readonly clock: Clock
  /** Makes this number of random bytes, fit for keys. */
  readonly random: (size: number) => Buffer
  readonly log: Logger
  /** The client's address, read from the fields of trusted proxies; for logs and limits. */
  readonly clientAddress: (request: Request) => string
  /** Counts how a login or a logout ended, by its code: `accepted`, `signature`, `audience`, … */
  readonly count: (code: string) => void
  /** The state that instances share; undefined where `state.url` is not set. */
  readonly shared?: SharedParts | undefined
}

/** The state of logins that instances share by a store. */
export interface SharedParts extends SharedIds {
  readonly forms: FormStore
  /** Adds to the counts of keys, and answers the counts of all instances. No request waits for it. */
  countTries(keys: readonly string[], by: 1 | -1): Promise<readonly number[] | undefined>
}

export interface Saml extends SamlParts {
  readonly source: IdpMetadataSource
  /** The pools of threads that verify messages. Logins and logouts have a pool each, so that neither waits for the other. */
  readonly verifiers: { readonly login: WorkerPool; readonly logout: WorkerPool }
  readonly beginTries: ReturnType<typeof decryptionTries>
  readonly replayCache: UsedIds
  readonly forms: KeptForms
  /** The attributes of the last login that nothing read. */
  readonly unread: UnreadAttributes
  /** Memory for forms that are being read. */
  readonly room: Allowance
}

/** Messages refused for each EncryptedKey; reading one byte from an encrypted assertion by its padding takes 128 on average. */
const MOST_TRIES = 8
/** Each entry takes 200 bytes. Only an EncryptedKey of methods that we accept counts, and each costs an RSA operation. */
const MOST_KEYS = 50_000

/**
 * Counts the refused messages of each EncryptedKey. CBC makes every such answer a hint at the plain text. To read it, an attacker who
 * holds an encrypted assertion has to send its EncryptedKey again each time: without the plain text no other can be made that
 * opens to the same key. An honest IdP makes a new one for each message, so a count concerns no other login.
 */
export function decryptionTries(shared?: Pick<SharedParts, 'countTries'>) {
  // The counts do not expire, or an attacker would wait for that. The least recently tried key is forgotten first.
  const refused = recentEntries<string, number>(MOST_KEYS)
  const count = (key: string) => refused.get(key) ?? 0
  // No message waits for the other instances, or the time of its answer would show that it was decrypted. So each instance may
  // still allow the tries it has under way when the others reach the limit.
  const share = async (keys: readonly string[], by: 1 | -1) => {
    if (keys.length === 0) return
    const counts = (await shared?.countTries(keys, by)) ?? []
    for (const [index, key] of keys.entries()) {
      const all = counts[index] ?? 0
      if (all > count(key)) refused.set(key, all)
    }
  }
  /** Allows or refuses the decryption of one message. A try counts from its start, so many at once are limited like a sequence. */
  return () => {
    let tried: readonly string[] = []
    return {
      /** Whether a message with these keys may be decrypted. */
      mayDecrypt: (keys: readonly string[]): boolean => {
        if (keys.some(key => count(key) >= MOST_TRIES)) return false
        tried = keys
        for (const key of keys) refused.set(key, count(key) + 1)
        void share(keys, 1)
        return true
      },
      /** Whether the message asked for a decryption. */
      asked: () => tried.length > 0,
      /** Takes the tries back, because the IdP has signed the message. */
      verified: () => {
        for (const key of tried) refused.set(key, Math.max(0, count(key) - 1))
        void share(tried, -1)
      },
    }
  }
}

/** The head of a logout message of ours. Its new ID is unguessable, and an xs:ID (saml-core-2.0-os section 1.3.4). */
export function newHead(saml: Saml, destination: string) {
  const id = `_${saml.random(20).toString('hex')}`
  return { id, issuer: saml.config().entityId, issued: saml.clock.now(), destination }
}

/**
 * A path of the public origin to send a browser to. It is "/" for a text that is not a path, could be read as another host, or
 * leads back to the endpoints of the login. Callers put our own base URL before it.
 */
export function safeReturn(returnTo: string): string {
  if (!/^\/(?![/\\])[\x21-\x7e]*$/.test(returnTo)) return '/'
  const [path = ''] = returnTo.split(/[?#]/)
  // Browsers remove dot segments: `/.//host` would become another host, and `/./saml/slo` a logout.
  const { pathname } = new URL(`https://own.invalid${path}`)
  const leadsBack = pathname.startsWith('/saml/') || pathname === returnPath
  return leadsBack || pathname.startsWith('//') ? '/' : returnTo
}

/** The path a browser comes back to after the IdP's answer has been accepted. */
export const returnPath = '/__authproxy-redirect'

/** The address a browser comes back to with a login that is completed, is no longer known, or has not begun. */
export function backAddress(
  baseUrl: string,
  id: string,
  as: 'flow' | 'resume' = 'flow',
  how?: LoginKind,
): string {
  return `${baseUrl}${returnPath}?flow=${id}${as === 'resume' ? '&resume=1' : ''}${howText(how)}`
}

/** The address a script, or a page of ours, may send its user to: a login that comes back to `returnTo`. */
export function loginAddress(baseUrl: string, returnTo: string, how?: LoginKind): string {
  return `${baseUrl}${returnPath}?login=${encodeURIComponent(safeReturn(returnTo))}${howText(how)}`
}

/** The kind of a login: as another user than the one who is signed in, or with the properties that a rule needs. */
export type LoginKind = 'other' | Pick<AccessRule, 'number' | 'login'>

function howText(how: LoginKind | undefined): string {
  if (how === undefined) return ''
  return how === 'other' ? '&other' : `&rule=${how.number}`
}

/** The kind of login that an address of these functions asks for, by the rules now in force. */
export function kindIn(query: URLSearchParams, { ruleLogins }: SamlConfig): LoginKind | undefined {
  if (query.has('other')) return 'other'
  const number = Number(query.get('rule') ?? 0)
  const login = ruleLogins[number - 1]
  return login && { number, login }
}
