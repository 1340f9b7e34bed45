/**
 * Where the content of a response ends and whether its connection may be used again, RFC 9112 sections 6.3 and 9.3. What two
 * recipients could read in two ways is no framing but the origin's error.
 */

import { type Fields, listMembers } from '../message/field.ts'
import { parseContentLength } from '../message/message.ts'
import type { Problem } from '../message/target.ts'
import type { ResponseHead } from './response-head.ts'

export type Framing =
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** The content ends with the connection. */
  | { readonly kind: 'close' }

/** How the content of the final response to a request with this method is framed. */
export function framingOf(method: string, head: ResponseHead): Framing | Problem {
  const { status, version, fields } = head
  // Section 6.3, rule 1: these end with their fields, whatever those say.
  if (method === 'HEAD' || status === 204 || status === 304) return { kind: 'length', length: 0 }
  const coding = fields.get('Transfer-Encoding')
  const length = fields.get('Content-Length')
  if (coding !== undefined) {
    // Section 6.1: in HTTP/1.0 a transfer coding is a fault of framing, and so are both fields together (section 6.3, rule 3).
    if (version === '1.0') return { problem: 'it has a transfer coding in HTTP/1.0' }
    if (length !== undefined) return { problem: 'it has both a length and a transfer coding' }
    return coding.toLowerCase() === 'chunked' ? { kind: 'chunked' } : codingProblem(coding)
  }
  if (length === undefined) return { kind: 'close' }
  // Rule 5
  const bytes = parseContentLength(length)
  return typeof bytes === 'number' ? { kind: 'length', length: bytes } : bytes
}

/** We send no TE but for trailers, so that chunked is all that may come (section 7), and once (section 6.1). */
function codingProblem(coding: string): Problem {
  const codings = listMembers(coding.toLowerCase())
  const chunked = codings.filter(one => one === 'chunked').length
  if (chunked === 0) return { problem: 'its transfer coding is not chunked' }
  if (chunked > 1) return { problem: 'its transfer coding is chunked more than once' }
  return { problem: 'it has another transfer coding besides chunked' }
}

/** Whether the server keeps the connection after this response (section 9.3); content that ends with it apart. */
export function persists({ version, fields }: ResponseHead): boolean {
  const connection = fields.get('Connection')?.toLowerCase()
  if (connection === undefined || connection === 'keep-alive') {
    return version === '1.1' || connection !== undefined
  }
  const options = listMembers(connection)
  return !options.includes('close') && (version === '1.1' || options.includes('keep-alive'))
}

/** Milliseconds an idle connection is kept by the server, by its Keep-Alive field; undefined when it does not say. */
export function keepAliveTime(fields: Fields): number | undefined {
  const value = fields.get('Keep-Alive')
  if (value === undefined) return undefined
  const [, timeout] = /(?:^|[,\s])timeout=(\d+)/i.exec(value) ?? []
  return timeout === undefined ? undefined : Number(timeout) * 1000
}
