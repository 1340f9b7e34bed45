/**
 * A gateway, RFC 9110 section 7.6: it sends a request on to an origin and returns the response. Both are streamed, and neither is changed
 * except for the fields of one hop. The caller has decided which fields the origin gets.
 */

import type { Socket } from 'node:net'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Piece } from '../../bytes/piece.ts'
import { iterate, type Source, type Take } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import type { OriginClient, OriginRequest, OriginResponse } from '../client/client.ts'
import { OriginFailure } from '../client/errors.ts'
import { Fields, isWritable } from '../message/field.ts'
import { endToEndFields } from '../message/hop-by-hop.ts'
import {
  type Content,
  hasContent,
  noContent,
  type Request,
  type Response,
} from '../message/message.ts'
import { announcedLengthOf } from '../message/reply.ts'
import { formatAuthority } from '../message/target.ts'
import { type Allowance, ClientGone } from '../server/gather.ts'
import type { TakenOver } from '../server/options.ts'
import { responseText } from '../wire/framing.ts'
import { join, type TunnelOptions } from './tunnel.ts'

type ForOrigin = 'uri' | 'host' | 'fields' | 'client' | 'line' | 'owner'

export interface ForwardingOptions extends Required<Pick<OriginRequest, ForOrigin>> {
  readonly origin: OriginClient
  /** Makes the trailer fields fit to be sent. */
  readonly trailers: (fields: Fields) => Fields
  readonly clock: Clock
  /** Memory for small contents that wait until they are complete. When none is left, contents are sent as they arrive. */
  readonly room: Allowance
  /** The longest silence of the client within its content. */
  readonly contentTime: Milliseconds
}

/** The client stopped sending its content. */
export class ContentTooSlow extends Failure {
  constructor(after: Milliseconds) {
    super(`the client sent nothing of its content for ${after} ms`, {
      code: 'CLIENT_CONTENT_TIMEOUT',
      fault: 'downstream',
      publicText: 'The content of the request did not arrive in time.',
      facts: { after },
    })
  }
}

/** The time in which an origin has to say whether it wants the content, when the client asked (RFC 9110 section 10.1.1). */
const CONTINUE_TIME: Milliseconds = 2000

/** Sends a request on and resolves to the response, whose content is still to be read. Rejects with an OriginFailure. */
export function forward(request: Request, to: ForwardingOptions): Promise<Response> {
  // Most requests have no content, so they wait for none.
  if (!hasContent(request)) return exchange(request, noContent, to)
  return contentOf(request, to).then(content => exchange(request, content, to))
}

function exchange(request: Request, content: Content, to: ForwardingOptions): Promise<Response> {
  const asked = outgoing(request, to, content)
  return to.origin.request(asked).then(response => answerOf(request, response))
}

interface UpgradeForwarding extends ForwardingOptions, Pick<TunnelOptions, 'idle' | 'signal'> {
  readonly socket: Socket
  readonly head: Buffer
  /** Makes the fields of a positive answer fit for the client. */
  readonly agreed: (fields: Fields) => Fields
}

/**
 * Sends the opening handshake of a WebSocket on. When the origin agrees, both connections are joined, and the promise resolves when the
 * tunnel is over. When the origin refuses, its response is the answer. Throws an OriginFailure before a byte has gone to the client.
 */
export async function forwardUpgrade(
  request: Request,
  to: UpgradeForwarding,
): Promise<Response | TakenOver> {
  const { clock, idle, socket: client } = to
  const answer = await to.origin.upgrade({ ...outgoing(request, to, noContent), trailers: false })
  if ('status' in answer) return answerOf(request, answer)
  const { transport: far, address } = answer
  if ((answer.fields.get('Upgrade') ?? '').toLowerCase() !== 'websocket') {
    far.destroy()
    const origin = formatAuthority(to.uri)
    const problem = 'it changes to another protocol than was asked for'
    throw new OriginFailure('ORIGIN_MALFORMED', origin, { problem, address })
  }
  client.setKeepAlive(true, 60_000)
  const fields = endToEndFields(to.agreed(answer.fields))
  const head = { status: 101, reason: undefined, fields, length: undefined, hasContent: false }
  client.write(responseText(head, 'Connection: Upgrade\r\nUpgrade: websocket\r\n'), 'latin1')
  const report = await join({ client, head: to.head, far, idle, clock, signal: to.signal })
  return {
    status: 101,
    sent: report.down,
    facts: { outcome: 'tunnelled', received: report.up, because: report.because },
  }
}

