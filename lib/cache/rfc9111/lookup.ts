/**
 * Decides from its age and freshness whether a stored response answers a request, RFC 9111 sections 4 and 4.2. What the
 * request asks of caches counts too. Asks no origin.
 *
 * # Facts
 * - apt sends `max-age=0` on every index, those named by their digest among them, and nothing on packages. An immutable file
 *   has no newer version, so `max-age=0` is ignored there; `no-cache` is a user's explicit request and counts everywhere.
 * - Many machines update in the same second. What the origin confirmed a moment ago answers all but `no-cache`.
 * - Release and Release.gpg must be of one moment, or the signature does not fit: the origin is asked about both every time.
 * - A flat repository without Release costs twenty 404s an update, all asked with `max-age=0`: a remembered 404 answers them.
 * - A file whose name changes with its content (by digest, below a past date) is immutable and always fresh. So is one whose name
 *   has a version, while an adopted index names its content. Where none does, the origin is asked about it as about other files:
 *   some archives build packages anew under the old name.
 * - Files beside each other can belong together, as a kernel and its initial file system do, and clients take both in one minute.
 *   Below `dists/` they are as fresh as indexes. Elsewhere a tenth of the age a file had when the origin was last asked is enough
 *   (section 4.2.2), because what has just changed has changed with others.
 * - For everything else the configuration says how long the origin need not be asked again. The origin's own max-age or
 *   Expires may shorten that but not lengthen it: content delivery networks give a day to whole sites, Release files among
 *   them, and apt would report expired Release files. RFC 9111 section 4.2.4 lets a cache ask earlier than it must.
 * - The configured time runs from the last answer of the origin, the origin's own from when the response was made. A copy
 *   that a content delivery network sends ninety seconds old is still the newest there is.
 * - A clock may be set back. A copy from the future has an unknown age: it counts as stale, and no age becomes negative.
 */
