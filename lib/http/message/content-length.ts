/**
 * Content-Length, RFC 9110 section 8.6: what its field lines say together.
 */
import { listMembers } from './field.ts'
import type { Problem } from './target.ts'

/** Bytes, or what is wrong with the value: of all lines, joined. Several equal lengths are one, as the section allows. */
export function parseContentLength(value: string): number | Problem {
  if (DIGITS.test(value)) return Number(value)
  const [first = '', ...others] = listMembers(value)
  if (others.some(length => length !== first))
    return { problem: 'it has several lengths that differ' }
  if (!/^\d+$/.test(first)) return { problem: 'its length is not a number' }
  return DIGITS.test(first) ? Number(first) : { problem: 'its length is too large to be counted' }
}

/** Up to 2^53: what is more could not be counted exactly. */
const DIGITS = /^(?:\d{1,15}|[0-8]\d{15})$/
