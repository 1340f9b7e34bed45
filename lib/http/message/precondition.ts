/**
 * Conditional requests, RFC 9110 section 13, and the validators that they compare: entity tags and dates that identify one state of a
 * representation (section 8.8). Knows fields, and not what they are of.
 *
 * The caller applies section 13.2.1: preconditions count only when the answer without them would be 2xx or 412.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { parseDate } from './date.ts'
import type { Fields } from './field.ts'

interface SelectedRepresentation {
  /** Validators of the current representation; undefined when there is none. */
  readonly validators: Validators | undefined
  /** A cache leaves If-Match and If-Unmodified-Since to the origin server (RFC 9111 section 4.3.2). */
  readonly role: 'origin' | 'cache'
}

/**
 * Evaluates the preconditions of a request, in the order of section 13.2.2. The answer is the status that they demand, or 200 when the
 * request goes on. `ifRangeHolds` is the last step.
 */
export function statusByPreconditions(
  request: { readonly method: string; readonly fields: Fields },
  selected: SelectedRepresentation,
  now: Milliseconds,
): 200 | 304 | 412 {
  const { method, fields } = request
  // Methods that neither select nor modify a representation have no preconditions (13.2.1).
  if (method === 'CONNECT' || method === 'OPTIONS' || method === 'TRACE') return 200
  const { validators, role } = selected

  if (role === 'origin') {
    const ifMatch = fields.get('if-match')
    const ifUnmodifiedSince = fields.get('if-unmodified-since')
    // 1. If-Match: when true, go on to step 3; when false, answer 412.
    if (ifMatch !== undefined) {
      if (!anyMatches(ifMatch, validators, strongMatch)) return 412
    }
    // 2. If-Match absent, If-Unmodified-Since: when true, go on; when false, answer 412.
    else if (ifUnmodifiedSince !== undefined) {
      if (isUnmodifiedSince(ifUnmodifiedSince, validators, now) === false) return 412
    }
  }

  const reading = method === 'GET' || method === 'HEAD'
  const ifNoneMatch = fields.get('if-none-match')
  // 3. If-None-Match: when true, go on to step 5; when false, answer 304 to GET and HEAD, and 412 to others.
  if (ifNoneMatch !== undefined) {
    if (!anyMatches(ifNoneMatch, validators, weakMatch)) return 200
    return reading ? 304 : 412
  }
  // 4. GET or HEAD, If-None-Match absent, If-Modified-Since: when true, go on; when false, answer 304.
  const ifModifiedSince = reading ? fields.get('if-modified-since') : undefined
  if (ifModifiedSince !== undefined && isUnmodifiedSince(ifModifiedSince, validators, now)) {
    return 304
  }
  // 5. The caller applies If-Range with `ifRangeHolds` where it chooses ranges.
  return 200
}

/**
 * Whether If-Range lets the Range of a GET count (13.1.5); true when there is no If-Range. It holds only when every byte of the
 * representation is certain to be the same. So a weak entity tag never holds, and a date holds only when it equals a strong Last-Modified
 * exactly.
 */
export function ifRangeHolds(fields: Fields, validators: Validators, now: Milliseconds): boolean {
  const value = fields.get('if-range')
  if (value === undefined) return true
  const tag = parseEntityTag(value)
  if (tag !== undefined) return validators.etag !== undefined && strongMatch(tag, validators.etag)
  const moment = parseDate(value, now)
  return (
    moment !== undefined && moment === validators.lastModified && isLastModifiedStrong(validators)
  )
}

/** "*" matches any current representation, and a list matches one whose tag it holds. Without a representation nothing matches. */
function anyMatches(
  value: string,
  validators: Validators | undefined,
  match: (a: EntityTag, b: EntityTag) => boolean,
): boolean {
  if (validators === undefined) return false
  const tags = parseEntityTags(value)
  if (tags === undefined) return false
  if (tags === '*') return true
  const current = validators.etag
  return current !== undefined && tags.some(tag => match(tag, current))
}

