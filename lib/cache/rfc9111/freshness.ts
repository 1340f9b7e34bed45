/**
 * Freshness of a stored response, RFC 9111 section 4.2, and its age. Pure: fields and time.
 *
 * # Facts
 * - A file whose name changes with its content (by digest, by version, below a past date) is immutable and always fresh.
 * - For everything else the configuration says how long the origin need not be asked again. The origin's own max-age or
 *   Expires may shorten that but not lengthen it: content delivery networks give a day to whole sites, Release files among
 *   them, and apt would report expired Release files. RFC 9111 section 4.2.4 lets a cache ask earlier than it must.
 * - The configured time runs from the last answer of the origin, the origin's own from when the response was made. A copy
 *   that a content delivery network sends ninety seconds old is still the newest there is.
 * - A clock may be set back. A copy from the future has an unknown age: it counts as stale, and no age becomes negative.
 */
import { day, type Milliseconds, type Seconds } from '../../async/clock.ts'
import { ageOf, responseDirectives } from '../../http/message/cache-control.ts'
import { parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { Config } from '../config/config.ts'
import { type Entry, unconfirmed } from '../store/entry.ts'

export type FreshnessSettings = Pick<Config['freshness'], 'index' | 'other' | 'negative' | 'floor'>

/** What freshness asks of an entry. */
export type Stored = Pick<Entry, 'fields' | 'validated' | 'initialAge'>

/**
 * How long a stored response stays fresh from `now` on: Infinity when it is immutable, zero or negative when it is stale,
 * -Infinity when its age is unknown.
 */
export function freshnessOf(
  stored: Stored,
  path: ArchivePath,
  { settings, now }: { readonly settings: FreshnessSettings; readonly now: Milliseconds },
): Seconds {
  if (isImmutable(stored, path)) return Number.POSITIVE_INFINITY
  if (isFromTheFuture(stored, now)) return Number.NEGATIVE_INFINITY
  const configured = (configuredLifetime(path, settings) - residentTime(stored, now)) / 1000
  const lifetime = originLifetime(stored)
  return lifetime === undefined
    ? configured
    : Math.min(configured, lifetime - currentAge(stored, now))
}

/**
 * The age of a stored response (4.2.3), whole seconds, never negative: what is sent as Age.
 */
export function currentAge(stored: Stored, now: Milliseconds): Seconds {
  return Math.max(0, stored.initialAge) + Math.floor(residentTime(stored, now) / 1000)
}

/** Whether the origin has confirmed the response within `floor`: too recently to be asked again, even for `max-age=0`. */
export function isJustValidated(stored: Stored, floor: Milliseconds, now: Milliseconds): boolean {
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
 * archive answers a date to come with the newest it has, and takes in a day's changes some hours late. No file counts as such
 * while an operator wants the origin to be asked.
 */
function isImmutable(stored: Stored, path: ArchivePath): boolean {
  if (stored.validated === unconfirmed) return false
  if (path.immutable) return true
  return path.snapshot !== undefined && stored.validated >= path.snapshot + SETTLING
}

/** Two days: dated archives have been seen to lag by most of one. */
const SETTLING: Milliseconds = 2 * day

function isFromTheFuture(stored: Stored, now: Milliseconds): boolean {
  return stored.validated > now + CLOCK_CORRECTION
}

/** A clock moved back by less than this was corrected, not set. */
const CLOCK_CORRECTION: Milliseconds = 10_000

/** resident_time (4.2.3) */
function residentTime(stored: Stored, now: Milliseconds): Milliseconds {
  return Math.max(0, now - stored.validated)
}

function configuredLifetime(
  { kind, detached }: ArchivePath,
  settings: FreshnessSettings,
): Milliseconds {
  // A signature has no lifetime of its own.
  if (detached) return 0
  return kind === 'release' || kind === 'index' || kind === 'pdiff'
    ? settings.index
    : settings.other
}

/**
 * freshness_lifetime as the origin states it (4.2.1): s-maxage, else max-age, else Expires less Date; undefined when it
 * states none. `no-cache` is a lifetime of zero: to be confirmed every time.
 */
function originLifetime(stored: Stored): Seconds | undefined {
  const fields = Fields.of(...stored.fields)
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
