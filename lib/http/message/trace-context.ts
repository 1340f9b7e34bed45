/**
 * Trace Context of the W3C (Recommendation of 23 November 2021): which `traceparent` and `tracestate` may be passed on.
 *
 * # Facts
 * - One `traceparent` at most; a reader of an invalid one must begin a trace of its own and must not read `tracestate` (3.3, 4.3).
 * - Of versions to come the first four parts are read as those of version 00, and more may follow behind a hyphen (4.3).
 */
import { type Fields, sameName } from './field.ts'

/** Characters of a version to come; version 00 has 55. */
const LONGEST = 256

const PARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/

/** The trace-id of a valid `traceparent`, 32 hexadecimal digits; undefined when there is none, or several. */
export function traceIdOf(fields: Fields): string | undefined {
  const value = fields.get('traceparent')
  if (value === undefined || value.length > LONGEST) return undefined
  const [, version, id, more] = PARENT.exec(value) ?? []
  return version === '00' && more !== undefined ? undefined : id
}

/** The fields without those of Trace Context, unless they are valid. */
export function withValidTrace(fields: Fields): Fields {
  return traceIdOf(fields) === undefined ? fields.where(isNoTrace) : fields
}

function isNoTrace(name: string): boolean {
  return !sameName(name, 'traceparent') && !sameName(name, 'tracestate')
}
