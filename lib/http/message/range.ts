/**
 * Range requests in bytes, RFC 9110 section 14: which bytes a Range field selects, and what Content-Range says. Puts several ranges into
 * one message.
 *
 * A server may ignore any Range (14.2). This one ignores a Range that is malformed, in another unit, or has very many pieces. It sends
 * ranges that overlap or nearly touch once, so no request costs more than its content.
 */
import { type Fields, listMembers } from './field.ts'

/** Positions of the first and the last byte, both included, counted from 0. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

export type Selection =
  /** Status 200 with the whole content. */
  | { readonly send: 'whole' }
  /** Status 206: one range as it is, several as multipart/byteranges. */
  | { readonly send: 'ranges'; readonly ranges: readonly [ByteRange, ...ByteRange[]] }
  /** Status 416 with `unsatisfiedRange`. */
  | { readonly send: 'unsatisfiable' }

/** A field with more ranges is ignored. Download managers send a few, attackers hundreds (17.15). */
export const maxRanges = 16

/** A gap smaller than this many bytes is sent, too: the head of one more part costs about as much (15.3.7.2). */
const PART_OVERHEAD = 80

/**
 * Selects the bytes to send of a representation of `size` bytes. `conditionHolds` is the answer of `ifRangeHolds`. The ranges are in the
 * order in which they were asked for, merged where they overlap or nearly touch.
 */
export function selectRange(
  request: { readonly method: string; readonly fields: Fields },
  size: number,
  conditionHolds: boolean,
): Selection {
  const value = request.fields.get('range')
  // Range is defined for GET only (14.2).
  if (value === undefined || request.method !== 'GET' || !conditionHolds) return whole
  // No range is satisfiable without a byte, but clients that always send Range expect the empty file, not an error.
  if (size === 0) return whole

  // ranges-specifier = range-unit "=" range-set; units are case-insensitive (14.1).
  if (!BYTES.test(value)) return whole
  const ranges = rangeSet(value.slice('bytes='.length), size)
  if (ranges === undefined) return whole
  const [first, ...rest] = coalesce(ranges)
  return first === undefined
    ? { send: 'unsatisfiable' }
    : { send: 'ranges', ranges: [first, ...rest] }
}

/** Content-Range of a 206 or of one part (14.4). */
export function contentRange(range: ByteRange, size: number): string {
  return `bytes ${range.first}-${range.last}/${size}`
}

/** Content-Range of a 416, which tells the real size (14.4). */
export function unsatisfiedRange(size: number): string {
  return `bytes */${size}`
}

/** The meaning of a received Content-Range. `size` is undefined when the sender does not know it. */
export interface ContentRange extends ByteRange {
  readonly size: number | undefined
}

/**
 * A received Content-Range. Undefined when it has no range, is malformed, in another unit or contradictory; then content is not combined
 * (14.4).
 */
export function parseContentRange(value: string): ContentRange | undefined {
  const found = CONTENT_RANGE.exec(value)
  if (found === null) return undefined
  const [first, last] = [Number(found[1]), Number(found[2])]
  const size = found[3] === undefined ? undefined : Number(found[3])
  if (size !== undefined && !Number.isSafeInteger(size)) return undefined
  if (!Number.isSafeInteger(last) || last < first) return undefined
  if (size !== undefined && size <= last) return undefined
  return { first, last, size }
}

const BYTES = /^bytes=/i
const CONTENT_RANGE = /^bytes ([0-9]+)-([0-9]+)\/(?:([0-9]+)|\*)$/i

const whole: Selection = { send: 'whole' }

/** The satisfiable ranges of a set; undefined when it is malformed or has too many. */
function rangeSet(text: string, size: number): readonly ByteRange[] | undefined {
  const ranges: ByteRange[] = []
  let specs = 0
  for (const member of listMembers(text, maxRanges + 1)) {
    if (specs === maxRanges) return undefined
    specs += 1
    const range = rangeOf(member, size)
    if (range === undefined) return undefined
    if (range.first < size) ranges.push(range)
  }
  return specs === 0 ? undefined : ranges
}

