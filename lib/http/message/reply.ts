/**
 * Makes short responses: a sentence as plain text, or no content.
 */

import { Fields } from './field.ts'
import { lengthOf, noContent, parseContentLength, type Response } from './message.ts'

/** A plain-text answer. A person may read the sentence in a terminal, so it ends with a line feed. */
export function textResponse(
  status: number,
  sentence: string,
  more: { fields?: Fields; facts?: Response['facts'] } = {},
): Response {
  const fields = Fields.fromFlat([
    'Content-Type',
    'text/plain; charset=utf-8',
    'X-Content-Type-Options',
    'nosniff',
    ...(more.fields?.flat ?? []),
  ])
  const content = { kind: 'bytes' as const, bytes: Buffer.from(`${sentence}\n`) }
  return { status, fields, content, facts: more.facts }
}

/** The Content-Length of a response to HEAD, as `Response` announces it to our own client. */
export function announcedLengthOf(fields: Fields): Pick<Response, 'announcedLength'> {
  const value = fields.get('Content-Length')
  if (value === undefined || fields.has('Transfer-Encoding')) return {}
  const length = parseContentLength(value)
  return typeof length === 'number' ? { announcedLength: length } : {}
}

/** The response to HEAD, made of the response to GET: it has no content, but announces its length (RFC 9110 section 9.3.2). */
export function withoutContent(response: Response): Response {
  if (response.content.kind === 'none') return response
  const length = lengthOf(response.content)
  const bare = { ...response, content: noContent }
  return length === undefined ? bare : { ...bare, announcedLength: length }
}
