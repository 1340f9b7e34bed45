/**
 * Reads Cache-Control, Pragma and Age as they came, RFC 9111 section 5: the directives this cache uses. Decides nothing. Durations are
 * seconds.
 *
 * When a directive comes more than once the first counts. Directives that disagree are all reported, and the caller honours the stricter
 * one. A malformed duration counts as 0: stale (4.2.1). Only the first MOST_ASKED members of a request are read.
 */
import type { Seconds } from '../../async/clock.ts'
import { type Fields, isToken, listMembers, unquote } from './field.ts'

/** The demands of a request on a cache (5.2.1). A duration is undefined when its directive is absent. */
export type RequestDirectives = Readonly<ReturnType<typeof asked>>

/** The demands of a response on a shared cache (5.2.2). A duration is undefined when its directive is absent. */
export type ResponseDirectives = Readonly<ReturnType<typeof demanded>>

/** The directives of a request. Pragma: no-cache counts when there is no Cache-Control (5.4). */
export function requestDirectives(fields: Fields): RequestDirectives {
  const value = fields.get('cache-control')
  if (value !== undefined) return asked(directives(value, MOST_ASKED))
  const pragma = fields.get('pragma')
  if (pragma === undefined) return noRequestDirectives
  return { ...noRequestDirectives, noCache: directives(pragma, MOST_ASKED).has('no-cache') }
}

/** The most directives of a request. The standard has seven. To read half a million takes a sixth of a second. */
const MOST_ASKED = 1000

function asked(found: Directives) {
  return {
    noCache: found.has('no-cache'),
    noStore: found.has('no-store'),
    onlyIfCached: found.has('only-if-cached'),
    maxAge: duration(found, 'max-age'),
    /** Infinity without an argument: the client accepts any staleness (5.2.1.2). A malformed argument counts as 0. */
    maxStale: isBare(found, 'max-stale') ? Number.POSITIVE_INFINITY : duration(found, 'max-stale'),
    minFresh: duration(found, 'min-fresh'),
  }
}

/** The directives of a response. Pragma has no meaning there. */
export function responseDirectives(fields: Fields): ResponseDirectives {
  const value = fields.get('cache-control')
  return value === undefined ? noResponseDirectives : demanded(directives(value))
}

function demanded(found: Directives) {
  const noCacheFields = fieldNames(found, 'no-cache')
  const privateFields = fieldNames(found, 'private')
  return {
    noStore: found.has('no-store'),
    /** True when the directive names no fields: no part of the response may be used without asking the origin. */
    noCache: found.has('no-cache') && noCacheFields.length === 0,
    /** Names of fields in lower case: only these must not be used without asking the origin. */
    noCacheFields,
    /** True when the directive names no fields: a shared cache may not store the response. */
    private: found.has('private') && privateFields.length === 0,
    /** Names of fields in lower case: a shared cache may not store only these. */
    privateFields,
    mustRevalidate: found.has('must-revalidate'),
    proxyRevalidate: found.has('proxy-revalidate'),
    mustUnderstand: found.has('must-understand'),
    maxAge: duration(found, 'max-age'),
    sMaxAge: duration(found, 's-maxage'),
  }
}

/** The Age field: the first member of its list, 0 when it is absent or malformed (5.1, 4.2.3). */
export function ageOf(fields: Fields): Seconds {
  const [value = ''] = fields.all('age')
  const [first = ''] = listMembers(value)
  return parseDeltaSeconds(first) ?? 0
}

/** delta-seconds; undefined for any other text. Too large a number counts as 2^31, as the standard demands (1.2.2). */
export function parseDeltaSeconds(text: string): Seconds | undefined {
  return DIGITS.test(text) ? Math.min(Number(text), 2 ** 31) : undefined
}

const DIGITS = /^[0-9]+$/

/** Arguments by directive in lower case, in their order, still quoted. Undefined stands for a missing argument. */
type Directives = ReadonlyMap<string, ReadonlyArray<string | undefined>>

/** cache-directive = token [ "=" ( token / quoted-string ) ] (5.2). Names are case-insensitive; unknown ones are harmless. */
function directives(value: string, most?: number): Directives {
  const found = new Map<string, Array<string | undefined>>()
  for (const member of listMembers(value, most)) {
    const equals = member.indexOf('=')
    // Space before "=" is not allowed. Then the argument counts as malformed, but the directive counts as given.
    const name = (equals < 0 ? member : member.slice(0, equals)).trimEnd().toLowerCase()
    if (!isToken(name)) continue
    const argument = equals < 0 ? undefined : member.slice(equals + 1)
    const before = found.get(name)
    if (before === undefined) found.set(name, [argument])
    else before.push(argument)
  }
  return found
}

const noRequestDirectives = asked(new Map())
const noResponseDirectives = demanded(new Map())

function isBare(found: Directives, name: string): boolean {
  const given = found.get(name)
  return given !== undefined && given[0] === undefined
}

/** Both forms of an argument are accepted, `max-age=5` and `max-age="5"` (5.2). */
function duration(found: Directives, name: string): Seconds | undefined {
  const given = found.get(name)
  if (given === undefined) return undefined
  const argument = given[0] ?? ''
  return parseDeltaSeconds(unquote(argument) ?? argument) ?? 0
}

/** The fields to which a directive is limited. There are none when it comes once without a limit, or its argument is malformed. */
function fieldNames(found: Directives, name: string): readonly string[] {
  const names: string[] = []
  for (const argument of found.get(name) ?? []) {
    const listed = argument === undefined ? [] : listMembers(unquote(argument) ?? argument)
    if (listed.length === 0 || !listed.every(isToken)) return []
    names.push(...listed.map(field => field.toLowerCase()))
  }
  return names
}
