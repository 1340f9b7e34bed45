/**
 * The frame of multipart/byteranges content, RFC 9110 section 14.6: the bytes before, between and after the ranges. Knows
 * positions and lengths, not the content.
 */
import { type ByteRange, contentRange } from './range.ts'

export interface ByteRangesInput {
  readonly ranges: readonly ByteRange[]
  /** Bytes of the whole representation. */
  readonly size: number
  /** Content-Type of the representation, repeated in every part; undefined when it has none. */
  readonly contentType: string | undefined
  /** 1 to 70 letters, digits or hyphens, random enough not to occur in the content: 16 random bytes in hex will do. */
  readonly boundary: string
}

export interface ByteRangesFrame {
  /** Content-Type of the 206, which carries no Content-Range of its own (15.3.7.2). */
  readonly contentType: string
  /** The ranges, each with the head that is sent before its bytes. */
  readonly parts: ReadonlyArray<{ readonly head: Buffer; readonly range: ByteRange }>
  /** What is sent after the bytes of the last range. */
  readonly end: Buffer
  /** Bytes of all heads, all ranges and the end together. */
  readonly length: number
}

/** The frame for these ranges. Throws RangeError when the boundary or the content type cannot be written safely. */
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
