/**
 * Decides by age, freshness and the directives of the request whether a stored response answers it, RFC 9111 sections 4 and 4.2. This
 * file asks no origin.
 *
 * # Facts
 * - apt sends `max-age=0` with every request for an index, also for those named by their digest, and no directive for packages. An
 *   immutable file has no newer version, so `max-age=0` is ignored there. `no-cache` is a user's explicit request and always counts.
 * - Many machines update in the same second. A response that the origin confirmed a moment ago answers all requests but `no-cache`.
 * - Release and Release.gpg must belong together, or the signature does not fit. So the origin is asked about both every time.
 * - A flat repository without Release causes twenty 404s per update, all for requests with `max-age=0`. Remembered 404s answer them.
 * - A file whose name changes with its content (by digest, below a past date) is immutable and always fresh. So is a file whose name
 *   has a version, while an adopted index names its content. Without such an index, the origin is asked about it as about other
 *   files, because some archives build packages again under the old name.
 * - Files in one directory can belong together, such as a kernel and its initial file system, and clients fetch both within a minute.
 *   Below `dists/` such files are as fresh as indexes. Elsewhere a file for which the origin states no time is fresh for at most a tenth
 *   of the age that it had when the origin was last asked (section 4.2.2), because files that belong together change together.
 * - For all other files the configuration says how long the origin need not be asked again. The origin's max-age or Expires may
 *   shorten that time but not lengthen it: content delivery networks set a day for whole sites, including Release files, and apt
 *   would report expired Release files. RFC 9111 section 4.2.4 lets a cache ask earlier than it must.
 * - The configured time runs from the last answer of the origin; the origin's lifetime runs from the making of the response. A copy
 *   that arrives ninety seconds old from a content delivery network is still the newest one.
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
import type { Claim } from '../suites/generation.ts'
import type { Suites } from '../suites/suites.ts'
import { asksForItself, isOfNoArchive, mayDiffer } from './client-fields.ts'
import type { DelayReason, HitReason, MissReason, StaleReason } from './outcome.ts'

/** A request for a file that the policy has admitted, and what the proxy knows of the file. */
export interface FileRequest {
  readonly key: string
  readonly archive: ArchivePath
  readonly stored: Reading
  /** The content that an adopted index names for the file. */
  readonly claim?: Pick<Claim, 'digest' | 'others'> | undefined
  /** Whether an index that may name the file is still being read. */
  readonly awaited?: boolean
  readonly directives: RequestDirectives
  /** The fields of the client; undefined for a question that is not about one client, and for apt's. */
  readonly fields?: Fields | undefined
  /** Whether the last response may not be stored. */
  readonly unstorable?: boolean
  /** Whether the request carries credentials for the origin, in a field or in the URL. */
  readonly authorization: boolean
  readonly passthrough: boolean
  readonly now: Milliseconds
  readonly config: { readonly offline: boolean; readonly freshness: FreshnessSettings }
  /** The remembered 404s. A command that runs beside the service has none. */
  readonly negative?: Pick<NegativeMemory, 'get'> | undefined
  /** The adopted suites. A command that runs beside the service does not have them. */
  readonly suites?: Pick<Suites, 'checkFrom' | 'governs'> | undefined
}

/** The keys for which the origin answered 404, each with the moment until which that answer holds. The moment can be past. */
export type NegativeMemory = LRUCache<string, Milliseconds>

export type StoreReason = Exclude<HitReason, 'validated' | DelayReason | StaleReason>
export type RevalidateReason = 'stale' | 'max-age' | 'no-cache' | 'min-fresh'
export type OriginReason = Extract<
  MissReason,
  'absent' | 'unreadable' | 'authorization' | 'no-store' | 'passthrough' | 'own-fields'
>

export type FailReason = 'only-if-cached' | 'offline'

