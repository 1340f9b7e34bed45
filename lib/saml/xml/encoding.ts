/**
 * Decodes base64 and percent-encoding in forms and queries, strictly. Node's base64 decoder skips unknown characters, so two
 * texts could mean one message. Characters are replaced in bytes, because replacing them in a string makes a chain of as many
 * pieces, and a message may have a quarter of a million.
 */
import { isUtf8 } from 'node:buffer'

/** The bytes of base64 (RFC 4648 section 4); undefined when the text is empty, has other characters, or wrong padding. */
export function decodeBase64(text: string): Buffer | undefined {
  // Some IdPs break lines; some browsers then deliver CR LF.
  const joined = withoutBreaks(text)
  if (joined === '') return undefined
  const bytes = Buffer.from(joined, 'base64')
  // The comparison fails for everything the decoder skips: characters of no alphabet or another one, padding, and non-zero bits
  // after the last byte (section 3.5).
  return bytes.toString('base64') === joined ? bytes : undefined
}

/** The text without spaces and line breaks. Characters beyond a byte stay, and make it invalid. */
function withoutBreaks(text: string): string {
  if (!/[\r\n\t ]/.test(text) || /[^\0-\xff]/.test(text)) return text
  const bytes = Buffer.from(text, 'latin1')
  let length = 0
  for (const byte of bytes) if (!BREAKS.includes(byte)) bytes[length++] = byte
  return bytes.toString('latin1', 0, length)
}

const BREAKS: readonly number[] = [0x0d, 0x0a, 0x09, 0x20]

/**
 * A name or value of application/x-www-form-urlencoded (URL Standard section 5); undefined when an escape is broken or does not
 * make UTF-8, or when a character should have been escaped.
 */
export function decodeFormText(text: string): string | undefined {
  if (/[^\x20-\x7e]/.test(text)) return undefined
  const bytes = Buffer.from(text, 'latin1')
  let length = 0
  for (let i = 0; i < bytes.length; i += 1) {
    let byte = bytes[i]
    if (byte === PERCENT) {
      byte = hexDigit(bytes[i + 1]) * 16 + hexDigit(bytes[i + 2])
      if (Number.isNaN(byte)) return undefined
      i += 2
    } else if (byte === PLUS) byte = SPACE
    bytes[length++] = byte ?? 0
  }
  const decoded = bytes.subarray(0, length)
  return isUtf8(decoded) ? decoded.toString() : undefined
}

const PERCENT = 0x25
const PLUS = 0x2b
const SPACE = 0x20

/** The value of a byte as a hexadecimal digit in either case; NaN for any other byte and for none. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : Number.NaN
}
