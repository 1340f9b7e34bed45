/**
 * Writes requests as bytes, RFC 9112 sections 3, 5 and 7.1. Whatever could be read as something else than it was meant as is
 * not written.
 */
import { type Fields, isToken } from '../message/field.ts'

/** The head of a request, latin1. Throws a TypeError for a method, target or field that HTTP/1.1 does not allow. */
export function requestHead(method: string, target: string, ...fields: readonly Fields[]): string {
  if (!isToken(method)) throw new TypeError('the method is no token')
  if (!TARGET.test(target)) throw new TypeError('the target has characters beyond visible ASCII')
  let lines = ''
  for (const some of fields) lines += some.lines
  return `${method} ${target} HTTP/1.1\r\n${lines}\r\n`
}

/** Section 3.2, as RFC 3986 section 2 has it: the characters of a URI are visible ASCII. */
const TARGET = /^[\x21-\x7e]+$/

/** What stands before the data of a chunk; `chunkEnd` stands behind it. */
export function chunkStart(size: number): string {
  return `${size.toString(16)}\r\n`
}

export const chunkEnd = '\r\n'

/** The last chunk and the trailer fields. Throws a TypeError for a field that cannot be written. */
export function lastChunk(trailers: Fields): string {
  return `0\r\n${trailers.lines}\r\n`
}