const SPEC = /^([0-9]*)-([0-9]*)$/

/**
 * int-range = first-pos "-" [ last-pos ], suffix-range = "-" suffix-length (14.1.1). A range that is not satisfiable begins at the end or
 * after it (14.1.2). A number too large to be exact is larger than any size, which is enough.
 */
function rangeOf(text: string, size: number): ByteRange | undefined {
  const [, first = '', last = ''] = SPEC.exec(text) ?? []
  if (first === '') {
    return last === '' ? undefined : { first: Math.max(size - Number(last), 0), last: size - 1 }
  }
  const range = { first: Number(first), last: last === '' ? size - 1 : Number(last) }
  // An int-range whose last-pos is less than its first-pos is invalid.
  if (last !== '' && range.last < range.first) return undefined
  return { first: range.first, last: Math.min(range.last, size - 1) }
}

/** Merges ranges that overlap or are nearer than a part's overhead. Each result takes the place of its earliest member. */
function coalesce(ranges: readonly ByteRange[]): readonly ByteRange[] {
  if (ranges.length < 2) return ranges
  const placed = ranges.map((range, place) => ({ ...range, place }))
  placed.sort((a, b) => a.first - b.first)
  const merged: Array<ByteRange & { readonly place: number }> = []
  for (const next of placed) {
    const before = merged.at(-1)
    if (before === undefined || next.first - before.last - 1 >= PART_OVERHEAD) merged.push(next)
    else {
      const last = Math.max(before.last, next.last)
      const place = Math.min(before.place, next.place)
      merged[merged.length - 1] = { first: before.first, last, place }
    }
  }
  merged.sort((a, b) => a.place - b.place)
  return merged.map(({ first, last }) => ({ first, last }))
}

interface ByteRangesInput {
  readonly ranges: readonly ByteRange[]
  /** Bytes of the whole representation. */
  readonly size: number
  /** Content-Type of the representation, repeated in every part; undefined when it has none. */
  readonly contentType: string | undefined
  /** 1 to 70 letters, digits or hyphens, random enough not to occur in the content: 16 random bytes in hex are enough. */
  readonly boundary: string
}

/**
 * The frame of multipart/byteranges content, RFC 9110 section 14.6: each range with the head before its bytes, the bytes after the last
 * range, and the length of all together. The 206 carries no Content-Range of its own (15.3.7.2). Throws a RangeError when the boundary or the
 * content type cannot be written safely.
 */
export function frameByteRanges(input: ByteRangesInput) {
  const { ranges, size, contentType, boundary } = input
  if (!BOUNDARY.test(boundary))
    throw new RangeError('a boundary has 1 to 70 letters, digits, hyphens')
  if (contentType !== undefined && /[\r\n\0]/.test(contentType)) {
    throw new RangeError('a content type has no line breaks')
  }
  const typeLine = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
  const parts = ranges.map((range, place) => {
    // The line break before a delimiter belongs to the delimiter. The first delimiter has none (RFC 2046 section 5.1.1).
    const lines = `${place === 0 ? '' : '\r\n'}--${boundary}\r\n${typeLine}`
    const head = Buffer.from(
      `${lines}Content-Range: ${contentRange(range, size)}\r\n\r\n`,
      'latin1',
    )
    return { head, range }
  })
  const end = Buffer.from(`\r\n--${boundary}--\r\n`, 'latin1')
  const length = parts.reduce(
    (sum, { head, range }) => sum + head.length + (range.last - range.first + 1),
    end.length,
  )
  return { contentType: `multipart/byteranges; boundary=${boundary}`, parts, end, length }
}

/** These are fewer characters than RFC 2046 allows, so that the boundary never needs quotes. */
const BOUNDARY = /^[0-9A-Za-z-]{1,70}$/
