/**
 * Conditional requests, RFC 9110 section 13. Knows the request's fields and the validators of the response that would be sent.
 *
 * The caller applies section 13.2.1: preconditions count only when the answer without them would be 2xx or 412.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { parseDate } from './date.ts'
import type { Fields } from './field.ts'
import {
  type EntityTag,
  isLastModifiedStrong,
  parseEntityTag,
  parseEntityTags,
  strongMatch,
  type Validators,
  weakMatch,
} from './validator.ts'

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
