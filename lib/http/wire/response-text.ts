/**
 * Writes the head of a response as text, RFC 9112 sections 4 to 6.
 */
import { STATUS_CODES } from 'node:http'
import { type Fields, isWritable } from '../message/field.ts'

export interface ResponseHead {
  readonly status: number
  /** The standard phrase when undefined. */
  readonly reason: string | undefined
  readonly fields: Fields
  /** Content-Length; undefined for none. */
  readonly length: number | undefined
  /** Whether content follows, of whatever length. */
  readonly hasContent: boolean
}

/**
 * The head as text in Latin-1, the empty line included. `own` are complete field lines of the connection. Content of unknown
 * length goes in chunks. Throws a TypeError for what cannot be written.
 */
export function responseText(head: ResponseHead, own: string): string {
  const { status, reason, fields, length, hasContent } = head
  const phrase = reason ?? STATUS_CODES[status] ?? 'unknown'
  if (!isWritable(phrase)) throw new TypeError('the reason phrase cannot be written')
  const framing = length === undefined ? '' : `Content-Length: ${length}\r\n`
  const chunked = length === undefined && hasContent ? 'Transfer-Encoding: chunked\r\n' : ''
  return `HTTP/1.1 ${status} ${phrase}\r\n${fields.lines}${framing}${own}${chunked}\r\n`
}