function outgoing(request: Request, to: ForwardingOptions, content: Content): OriginRequest {
  const { method, fields, interim, lifetime } = request
  const awaits = content.kind === 'stream' && /^100-continue$/i.test(fields.get('Expect') ?? '')
  return {
    method,
    uri: to.uri,
    host: to.host,
    fields: to.fields,
    content,
    within: lifetime,
    trusted: true,
    client: to.client,
    line: to.line,
    owner: to.owner,
    awaitContinue: awaits ? CONTINUE_TIME : undefined,
    trailers: /(?:^|[,\s])trailers(?:[,\s]|$)/i.test(fields.get('TE') ?? ''),
    onInterim: interim,
  }
}

/** Content up to this size in bytes waits in memory until it is complete, so that a client that sends slowly holds no connection. */
const SMALL = 64 * 1024

async function contentOf(request: Request, to: ForwardingOptions): Promise<Content> {
  const text = request.fields.get('Content-Length')
  const length = text === undefined ? undefined : Number(text)
  const waits = length !== undefined && length <= SMALL && !request.fields.has('Expect')
  if (waits && to.room.take(length)) {
    const give = () => to.room.give(length)
    // The bytes are held until the exchange is over, because they may wait for a connection to the origin.
    request.lifetime.onceOver(give)
    return { kind: 'bytes', bytes: await whole(request, to) }
  }
  return {
    kind: 'stream',
    length,
    open: () => contentInTime(request, to),
    trailers: () => to.trailers(request.trailers?.() ?? Fields.empty),
  }
}

/** The whole content of a request. Throws a ContentTooSlow, a MalformedContent, or a ClientGone. */
async function whole(request: Request, to: ForwardingOptions): Promise<Buffer> {
  const blocks: Buffer[] = []
  const source = contentInTime(request, to)
  try {
    // A block from a socket is a view of a larger buffer, so it is copied.
    for await (const block of iterate(source)) blocks.push(Buffer.from(block))
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new ClientGone('the client has gone', { cause: error })
  }
  return Buffer.concat(blocks)
}

/** The content of a client, with a time limit for each piece. */
function contentInTime({ content }: Request, { clock, contentTime }: ForwardingOptions): Source {
  const blocks = content[Symbol.asyncIterator]()
  const alarm = new Alarm(clock)
  let closed = false
  const close = (): void => {
    alarm.close()
    if (closed) return
    closed = true
    // A block that is awaited may still come; it is ignored.
    void blocks.return?.().then(undefined, () => undefined)
  }
  return {
    next(take) {
      const tell: Take = (error, piece) => {
        if (closed) return
        alarm.clear()
        take(error, piece)
      }
      alarm.set(contentTime, () => {
        close()
        take(new ContentTooSlow(contentTime), undefined)
      })
      blocks.next().then(
        ({ done, value }) => tell(undefined, done === true ? undefined : new Piece(value)),
        error => tell(error instanceof Error ? error : new Error(String(error)), undefined),
      )
    },
    close,
  }
}

/** The fields of a response that go on to the client; its length is written again. */
function forwarded(fields: Fields): Fields {
  return endToEndFields(fields, 'content-length')
}

function answerOf(request: Request, response: OriginResponse): Response {
  const { status, content, length, trailers } = response
  const fields = response.fields.through(forwarded)
  const reason = response.reason !== '' && isWritable(response.reason) ? response.reason : undefined
  // Each answer is written out: a copy of a common part would cost as much as the rest of this function.
  if (request.method === 'HEAD' || status === 204 || status === 304) {
    content.close()
    const bare = { status, reason, fields, facts: undefined, content: noContent }
    return { ...bare, ...announcedLengthOf(response.fields) }
  }
  // Bytes that are in memory need no source, and leave in one write with the head.
  const bytes = content.whole?.()
  if (bytes !== undefined) {
    return { status, reason, fields, facts: undefined, content: { kind: 'bytes', bytes } }
  }
  const open = () => content
  const stream: Content =
    trailers === undefined
      ? { kind: 'stream', length, open }
      : { kind: 'stream', length, open, trailers: () => endToEndFields(trailers()) }
  return { status, reason, fields, facts: undefined, content: stream }
}
