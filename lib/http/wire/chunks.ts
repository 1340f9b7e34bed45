/**
 * Removes the chunked coding from content as its bytes arrive, RFC 9112 section 7.1: strict and bounded.
 *
 *     chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF        last-chunk = 1*"0" [ chunk-ext ] CRLF
 *
 * Extensions are skipped, and their bytes are limited (7.1.1). Blanks behind the size are taken without a semicolon too: servers that pad
 * the size to a fixed width send them, and clients take them. Trailer fields are read as those of a head (7.1.2).
 */
import { GatheredBytes } from '../../bytes/gathered.ts'
import { Fields } from '../message/field.ts'
import { FieldLines, valueBytes } from './field-lines.ts'

/** A larger chunk than 2^52 bytes is refused. */
const mostDigits = 13
/** The most bytes of the extensions of one chunk. */
const mostExtension = 4096
const mostTrailerBytes = 16_384
const mostTrailerLines = 200

const CR = 0x0d
const LF = 0x0a
const SEMICOLON = 0x3b
const SPACE = 0x20
const TAB = 0x09

/** Called with the position of content in the given bytes. */
type OnContent = (from: number, to: number) => void

export class ChunkReader {
  /** The part to which the next byte belongs. */
  #step: 'size' | 'blank' | 'extension' | 'size-LF' | 'data' | 'data-CR' | 'data-LF' | 'trailers' =
    'size'
  #digits = 0
  #extension = 0
  /** The size of the chunk as far as it is read, then the bytes of it still to come. */
  #size = 0
  #trailers: { readonly lines: FieldLines; readonly bytes: GatheredBytes } | undefined
  #fields: Fields | undefined

  /** The trailer fields; undefined before the content has ended. */
  get trailers(): Fields | undefined {
    return this.#fields
  }

  /**
   * Reads further bytes, and reports each stretch of content. The answer is the number of bytes it took: all of them unless the content has
   * ended. Undefined when the bytes break the coding.
   */
  read(bytes: Buffer, onContent: OnContent): number | undefined {
    const { length } = bytes
    let at = 0
    while (at < length) {
      const byte = bytes[at] ?? 0
      switch (this.#step) {
        case 'size': {
          const digit = hexDigit(byte)
          if (digit !== undefined) {
            this.#digits += 1
            if (this.#digits > mostDigits) return undefined
            this.#size = this.#size * 16 + digit
          } else if (this.#digits === 0) return undefined
          else if (byte === SEMICOLON) this.#step = 'extension'
          else if (byte === SPACE || byte === TAB) this.#step = 'blank'
          else if (byte === CR) this.#step = 'size-LF'
          else return undefined
          at += 1
          break
        }
        case 'blank':
          if (byte === SEMICOLON) this.#step = 'extension'
          else if (byte === CR) this.#step = 'size-LF'
          else {
            this.#extension += 1
            const blank = byte === SPACE || byte === TAB
            if (!blank || this.#extension > mostExtension) return undefined
          }
          at += 1
          break
        case 'extension':
          if (byte === CR) this.#step = 'size-LF'
          else {
            this.#extension += 1
            if (valueBytes[byte] !== 1 || this.#extension > mostExtension) return undefined
          }
          at += 1
          break
        case 'size-LF':
          if (byte !== LF) return undefined
          this.#step = this.#size === 0 ? 'trailers' : 'data'
          at += 1
          break
        case 'data': {
          const to = Math.min(length, at + this.#size)
          onContent(at, to)
          this.#size -= to - at
          if (this.#size === 0) this.#step = 'data-CR'
          at = to
          break
        }
        case 'data-CR':
          if (byte !== CR) return undefined
          this.#step = 'data-LF'
          at += 1
          break
        case 'data-LF':
          if (byte !== LF) return undefined
          this.#step = 'size'
          this.#digits = 0
          this.#extension = 0
          at += 1
          break
        case 'trailers': {
          const used = this.#readTrailers(bytes.subarray(at))
          return used === undefined ? undefined : at + used
        }
      }
    }
    return at
  }

  #readTrailers(bytes: Buffer): number | undefined {
    this.#trailers ??= {
      lines: new FieldLines(valueBytes, mostTrailerLines, 'response'),
      bytes: new GatheredBytes(),
    }
    const { lines } = this.#trailers
    const before = this.#trailers.bytes.length
    const all = this.#trailers.bytes.add(bytes.subarray(0, mostTrailerBytes + 1))
    const reading = lines.read(all, 0)
    if (reading === 'incomplete') return all.length > mostTrailerBytes ? undefined : bytes.length
    if (typeof reading === 'string' || reading.end > mostTrailerBytes) return undefined
    const fields = Fields.fromFlat(lines.flat(all, 0))
    // RFC 9110 section 6.5.1: fields that frame the message are never in its trailers.
    if (fields.has('Content-Length') || fields.has('Transfer-Encoding')) return undefined
    this.#fields = fields
    return reading.end - before
  }
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : undefined
}