/** Undefined when the field does not count: it is not one valid date, or there is no modification date (13.1.3, 13.1.4). */
function isUnmodifiedSince(
  value: string,
  validators: Validators | undefined,
  now: Milliseconds,
): boolean | undefined {
  const since = parseDate(value, now)
  if (since === undefined || validators?.lastModified === undefined) return undefined
  return validators.lastModified <= since
}

/** entity-tag = [ "W/" ] DQUOTE *etagc DQUOTE (8.8.3) */
export interface EntityTag {
  readonly weak: boolean
  /** The opaque part without its quotes. No character in it has a meaning, not even a backslash. */
  readonly opaque: string
}

/** The validators of one representation; either may be missing. */
export interface Validators {
  readonly etag?: EntityTag | undefined
  /** Moment of Last-Modified, whole seconds in milliseconds since the epoch. */
  readonly lastModified?: Milliseconds | undefined
  /**
   * Moment of the Date that came with `lastModified`, which decides whether that is strong (8.8.2.2). When it is absent, the caller
   * guarantees that the representation did not change twice within that second.
   */
  readonly date?: Milliseconds | undefined
}

/** The validators that a response carries in ETag, Last-Modified and Date. A malformed one counts as missing. */
export function validatorsOf(fields: Fields, now: Milliseconds): Validators {
  return {
    etag: parseEntityTag(fields.get('etag') ?? ''),
    lastModified: parseDate(fields.get('last-modified') ?? '', now),
    date: parseDate(fields.get('date') ?? '', now),
  }
}

/** An entity tag as a field value; undefined for any other text. "W/" is case-sensitive. */
export function parseEntityTag(text: string): EntityTag | undefined {
  const found = ENTITY_TAG.exec(text)
  if (found === null) return undefined
  return { weak: found[1] !== undefined, opaque: found[2] ?? '' }
}

/** etagc = %x21 / %x23-7E / obs-text: no quote, no space, and the backslash is an ordinary character. */
const ENTITY_TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/

export function formatEntityTag(tag: EntityTag): string {
  return `${tag.weak ? 'W/' : ''}"${tag.opaque}"`
}

/**
 * "*" or the list of entity tags in If-Match or If-None-Match (13.1.1). Undefined when a part of it is malformed, or when there are more
 * than MOST_TAGS tags: to read a quarter of a million takes a seventh of a second.
 */
export function parseEntityTags(value: string): '*' | readonly EntityTag[] | undefined {
  if (value === '*') return '*'
  const tags: EntityTag[] = []
  // Entity tags may hold commas, and backslashes that escape nothing, so the list reader for quoted strings would misread them.
  for (let i = skip(value, 0, ', \t'); i < value.length; i = skip(value, i, ', \t')) {
    const open = value.startsWith('W/', i) ? i + 2 : i
    const close = value.indexOf('"', open + 1)
    const tag = parseEntityTag(value.slice(i, close + 1))
    if (tag === undefined || tags.length === MOST_TAGS) return undefined
    tags.push(tag)
    i = skip(value, close + 1, ' \t')
    if (i < value.length && value[i] !== ',') return undefined
  }
  return tags.length === 0 ? undefined : tags
}

/** The most tags of a list. A client that holds several states of a representation names a few, RFC 9110 section 13.1.2. */
const MOST_TAGS = 1000

function skip(value: string, from: number, characters: string): number {
  let i = from
  while (i < value.length && characters.includes(value.charAt(i))) i += 1
  return i
}

/** Strong comparison (8.8.3.2): the tags are equal, and neither is weak. */
export function strongMatch(a: EntityTag, b: EntityTag): boolean {
  return !a.weak && !b.weak && a.opaque === b.opaque
}

/** Weak comparison (8.8.3.2): the tags are equal; both may be weak. */
export function weakMatch(a: EntityTag, b: EntityTag): boolean {
  return a.opaque === b.opaque
}

/** Whether Last-Modified is strong (8.8.2.2): it is a second older than its Date, so a change within its second would have shown. */
export function isLastModifiedStrong(validators: Validators): boolean {
  if (validators.lastModified === undefined) return false
  return validators.date === undefined || validators.date - validators.lastModified >= 1000
}
