/**
 * The Cache-Status field, RFC 9211: one member says how a cache handled a request. A key or detail may contain hostile text, so only tokens
 * are written unquoted, and no character is written that could end the field.
 */
import type { Seconds } from '../../async/clock.ts'

/** Why the cache forwarded a request (RFC 9211 section 2.2). */
type ForwardReason =
  | 'bypass'
  | 'method'
  | 'uri-miss'
  | 'vary-miss'
  | 'miss'
  | 'request'
  | 'stale'
  | 'partial'

/** Hit and forward exclude each other: for a hit the cache asked no origin (2.1, 2.2). */
export type CacheStatus = Served & Remarks

type Served =
  | { readonly hit: true }
  | {
      readonly hit: false
      /** Undefined when the cache asked no origin, as for a refusal. */
      readonly forward?: ForwardReason | undefined
      /** The origin's status, when it differs from the answer's or tells the client something (2.3). */
      readonly forwardStatus?: number | undefined
      /** Whether the answer was stored (2.5). */
      readonly stored?: boolean | undefined
      /** Whether the request joined the fetch of another request (2.6). */
      readonly collapsed?: boolean | undefined
    }

interface Remarks {
  /** How much longer the response is fresh; negative when it is stale (2.4). */
  readonly ttl?: Seconds | undefined
  /** The cache key (2.7). It is left out unless given, because it may tell more than the client should know. */
  readonly key?: string | undefined
  /** A word or a sentence of our own about the outcome (2.8). */
  readonly detail?: string | undefined
  /** A parameter of our own: the method by which the content was verified. RFC 9211 section 2 allows such parameters. */
  readonly verified?: string | undefined
  /** Another parameter of our own: why the answer is not stored. */
  readonly notStored?: string | undefined
  /** Another parameter of our own: the failure of the origin for which a stored response answers that it has not confirmed. */
  readonly failure?: string | undefined
}

/** One member, such as `cachesvc; fwd=stale; fwd-status=304; ttl=300; detail=revalidated`. `cache` names this cache. */
export function formatCacheStatus(cache: string, status: CacheStatus): string {
  let member = formatTokenOrString(cache)
  if (status.hit) member += '; hit'
  else {
    if (status.forward !== undefined) member += `; fwd=${status.forward}`
    member += integer('fwd-status', status.forwardStatus)
  }
  member += integer('ttl', status.ttl)
  if (!status.hit && status.stored === true) member += '; stored'
  if (!status.hit && status.collapsed === true) member += '; collapsed'
  if (status.key !== undefined) member += `; key=${formatString(status.key)}`
  if (status.detail !== undefined) member += `; detail=${formatTokenOrString(status.detail)}`
  if (status.verified !== undefined) member += `; verified=${formatTokenOrString(status.verified)}`
  if (status.notStored !== undefined) {
    member += `; not-stored=${formatTokenOrString(status.notStored)}`
  }
  if (status.failure !== undefined) member += `; failure=${formatTokenOrString(status.failure)}`
  return member
}

/** sf-token = ( ALPHA / "*" ) *( tchar / ":" / "/" ) (RFC 8941 section 3.3.4) */
const TOKEN = /^[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*$/

/** Longer text is cut off, because some clients limit the length of a line. */
const MAX_TEXT = 256

function formatTokenOrString(text: string): string {
  return text.length <= MAX_TEXT && TOKEN.test(text) ? text : formatString(text)
}

/** sf-string: printable ASCII, quote and backslash escaped (RFC 8941 section 3.3.3); other characters become "?". */
function formatString(text: string): string {
  const printable = text.slice(0, MAX_TEXT).replace(/[^\x20-\x7e]/g, '?')
  return `"${printable.replace(/["\\]/g, '\\$&')}"`
}

/** sf-integer: at most 15 digits (RFC 8941 section 3.3.1). A number that is not finite is left out. */
function integer(name: string, value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return ''
  const limit = 999_999_999_999_999
  // Adding 0 turns minus 0 into 0.
  return `; ${name}=${Math.min(Math.max(Math.trunc(value), -limit), limit) + 0}`
}