export type Decision =
  | { readonly use: 'store'; readonly because: StoreReason; readonly entry: Entry }
  | { readonly use: 'revalidate'; readonly because: RevalidateReason; readonly entry: Entry }
  /** Fetch the file instead of the stored one, because an adopted index names other content. */
  | { readonly use: 'replace'; readonly because: 'superseded'; readonly entry: Entry }
  /** Ask the origin. The response is stored only with the reasons `absent` and `unreadable`. */
  | { readonly use: 'origin'; readonly because: OriginReason }
  | { readonly use: 'negative'; readonly because: 'not-found-remembered' }
  /** Answer 504 (RFC 9111 section 5.2.1.7). */
  | { readonly use: 'fail'; readonly because: FailReason }

/** Decides by what is stored, and says why. `decide` adds what suites and origins add. */
export function lookup(request: FileRequest): Decision {
  const decision = withoutAsking(request)
  if (decision.use === 'store' || decision.use === 'negative') return decision
  if (request.config.offline) {
    // A stored file of any age answers. A request that no stored file may answer fails.
    return decision.use === 'revalidate'
      ? { use: 'store', because: 'offline', entry: decision.entry }
      : { use: 'fail', because: 'offline' }
  }
  // 5.2.1.7: the client wants a stored response or 504.
  return request.directives.onlyIfCached ? { use: 'fail', because: 'only-if-cached' } : decision
}

function withoutAsking(request: FileRequest): Decision {
  const { stored, directives, archive, claim, config, now } = request
  const settings = config.freshness
  if (request.passthrough) return { use: 'origin', because: 'passthrough' }
  // No stored response was made for a request with credentials, so none answers this client.
  if (request.authorization) return { use: 'origin', because: 'authorization' }
  if (wantsOwnAnswer(request)) return { use: 'origin', because: 'own-fields' }
  if (stored === undefined || stored === 'unreadable') return withoutEntry(request)
  if (claim !== undefined && claim.digest !== stored.digest) {
    const decision = withoutEntry(request)
    const absent = decision.use === 'origin' && decision.because === 'absent'
    return absent ? { use: 'replace', because: 'superseded', entry: stored } : decision
  }
  // 5.2.1.4: a stored response answers only after a successful validation.
  if (directives.noCache) return { use: 'revalidate', because: 'no-cache', entry: stored }
  // After `cachesvc refresh` the origin is asked, whatever the client accepts and an index says.
  if (stored.validated === neverConfirmed)
    return { use: 'revalidate', because: 'stale', entry: stored }
  // The client may already have an index that names other content for the package.
  if (request.awaited) return { use: 'revalidate', because: 'stale', entry: stored }
  const fresh = freshnessOf(stored, archive, { settings, now, claim, suites: request.suites })
  const checkFrom = archive.kind === 'release' ? request.suites?.checkFrom(stored) : undefined
  const checked = checkFrom !== undefined && now >= checkFrom
  const remaining = checked && fresh !== Number.POSITIVE_INFINITY ? Math.min(0, fresh) : fresh
  if (remaining === Number.POSITIVE_INFINITY) {
    return { use: 'store', because: 'immutable', entry: stored }
  }
  // The client wants exactly the content that its Release file names.
  if (claim !== undefined && claim.others === undefined)
    return { use: 'store', because: 'as-released', entry: stored }
  const because = objection(request, stored, remaining)
  if (because === undefined) {
    return { use: 'store', because: remaining > 0 ? 'fresh' : 'max-stale', entry: stored }
  }
  const floor = archive.detached || mayNotFit(request, stored) ? 0 : settings.floor
  return isJustValidated(stored, floor, now)
    ? { use: 'store', because: 'validated-just-now', entry: stored }
    : { use: 'revalidate', because, entry: stored }
}

/**
 * Whether a Release file and its indexes may come from two publications, because no adopted suite holds them together. An index that is
 * not named may be older than the Release file which the client has just got, and a Release file older than the index it gets next.
 */
function mayNotFit({ archive, claim, suites }: FileRequest, stored: Entry): boolean {
  if (archive.kind === 'index') return claim === undefined
  return archive.kind === 'release' && suites?.governs(stored) === false
}

