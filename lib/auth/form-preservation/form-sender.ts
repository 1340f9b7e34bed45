/**
 * A form that is sent again. The page behind the login (saml/return.ts) posts no form but a handle, to the address the form was
 * for; the form itself waits here and goes to the backend in its place, byte for byte, files and all.
 *
 * # Facts
 * - A page cannot send a file again, nor text/plain or a charset as they were; and whatever a page holds, its browser keeps.
 * - The post of the page has a length no form has by accident, so others are not even looked into.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import type { Fields } from '../../http/message/field.ts'
import { parseMediaType } from '../../http/message/media.ts'
import type { Request } from '../../http/message/message.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import type { Stash } from './kept-forms.ts'

/** The name of the one field our page posts; its value is the ID of the login. */
export const replayName = '__authproxy_replay'

/** Characters of the ID of a login: 12 bytes in base64url. */
const HANDLE = 16
const LENGTH = replayName.length + 1 + HANDLE
const DEADLINE: Milliseconds = 10_000

export type Opened =
  /** What our page posts: send what was kept instead. */
  | { readonly handle: string }
  /** Anything else, with its content still to be read. */
  | { readonly request: Request }

/** Looks at a post, as far as it could be that of our page. Throws ContentTooSlow when its few bytes do not arrive. */
export async function openReplay(request: Request, clock: Clock): Promise<Opened> {
  if (!mayBeReplay(request)) return { request }
  const content = await within(
    {
      clock,
      after: DEADLINE,
      signal: request.signal,
      late: () => new ContentTooSlow(DEADLINE),
      aborted: () => new Error('the client has gone'),
    },
    () => whole(request.content),
  )
  if (isReplay(content)) return { handle: content.toString('latin1').slice(-HANDLE) }
  return { request: withContent(request, request.fields, content) }
}

/** Whether this is the content of a post of our page. */
export function isReplay(content: Buffer): boolean {
  if (content.length !== LENGTH) return false
  return new RegExp(`^${replayName}=[\\w-]{${HANDLE}}$`).test(content.toString('latin1'))
}

/** The request of our page with the content, and the type of content, of what was kept. */
export function asStashed(request: Request, { contentType, content }: Stash): Request {
  const fields = request.fields
    .without('Expect')
    .with('Content-Type', contentType)
    .with('Content-Length', String(content.length))
  return withContent(request, fields, content)
}

function mayBeReplay({ method, fields }: Request): boolean {
  if (method !== 'POST' || fields.get('Content-Length') !== String(LENGTH)) return false
  const type = parseMediaType(fields.get('Content-Type') ?? '')
  return type?.type === 'application' && type.subtype === 'x-www-form-urlencoded'
}

/** A request on a connection makes its signal when it is asked for, so that has to be asked. */
function withContent(request: Request, fields: Fields, content: Buffer): Request {
  const { signal } = request
  return { ...request, signal, fields, content: blocks(content) }
}

async function whole(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const read: Buffer[] = []
  for await (const block of content) read.push(Buffer.from(block))
  return Buffer.concat(read)
}

async function* blocks(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
