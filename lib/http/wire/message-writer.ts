/**
 * Writes messages as text in Latin-1, RFC 9112 sections 3 to 7. Whatever could be read as something else than it was meant as
 * is not written.
 */
import { STATUS_CODES } from 'node:http'
import { type Fields, isToken, isWritable } from '../message/field.ts'

/** The head of a request. Throws a TypeError for a method, target or field that HTTP/1.1 does not allow. */
export function requestHead(method: string, target: string, ...fields: readonly Fields[]): string {
  if (!isToken(method)) throw new TypeError('the method is no token')
  if (!TARGET.test(target)) throw new TypeError('the target has characters beyond visible ASCII')
  let lines = ''
  for (const some of fields) lines += some.lines
  return `${method} ${target} HTTP/1.1\r\n${lines}\r\n`
}

/** Section 3.2, as RFC 3986 section 2 has it: the characters of a URI are visible ASCII. */
const TARGET = /^[\x21-\x7e]+$/

/** The head of a response to be written. */
export interface OutgoingHead {
  readonly status: number
  /** The standard phrase when undefined. */
  readonly reason: string | undefined
  readonly fields: Fields
  /** Content-Length; undefined for none. */
  readonly length: number | undefined
  /** Whether content follows, of whatever length. */
  readonly hasContent: boolean
}

/** The head of a response, with `own`, complete field lines of the connection. Throws a TypeError for what cannot be written. */
export function responseText(head: OutgoingHead, own: string): string {
  const { status, reason, fields, length, hasContent } = head
  const phrase = reason ?? STATUS_CODES[status] ?? 'unknown'
  if (!isWritable(phrase)) throw new TypeError('the reason phrase cannot be written')
  const framing = length === undefined ? '' : `Content-Length: ${length}\r\n`
  const chunked = length === undefined && hasContent ? 'Transfer-Encoding: chunked\r\n' : ''
  return `HTTP/1.1 ${status} ${phrase}\r\n${fields.lines}${framing}${own}${chunked}\r\n`
}

/** What stands before the data of a chunk; `chunkEnd` stands behind it. */
export function chunkStart(size: number): string {
  return `${size.toString(16)}\r\n`
}

export const chunkEnd = '\r\n'

/** The last chunk and the trailer fields. Throws a TypeError for a field that cannot be written. */
export function lastChunk(trailers: Fields): string {
  return `0\r\n${trailers.lines}\r\n`
}
