/**
 * Heads and framing of messages, RFC 9112: where the content of a response ends and whether its connection may be used again (sections 6.3
 * and 9.3), and the text of messages that we write, in Latin-1 (sections 3 to 7). A response whose framing two recipients could read
 * differently is the origin's error. Text that a recipient could misread is not written.
 */

import { STATUS_CODES } from 'node:http'
import { type Fields, isToken, isWritable, listMembers } from '../message/field.ts'
import { parseContentLength } from '../message/message.ts'
import type { Problem } from '../message/target.ts'
import type { ResponseHead } from './response-head.ts'

export type Framing =
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  /** The content ends with the connection. */
  | { readonly kind: 'close' }

/** The framing of the content in the final response to a request with this method. */
export function framingOf(method: string, head: ResponseHead): Framing | Problem {
  const { status, version, fields } = head
  // Section 6.3, rule 1: these responses end with their fields, whatever the fields say.
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

/** The fault of a transfer coding. We send TE only for trailers, so only chunked may come (section 7), and only once (section 6.1). */
function codingProblem(coding: string): Problem {
  const codings = listMembers(coding.toLowerCase())
  const chunked = codings.filter(one => one === 'chunked').length
  if (chunked === 0) return { problem: 'its transfer coding is not chunked' }
  if (chunked > 1) return { problem: 'its transfer coding is chunked more than once' }
  return { problem: 'it has another transfer coding than chunked' }
}

/** Whether the server keeps the connection after this response (section 9.3). Content that ends with the connection is not considered. */
export function keepsConnection({ version, fields }: ResponseHead): boolean {
  const connection = fields.get('Connection')?.toLowerCase()
  if (connection === undefined || connection === 'keep-alive') {
    return version === '1.1' || connection !== undefined
  }
  const options = listMembers(connection)
  return !options.includes('close') && (version === '1.1' || options.includes('keep-alive'))
}

/** Milliseconds for which the server keeps an idle connection, by its Keep-Alive field; undefined when it does not say. */
export function keepAliveTime(fields: Fields): number | undefined {
  const value = fields.get('Keep-Alive')
  if (value === undefined) return undefined
  const [, timeout] = /(?:^|[,\s])timeout=(\d+)/i.exec(value) ?? []
  return timeout === undefined ? undefined : Number(timeout) * 1000
}

/** The head of a request. Throws a TypeError for a method, target or field that HTTP/1.1 does not allow. */
export function requestHead(method: string, target: string, ...fields: readonly Fields[]): string {
  if (!isToken(method)) throw new TypeError('the method is not a token')
  if (!TARGET.test(target)) throw new TypeError('the target has characters beyond visible ASCII')
  let lines = ''
  for (const some of fields) lines += some.lines
  return `${method} ${target} HTTP/1.1\r\n${lines}\r\n`
}

/** Section 3.2 and RFC 3986 section 2: the characters of a URI are visible ASCII. */
const TARGET = /^[\x21-\x7e]+$/

/** The head of a response to be written. */
export interface OutgoingHead {
  readonly status: number
  /** The reason phrase; undefined: the standard one. */
  readonly reason: string | undefined
  readonly fields: Fields
  /** Content-Length; undefined: the head has none. */
  readonly length: number | undefined
  /** Whether content follows, of any length. */
  readonly hasContent: boolean
}

/** The head of a response with `own`, complete field lines of the connection. Throws a TypeError for a field that cannot be written. */
export function responseText(head: OutgoingHead, own: string): string {
  const { status, reason, fields, length, hasContent } = head
  const phrase = reason ?? STATUS_CODES[status] ?? 'unknown'
  if (!isWritable(phrase)) throw new TypeError('the reason phrase cannot be written')
  const framing = length === undefined ? '' : `Content-Length: ${length}\r\n`
  const chunked = length === undefined && hasContent ? 'Transfer-Encoding: chunked\r\n' : ''
  return `HTTP/1.1 ${status} ${phrase}\r\n${fields.lines}${framing}${own}${chunked}\r\n`
}

/** The text before the data of a chunk; `chunkEnd` follows the data. */
export function chunkStart(size: number): string {
  return `${size.toString(16)}\r\n`
}

export const chunkEnd = '\r\n'

/** The last chunk and the trailer fields. Throws a TypeError for a field that cannot be written. */
export function lastChunk(trailers: Fields): string {
  return `0\r\n${trailers.lines}\r\n`
}
