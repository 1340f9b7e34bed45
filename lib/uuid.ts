/**
 * Names that follow from a content: UUIDs of version 8 (RFC 9562 section 5.8), which do not change from one run to the next.
 */
import { hash } from 'node:crypto'

/** The UUID of a text. */
export function uuidOf(text: string): string {
  const digits = [...hash('sha256', text).slice(0, 32)]
  digits[12] = '8'
  digits[16] = '8'
  const hex = digits.join('')
  const ends = [8, 12, 16, 20, 32]
  return ends.map((end, index) => hex.slice(ends[index - 1] ?? 0, end)).join('-')
}