import type { LRUCache } from 'lru-cache'
import { day, type Milliseconds, type Seconds } from '../../async/clock.ts'
import {
  ageOf,
  type RequestDirectives,
  responseDirectives,
} from '../../http/message/cache-control.ts'
import { parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { Config } from '../config/config.ts'
import { type Entry, neverConfirmed, type Reading } from '../store/entry.ts'
import type { DelayReason, HitReason, MissReason, StaleReason } from './outcome.ts'

/** A request for a file that the policy has admitted, and all that is known of the file. */
export interface FileRequest {
  readonly key: string
  readonly archive: ArchivePath
  readonly stored: Reading
  /** What an adopted index says the content must be. */
  readonly claim?: { readonly digest: string } | undefined
  /** An index that may say so is still being read. */
  readonly awaited?: boolean
  readonly directives: RequestDirectives
  /** Whether the request carries credentials for the origin, in a field or in the URL. */
  readonly authorization: boolean
  readonly passthrough: boolean
  readonly now: Milliseconds
  readonly config: { readonly offline: boolean; readonly freshness: FreshnessSettings }
  /** A command that runs beside the service has no memory of 404s. */
  readonly negative?: Pick<NegativeMemory, 'get'> | undefined
  /** What adopted suites say; a command that runs beside the service does not know. */
  readonly suites?: SuitesSay | undefined
}

interface SuitesSay {
  /** From when on the origin is asked about a Release file however fresh the copy is. */
  checkFrom(release: Entry): Milliseconds | undefined
  /** Whether an adopted index names this content for this file. */
  confirms(entry: StoredResponse): boolean
}

/** The keys the origin answered 404 for, each with the moment until which that holds. The moment can be past. */
export type NegativeMemory = LRUCache<string, Milliseconds>

export type StoreReason = Exclude<HitReason, 'validated' | DelayReason | StaleReason>
type RevalidateReason = 'stale' | 'max-age' | 'no-cache' | 'min-fresh'
type OriginReason = Extract<
  MissReason,
  'absent' | 'unreadable' | 'authorization' | 'no-store' | 'passthrough'
>

export type FailReason = 'only-if-cached' | 'offline'

export type Decision =
  | { readonly use: 'store'; readonly because: StoreReason; readonly entry: Entry }
  | { readonly use: 'revalidate'; readonly because: RevalidateReason; readonly entry: Entry }
  /** Fetch it in place of what is stored: an adopted index says that it has other content. */
  | { readonly use: 'replace'; readonly because: 'superseded'; readonly entry: Entry }
  /** Ask the origin. With `no-store` nothing is stored; with `authorization` and `passthrough` neither, and nothing shared. */
  | { readonly use: 'origin'; readonly because: OriginReason }
  | { readonly use: 'negative'; readonly because: 'not-found-remembered' }
  /** Answer 504 (RFC 9111 section 5.2.1.7). */
  | { readonly use: 'fail'; readonly because: FailReason }

/** What to answer a request from, and why. The pipeline acts on it, and `explain` puts it into words. */
export function lookup(request: FileRequest): Decision {
  const decision = withoutAsking(request)
  if (decision.use === 'store' || decision.use === 'negative') return decision
  if (request.config.offline) {
    // What is stored, of any age. A request that nothing stored may answer fails.
    return decision.use === 'revalidate'
      ? { use: 'store', because: 'offline', entry: decision.entry }
      : { use: 'fail', because: 'offline' }
  }
  // 5.2.1.7: the client wants what is stored, or 504.
  return request.directives.onlyIfCached ? { use: 'fail', because: 'only-if-cached' } : decision
}

function withoutAsking(request: FileRequest): Decision {
  const { stored, directives, archive, claim, config, now } = request
  const settings = config.freshness
  if (request.passthrough) return { use: 'origin', because: 'passthrough' }
  // Nothing stored was asked for with credentials, so nothing stored is this client's answer.
  if (request.authorization) return { use: 'origin', because: 'authorization' }
  if (stored === undefined || stored === 'unreadable') return withoutEntry(request)
  if (claim !== undefined && claim.digest !== stored.digest) {
    const decision = withoutEntry(request)
    const absent = decision.use === 'origin' && decision.because === 'absent'
    return absent ? { use: 'replace', because: 'superseded', entry: stored } : decision
  }
  // 5.2.1.4: not without successful validation.
  if (directives.noCache) return { use: 'revalidate', because: 'no-cache', entry: stored }
  // An operator wants the origin to be asked, whatever this client would accept and an index says.
  if (stored.validated === neverConfirmed)
    return { use: 'revalidate', because: 'stale', entry: stored }
  // The client may have an index already by which the package has other content now.
  if (request.awaited) return { use: 'revalidate', because: 'stale', entry: stored }
  const fresh = freshnessOf(stored, archive, { settings, now, claim, suites: request.suites })
  const checkFrom = archive.kind === 'release' ? request.suites?.checkFrom(stored) : undefined
  const checked = checkFrom !== undefined && now >= checkFrom
  const remaining = checked && fresh !== Number.POSITIVE_INFINITY ? Math.min(0, fresh) : fresh
  if (remaining === Number.POSITIVE_INFINITY) {
    return { use: 'store', because: 'immutable', entry: stored }
  }
  // The client wants the content its own Release names, and no other.
  if (claim !== undefined) return { use: 'store', because: 'as-released', entry: stored }
  const because = objection(request, stored, remaining)
  if (because === undefined) {
    return { use: 'store', because: remaining > 0 ? 'fresh' : 'max-stale', entry: stored }
  }
  const floor = archive.detached ? 0 : settings.floor
  return isJustValidated(stored, floor, now)
    ? { use: 'store', because: 'validated-just-now', entry: stored }
    : { use: 'revalidate', because, entry: stored }
}

function withoutEntry({ key, stored, negative, directives, config, now }: FileRequest): Decision {
  const until = negative?.get(key) ?? now
  // A 404 remembered for longer than the setting allows was remembered before the clock was set back.
  const remembered = until > now && until <= now + config.freshness.negative
  if (remembered && !directives.noCache) return { use: 'negative', because: 'not-found-remembered' }
  if (directives.noStore) return { use: 'origin', because: 'no-store' }
  return { use: 'origin', because: stored === 'unreadable' ? 'unreadable' : 'absent' }
}

/** Why a copy that can change does not answer as it is; undefined when it does. */
function objection(
  { directives, now }: FileRequest,
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

export type FreshnessSettings = Pick<Config['freshness'], 'index' | 'other' | 'negative' | 'floor'>

/** What freshness asks of an entry. */
export type StoredResponse = Pick<
  Entry,
  'fields' | 'stored' | 'validated' | 'initialAge' | 'verified'
>

/** What freshness depends on beside the entry. */
interface Circumstances extends Pick<FileRequest, 'now' | 'claim' | 'suites'> {
  readonly settings: FreshnessSettings
}

/**
 * How long a stored response stays fresh from `now` on: Infinity when it is immutable, zero or negative when it is stale,
 * -Infinity when its age is unknown.
 */
export function freshnessOf(
  stored: StoredResponse,
  path: ArchivePath,
  circumstances: Circumstances,
): Seconds {
  const { settings, now } = circumstances
  if (isImmutable(stored, path, circumstances)) return Number.POSITIVE_INFINITY
  if (isFromTheFuture(stored, now)) return Number.NEGATIVE_INFINITY
  const fields = Fields.of(...stored.fields)
  const configured = Math.min(
    configuredLifetime(path, settings),
    heuristicLifetime(path, stored, fields),
  )
  const remaining = (configured - residentTime(stored, now)) / 1000
  const lifetime = originLifetime(stored, fields)
  return lifetime === undefined
    ? remaining
    : Math.min(remaining, lifetime - currentAge(stored, now))
}

/**
 * The age of a stored response (4.2.3), whole seconds, never negative: what is sent as Age. While an operator wants the origin to
 * be asked, it counts from when the response was stored.
 */
export function currentAge(stored: StoredResponse, now: Milliseconds): Seconds {
  const { initialAge, validated } = stored
  const since = validated === neverConfirmed ? { ...stored, validated: stored.stored } : stored
  return Math.max(0, initialAge) + Math.floor(residentTime(since, now) / 1000)
}

/** Whether the origin has confirmed the response within `floor`: too recently to be asked again, even for `max-age=0`. */
export function isJustValidated(
  stored: StoredResponse,
  floor: Milliseconds,
  now: Milliseconds,
): boolean {
  return !isFromTheFuture(stored, now) && residentTime(stored, now) < floor
}

/** When a request went out and when the head of its response arrived. */
export interface ResponseTimes {
  readonly requested: Milliseconds
  readonly received: Milliseconds
}

/** The age a response has on arrival (4.2.3, corrected_initial_age), whole seconds: `Entry.initialAge`. */
export function initialAge(response: Fields, { requested, received }: ResponseTimes): Seconds {
  // apparent_age = max(0, response_time - date_value)
  const apparent = received - (dateOf(response, 'date', received) ?? received)
  // corrected_age_value = age_value + response_delay
  const corrected = ageOf(response) * 1000 + Math.max(0, received - requested)
  // corrected_initial_age = max(apparent_age, corrected_age_value)
  return Math.floor(Math.max(0, apparent, corrected) / 1000)
}

/**
 * Whether the content can never change. Below a date that holds if the date had passed when the origin was last asked: an
 * archive answers a date to come with the newest it has, and takes in a day's changes some hours late. A version in a name is
 * believed while the origin confirmed the file lately, or an adopted index names its content. No file counts as immutable while an
 * operator wants the origin to be asked.
 */
function isImmutable(
  stored: StoredResponse,
  path: ArchivePath,
  circumstances: Circumstances,
): boolean {
  if (stored.validated === neverConfirmed) return false
  if (path.snapshot !== undefined && stored.validated >= path.snapshot + SETTLING) return true
  if (!path.immutable || path.kind !== 'pool') return path.immutable
  const { settings, now, claim, suites } = circumstances
  if (!isFromTheFuture(stored, now) && residentTime(stored, now) <= settings.other) return true
  if (claim !== undefined) return true
  return suites === undefined ? stored.verified?.by === 'index' : suites.confirms(stored)
}

/** Two days: dated archives have been seen to lag by most of one. */
const SETTLING: Milliseconds = 2 * day

function isFromTheFuture(stored: StoredResponse, now: Milliseconds): boolean {
  return stored.validated > now + CLOCK_CORRECTION
}

/** A clock moved back by less than this was corrected, not set. */
const CLOCK_CORRECTION: Milliseconds = 10_000

/** resident_time (4.2.3) */
function residentTime(stored: StoredResponse, now: Milliseconds): Milliseconds {
  return Math.max(0, now - stored.validated)
}

function configuredLifetime(
  { kind, detached, ofSuite }: ArchivePath,
  settings: FreshnessSettings,
): Milliseconds {
  // A signature has no lifetime of its own.
  if (detached) return 0
  return kind === 'release' || kind === 'index' || kind === 'pdiff' || ofSuite
    ? settings.index
    : settings.other
}

/**
 * 4.2.2: a tenth of the age that the content had when the origin was last asked, by Last-Modified, else by when it was stored. A
 * response without a validator would be fetched whole each time, so it has no such limit.
 */
function heuristicLifetime(
  { kind }: ArchivePath,
  stored: StoredResponse,
  fields: Fields,
): Milliseconds {
  if (kind !== 'other') return Number.POSITIVE_INFINITY
  const modified = dateOf(fields, 'last-modified', stored.validated)
  if (modified === undefined && !fields.has('etag')) return Number.POSITIVE_INFINITY
  return Math.max(0, stored.validated - (modified ?? stored.stored)) / 10
}

/**
 * freshness_lifetime as the origin states it (4.2.1): s-maxage, else max-age, else Expires less Date; undefined when it
 * states none. `no-cache` is a lifetime of zero: to be confirmed every time.
 */
function originLifetime(stored: StoredResponse, fields: Fields): Seconds | undefined {
  const { noCache, sMaxAge, maxAge } = responseDirectives(fields)
  if (noCache) return 0
  if (sMaxAge !== undefined) return sMaxAge
  if (maxAge !== undefined) return maxAge
  if (!fields.has('expires')) return undefined
  // 5.3: an invalid date, `0` above all, is one in the past.
  const expires = dateOf(fields, 'expires', stored.validated)
  if (expires === undefined) return 0
  const date = dateOf(fields, 'date', stored.validated) ?? stored.validated
  return Math.max(0, expires - date) / 1000
}

function dateOf(fields: Fields, name: string, now: Milliseconds): Milliseconds | undefined {
  const [value] = fields.all(name)
  return value === undefined ? undefined : parseDate(value, now)
}
