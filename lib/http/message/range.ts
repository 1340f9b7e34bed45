/**
 * Range requests in bytes, RFC 9110 section 14: what a Range field selects, and what Content-Range says. Puts
 * several ranges into one message.
 *
 * A server may ignore any Range (14.2). This one ignores what is malformed, in another unit, or asks for very many pieces;
 * ranges that overlap or nearly touch are sent once, so no request costs more than its content.
 */
import { type Fields, listMembers } from './field.ts'

/** Positions of the first and the last byte, both included, counted from 0. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

export type Selection =
  /** 200 with everything. */
  | { readonly send: 'whole' }
  /** 206: one range as it is, several as multipart/byteranges. */
  | { readonly send: 'ranges'; readonly ranges: readonly [ByteRange, ...ByteRange[]] }
  /** 416 with `unsatisfiedRange`. */
  | { readonly send: 'unsatisfiable' }

/** More specs than this and the field is ignored. Download managers send a few, attackers hundreds (17.15). */
export const maxRanges = 16

/** Gaps smaller than this are sent along: the head of one more part costs about as much (15.3.7.2). */
const PART_OVERHEAD = 80

/**
 * What to send of a representation of `size` bytes. `conditionHolds` is the answer of `ifRangeHolds`. Ranges come in the
 * order they were asked for, merged where they overlap or nearly touch.
 */
export function selectRange(
  request: { readonly method: string; readonly fields: Fields },
  size: number,
  conditionHolds: boolean,
): Selection {
  const value = request.fields.get('range')
  // Range is defined for GET only (14.2).
  if (value === undefined || request.method !== 'GET' || !conditionHolds) return whole
  // No range can be named inside nothing, yet clients that always send Range expect the empty file, not an error.
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

/** Content-Range of a 416: what the size really is (14.4). */
export function unsatisfiedRange(size: number): string {
  return `bytes */${size}`
}

/** What a received Content-Range says. `size` undefined: the sender does not know it. */
export type ContentRange =
  | { readonly kind: 'range'; readonly range: ByteRange; readonly size: number | undefined }
  | { readonly kind: 'unsatisfied'; readonly size: number }

/** A received Content-Range; undefined when malformed, in another unit or contradictory: content is not combined then (14.4). */
export function parseContentRange(value: string): ContentRange | undefined {
  const found = CONTENT_RANGE.exec(value)
  if (found === null) return undefined
  const size = found[3] === undefined ? undefined : Number(found[3])
  if (size !== undefined && !Number.isSafeInteger(size)) return undefined
  if (found[1] === undefined || found[2] === undefined) {
    return size === undefined ? undefined : { kind: 'unsatisfied', size }
  }
  const range = { first: Number(found[1]), last: Number(found[2]) }
  if (!Number.isSafeInteger(range.last) || range.last < range.first) return undefined
  if (size !== undefined && size <= range.last) return undefined
  return { kind: 'range', range, size }
}

const BYTES = /^bytes=/i
const CONTENT_RANGE = /^bytes (?:([0-9]+)-([0-9]+)|\*)\/(?:([0-9]+)|\*)$/i

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
 * int-range = first-pos "-" [ last-pos ], suffix-range = "-" suffix-length (14.1.1). What is not satisfiable begins at the end or
 * behind it (14.1.2). Numbers too large to be exact are larger than any size, which is all that matters.
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

/** Merges what overlaps or is nearer than a part's overhead; each result stands where its earliest member stood. */
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
  /** 1 to 70 letters, digits or hyphens, random enough not to occur in the content: 16 random bytes in hex will do. */
  readonly boundary: string
}

interface ByteRangesFrame {
  /** Content-Type of the 206, which carries no Content-Range of its own (15.3.7.2). */
  readonly contentType: string
  /** The ranges, each with the head that is sent before its bytes. */
  readonly parts: ReadonlyArray<{ readonly head: Buffer; readonly range: ByteRange }>
  /** What is sent after the bytes of the last range. */
  readonly end: Buffer
  /** Bytes of all heads, all ranges and the end together. */
  readonly length: number
}

/**
 * The frame of multipart/byteranges content, RFC 9110 section 14.6: the bytes before, between and after the ranges. Knows
 * positions and lengths, not the content.
 * Throws RangeError when the boundary or the content type cannot be written safely.
 */
export function frameByteRanges(input: ByteRangesInput): ByteRangesFrame {
  const { ranges, size, contentType, boundary } = input
  if (!BOUNDARY.test(boundary))
    throw new RangeError('a boundary has 1 to 70 letters, digits, hyphens')
  if (contentType !== undefined && /[\r\n\0]/.test(contentType)) {
    throw new RangeError('a content type has no line breaks')
  }
  const typeLine = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
  const parts = ranges.map((range, place) => {
    // The line break before a delimiter belongs to the delimiter; nothing stands before the first (RFC 2046 section 5.1.1).
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

/** Fewer characters than RFC 2046 allows, so that it never has to be quoted. */
const BOUNDARY = /^[0-9A-Za-z-]{1,70}$/
