/**
 * Decides whether a stored response answers a request, RFC 9111 section 4. Pure.
 *
 * # Facts
 * - apt sends `max-age=0` on every index, those named by their digest among them, and nothing on packages. An immutable file
 *   has no newer version, so `max-age=0` is ignored there; `no-cache` is a user's explicit request and counts everywhere.
 * - Many machines update in the same second. What the origin confirmed a moment ago answers all but `no-cache`.
 * - Release and Release.gpg must be of one moment, or the signature does not fit: the origin is asked about both every time.
 * - A flat repository without Release costs twenty 404s an update, all asked with `max-age=0`: a remembered 404 answers them.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { type RequestDirectives, responseDirectives } from '../../http/message/cache-control.ts'
import { Fields } from '../../http/message/field.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { Entry } from '../store/entry.ts'
import { currentAge, type FreshnessSettings, freshnessOf, isJustValidated } from './freshness.ts'

export interface Question {
  readonly stored: Entry | undefined
  /** Until when the origin's 404 is remembered; undefined when there is none. */
  readonly negativeUntil: Milliseconds | undefined
  readonly path: ArchivePath
  /** What an adopted index says the content must be. */
  readonly claim?: { readonly digest: string } | undefined
  /** From when on the origin is asked however fresh the copy is; undefined for most files. */
  readonly checkFrom?: Milliseconds | undefined
  /** What the client's request asks of caches. */
  readonly directives: RequestDirectives
  /** Whether the request carries credentials for the origin, in a field or in the URL. */
  readonly authorization: boolean
  /** Whether the policy says passthrough. */
  readonly passthrough: boolean
  /** Whether no origin may be asked. */
  readonly offline?: boolean
  readonly settings: FreshnessSettings
  readonly now: Milliseconds
}

export type StoreReason =
  | 'immutable'
  | 'fresh'
  | 'validated-just-now'
  | 'max-stale'
  | 'as-released'
  | 'offline'
type RevalidateReason = 'stale' | 'max-age' | 'no-cache' | 'min-fresh'
type OriginReason = 'absent' | 'authorization' | 'no-store' | 'passthrough'

export type FailReason = 'only-if-cached' | 'offline'

export type Decision =
  | { readonly use: 'store'; readonly because: StoreReason; readonly entry: Entry }
  | { readonly use: 'revalidate'; readonly because: RevalidateReason; readonly entry: Entry }
  /** Fetch it in place of what is stored: an adopted index says that it has other content. */
  | { readonly use: 'replace'; readonly because: 'superseded'; readonly entry: Entry }
  /** Ask the origin. With `no-store` nothing is stored; with `authorization` and `passthrough` neither, and nothing shared. */
  | { readonly use: 'origin'; readonly because: OriginReason }
  /** Answer with the remembered 404. */
  | { readonly use: 'negative'; readonly because: 'not-found-remembered' }
  /** Answer 504 (RFC 9111 section 5.2.1.7). */
  | { readonly use: 'fail'; readonly because: FailReason }

/** What to answer a request from, and why. */
export function lookup(question: Question): Decision {
  const decision = withoutAsking(question)
  const asksOrigin = ['origin', 'revalidate', 'replace'].includes(decision.use)
  if (asksOrigin && question.offline === true) return withoutOrigin(decision)
  // 5.2.1.7: the client wants what is stored, or 504.
  return asksOrigin && question.directives.onlyIfCached
    ? { use: 'fail', because: 'only-if-cached' }
    : decision
}

/** What is stored, of any age. A request that nothing stored may answer fails. */
function withoutOrigin(decision: Decision): Decision {
  return decision.use === 'revalidate'
    ? { use: 'store', because: 'offline', entry: decision.entry }
    : { use: 'fail', because: 'offline' }
}

function withoutAsking(question: Question): Decision {
  const { stored, directives, path, claim, settings, now } = question
  if (question.passthrough) return { use: 'origin', because: 'passthrough' }
  // Nothing stored was asked for with credentials, so nothing stored is this client's answer.
  if (question.authorization) return { use: 'origin', because: 'authorization' }
  if (stored === undefined) return withoutEntry(question)
  if (claim !== undefined && claim.digest !== stored.digest) {
    const decision = withoutEntry(question)
    const absent = decision.use === 'origin' && decision.because === 'absent'
    return absent ? { use: 'replace', because: 'superseded', entry: stored } : decision
  }
  // 5.2.1.4: not without successful validation.
  if (directives.noCache) return { use: 'revalidate', because: 'no-cache', entry: stored }
  const fresh = freshnessOf(stored, path, { settings, now })
  const checked = question.checkFrom !== undefined && now >= question.checkFrom
  const remaining = checked && fresh !== Number.POSITIVE_INFINITY ? Math.min(0, fresh) : fresh
  if (remaining === Number.POSITIVE_INFINITY) {
    return { use: 'store', because: 'immutable', entry: stored }
  }
  // The client wants the content its own Release names, and no other.
  if (claim !== undefined) return { use: 'store', because: 'as-released', entry: stored }
  const because = objection(question, stored, remaining)
  if (because === undefined) {
    return { use: 'store', because: remaining > 0 ? 'fresh' : 'max-stale', entry: stored }
  }
  const floor = path.detached ? 0 : settings.floor
  return isJustValidated(stored, floor, now)
    ? { use: 'store', because: 'validated-just-now', entry: stored }
    : { use: 'revalidate', because, entry: stored }
}

function withoutEntry({ negativeUntil, directives, settings, now }: Question): Decision {
  // A 404 remembered for longer than the setting allows was remembered before the clock was set back.
  const remembered =
    negativeUntil !== undefined && negativeUntil > now && negativeUntil <= now + settings.negative
  if (remembered && !directives.noCache) return { use: 'negative', because: 'not-found-remembered' }
  return { use: 'origin', because: directives.noStore ? 'no-store' : 'absent' }
}

/** Why a copy that can change does not answer as it is; undefined when it does. */
function objection(
  { directives, now }: Question,
  stored: Entry,
  remaining: number,
): RevalidateReason | undefined {
  const { maxAge, minFresh, maxStale } = directives
  // 5.2.1.1. Zero asks for validation, however young the copy is.
  if (maxAge !== undefined && (maxAge === 0 || currentAge(stored, now) > maxAge)) return 'max-age'
  if (remaining <= 0) {
    // 5.2.1.2: stale by no more than this will do, if the origin allows it.
    const enough = maxStale !== undefined && -remaining <= maxStale && allowsStale(stored)
    return enough ? undefined : 'stale'
  }
  // 5.2.1.3
  return minFresh !== undefined && remaining < minFresh ? 'min-fresh' : undefined
}

/** Whether no directive of the origin forbids a stale answer (4.2.4). */
export function allowsStale(stored: Entry): boolean {
  const origin = responseDirectives(Fields.of(...stored.fields))
  const forbids = origin.noCache || origin.mustRevalidate || origin.proxyRevalidate
  return !forbids && origin.sMaxAge === undefined
}