/** Whether the fields of the client choose the answer. Offline, a stored file is the best answer that there is. */
function wantsOwnAnswer({ archive, fields, stored, config, unstorable }: FileRequest): boolean {
  if (fields === undefined || !isOfNoArchive(archive) || config.offline) return false
  if (asksForItself(archive, fields)) return true
  if (stored === undefined || stored === 'unreadable') {
    return unstorable === true && mayDiffer(archive, fields, pageFields)
  }
  return mayDiffer(archive, fields, Fields.of(...stored.fields))
}

/** The fields of a response that is not stored count as those of a page. */
const pageFields = Fields.of(['Content-Type', 'text/html'])

function withoutEntry({ key, stored, negative, directives, config, now }: FileRequest): Decision {
  const until = negative?.get(key) ?? now
  // If a 404 holds for longer than the setting allows, the clock was set back after it was remembered.
  const remembered = until > now && until <= now + config.freshness.negative
  if (remembered && !directives.noCache) return { use: 'negative', because: 'not-found-remembered' }
  if (directives.noStore) return { use: 'origin', because: 'no-store' }
  return { use: 'origin', because: stored === 'unreadable' ? 'unreadable' : 'absent' }
}

/** The reason for which a mutable copy needs a validation; undefined when it answers without one. */
function objection(
  { directives, now }: FileRequest,
  stored: Entry,
  remaining: number,
): RevalidateReason | undefined {
  const { maxAge, minFresh, maxStale } = directives
  // 5.2.1.1. Zero asks for a validation of even the youngest copy.
  if (maxAge !== undefined && (maxAge === 0 || currentAge(stored, now) > maxAge)) return 'max-age'
  if (remaining <= 0) {
    // 5.2.1.2: the client accepts a copy that is stale by at most this, if the origin allows it.
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

/** The parts of an entry that freshness depends on. */
export type StoredResponse = Pick<
  Entry,
  'fields' | 'stored' | 'validated' | 'initialAge' | 'verified'
>

/** The other values that freshness depends on. */
interface Circumstances extends Pick<FileRequest, 'now' | 'claim' | 'suites'> {
  readonly settings: FreshnessSettings
}

/**
 * The time for which a stored response stays fresh from `now` on. It is Infinity when the response is immutable, zero or negative when
 * it is stale, and -Infinity when its age is unknown.
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
  const configured = configuredLifetime(path, settings)
  const lifetime = originLifetime(stored, fields)
  // 4.2.2: "A cache MUST NOT use heuristics to determine freshness when an explicit expiration time is present".
  const longest =
    lifetime === undefined
      ? Math.min(configured, heuristicLifetime(path, stored, fields))
      : configured
  const remaining = (longest - residentTime(stored, now)) / 1000
  return lifetime === undefined
    ? remaining
    : Math.min(remaining, lifetime - currentAge(stored, now))
}

/**
 * The age of a stored response (4.2.3) in whole seconds, as sent in the field Age. It is never negative. After `cachesvc refresh` it
 * counts from the moment when the response was stored, because no validation counts.
 */
export function currentAge(stored: StoredResponse, now: Milliseconds): Seconds {
  const { initialAge, validated } = stored
  const since = validated === neverConfirmed ? { ...stored, validated: stored.stored } : stored
  return Math.max(0, initialAge) + Math.floor(residentTime(since, now) / 1000)
}

/** Whether the origin confirmed the response less than `floor` ago. Then it is not asked again, even for `max-age=0`. */
export function isJustValidated(
  stored: StoredResponse,
  floor: Milliseconds,
  now: Milliseconds,
): boolean {
  return !isFromTheFuture(stored, now) && residentTime(stored, now) < floor
}

/** The moments when a request went out and when the head of its response arrived. */
export interface ResponseTimes {
  readonly requested: Milliseconds
  readonly received: Milliseconds
}

/** The age of a response on arrival in whole seconds (4.2.3, corrected_initial_age), for `Entry.initialAge`. */
export function initialAge(response: Fields, { requested, received }: ResponseTimes): Seconds {
  // apparent_age = max(0, response_time - date_value)
  const apparent = received - (dateOf(response, 'date', received) ?? received)
  // corrected_age_value = age_value + response_delay
  const corrected = ageOf(response) * 1000 + Math.max(0, received - requested)
  // corrected_initial_age = max(apparent_age, corrected_age_value)
  return Math.floor(Math.max(0, apparent, corrected) / 1000)
}

/**
 * Whether the content can never change. A file below a date is immutable if the date had passed when the origin was last asked: an
 * archive answers a future date with its newest files, and takes in the changes of a day some hours late. A name with a version
 * counts while the origin confirmed the file lately, or an adopted index names its content. After `cachesvc refresh` no file counts
 * as immutable until the origin has been asked.
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
  // Indexes name several contents for it, so the origin may have another one than before.
  if (claim?.others !== undefined) return false
  if (!isFromTheFuture(stored, now) && residentTime(stored, now) <= settings.other) return true
  if (claim !== undefined) return true
  return suites === undefined && stored.verified?.by === 'index'
}

/** Two days, because dated archives were observed to lag by most of one day. */
const SETTLING: Milliseconds = 2 * day

function isFromTheFuture(stored: StoredResponse, now: Milliseconds): boolean {
  return stored.validated > now + CLOCK_CORRECTION
}

/** A clock that moves back by less than this counts as corrected, not as set back. */
const CLOCK_CORRECTION: Milliseconds = 10_000

/** resident_time (4.2.3) */
function residentTime(stored: StoredResponse, now: Milliseconds): Milliseconds {
  return Math.max(0, now - stored.validated)
}

function configuredLifetime(
  { kind, detached, ofSuite, foreign }: ArchivePath,
  settings: FreshnessSettings,
): Milliseconds {
  // A signature has no lifetime of its own.
  if (detached) return 0
  // No index says here which packages belong to which metadata, so the origin is asked about each.
  if (foreign) return settings.floor
  return kind === 'release' || kind === 'index' || kind === 'pdiff' || ofSuite
    ? settings.index
    : settings.other
}

/**
 * 4.2.2: a tenth of the age that the content had when the origin was last asked. The age counts from Last-Modified, else from the
 * moment when the response was stored. A response without a validator and without a lifetime is most often made for each request, so
 * the origin is asked each time.
 */
function heuristicLifetime(
  path: ArchivePath,
  stored: StoredResponse,
  fields: Fields,
): Milliseconds {
  if (path.kind !== 'other') return Number.POSITIVE_INFINITY
  const modified = dateOf(fields, 'last-modified', stored.validated)
  if (modified === undefined && !fields.has('etag')) {
    const perRequest = isOfNoArchive(path) && originLifetime(stored, fields) === undefined
    return perRequest ? 0 : Number.POSITIVE_INFINITY
  }
  return Math.max(0, stored.validated - (modified ?? stored.stored)) / 10
}

/**
 * The freshness_lifetime that the origin states (4.2.1): s-maxage, else max-age, else Expires minus Date; undefined when it
 * states none. `no-cache` gives a lifetime of zero, because the response must be confirmed every time.
 */
function originLifetime(stored: StoredResponse, fields: Fields): Seconds | undefined {
  const { noCache, sMaxAge, maxAge } = responseDirectives(fields)
  if (noCache) return 0
  if (sMaxAge !== undefined) return sMaxAge
  if (maxAge !== undefined) return maxAge
  if (!fields.has('expires')) return undefined
  // 5.3: an invalid date, often `0`, counts as a date in the past.
  const expires = dateOf(fields, 'expires', stored.validated)
  if (expires === undefined) return 0
  const date = dateOf(fields, 'date', stored.validated) ?? stored.validated
  return Math.max(0, expires - date) / 1000
}

function dateOf(fields: Fields, name: string, now: Milliseconds): Milliseconds | undefined {
  const [value] = fields.all(name)
  return value === undefined ? undefined : parseDate(value, now)
}
