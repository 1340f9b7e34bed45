/**
 * Trace Context of the W3C (Recommendation of 23 November 2021): which `traceparent` and `tracestate` may be passed on.
 *
 * # Facts
 * - A message has at most one `traceparent`. The reader of an invalid one must begin its own trace and must not read `tracestate` (3.3,
 *   4.3).
 * - A reader treats the first four parts of a later version as those of version 00. More may follow after a hyphen (4.3).
 */
import { type Fields, sameName } from './field.ts'

/** The most characters, for later versions; version 00 has 55. */
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
