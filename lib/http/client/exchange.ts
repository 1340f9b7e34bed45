/**
 * One request and its response on one connection, through Node's HTTP/1.1 client: writes the message as it is told, has a
 * deadline for every part, and refuses what Node's parser lets through and RFC 9112 does not.
 */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import { Fields } from '../message/field.ts'
import type { WireRequest } from '../wire/wire-request.ts'
import { OriginContent } from './content.ts'
import {
  OriginAborted,
  type OriginFailure,
  OriginFieldsFailure,
  OriginMalformed,
  type OriginPhase,
  OriginRequestUnfit,
  OriginSendFailure,
} from './errors.ts'
import { sendContent } from './exchange-content.ts'
import type { Connection } from './pool.ts'

export interface ExchangeDeadlines {
  /** For the origin to take each piece of the request. */
  readonly send: Milliseconds
  /** From the request's last byte to the end of the response head, interim responses included. */
  readonly fields: Milliseconds
  /** The longest silence within the content, while we are reading. */
  readonly content: Milliseconds
}

export type { Switched, WireRequest } from '../wire/wire-request.ts'

export interface ExchangeContext {
  readonly clock: Clock
  readonly deadlines: ExchangeDeadlines
  readonly signal: AbortSignal
  /** `host:port`, for errors. */
  readonly origin: string
  /** Bytes of response head that are taken. */
  readonly headLimit: number
}

export interface WireResponse {
  readonly status: number
  readonly reason: string
  readonly version: '1.0' | '1.1'
  readonly fields: Fields
  readonly length: number | undefined
  readonly content: OriginContent
  readonly trailers: () => Fields
}

/**
 * Sends the request and settles with the response's head. When it throws the connection is destroyed. The response may come
 * before the request is sent to its end; sending goes on meanwhile.
 */
export function exchange(
  connection: Connection,
  message: WireRequest,
  context: ExchangeContext,
): Promise<WireResponse> {
  const { clock, deadlines, signal, origin } = context
  const { address, socket } = connection
  return new Promise((resolve, reject) => {
    let phase: OriginPhase = 'send'
    let complaint: unknown
    let cancelTimer = () => {}
    const settle = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    const fail = (failure: OriginFailure) => {
      settle()
      reject(failure)
      socket.destroy()
    }
    const onAbort = () => fail(new OriginAborted(origin, { phase, address, cause: signal.reason }))
    const arm = (part: 'send' | 'fields') => {
      cancelTimer()
      if (phase !== 'send') return
      phase = part
      const after = deadlines[part]
      const Late = part === 'send' ? OriginSendFailure : OriginFieldsFailure
      cancelTimer = clock.after(after, () => fail(new Late(origin, { after, address })))
    }

    const outgoing = begin(socket, message, context.headLimit)
    if (outgoing instanceof Error) return fail(new OriginRequestUnfit(origin, outgoing))
    outgoing.on('finish', () => arm('fields'))
    outgoing.on('error', cause => {
      complaint ??= cause
      fail(headFailure(phase, origin, { cause, address }))
    })
    outgoing.on('information', ({ statusCode, rawHeaders }) => {
      message.onInterim?.(statusCode, Fields.fromFlat(rawHeaders))
    })
    outgoing.on('upgrade', (incoming, upgraded, head) => {
      if (message.onSwitch !== undefined) {
        settle()
        message.onSwitch({ fields: Fields.fromFlat(incoming.rawHeaders), socket: upgraded, head })
        return
      }
      upgraded.destroy()
      fail(new OriginMalformed(origin, UNASKED, { phase: 'fields', address }))
    })
    outgoing.on('response', incoming => {
      settle()
      phase = 'content'
      const problem = headProblem(incoming)
      if (problem !== undefined) {
        return fail(new OriginMalformed(origin, problem, { phase: 'fields', address }))
      }
      const fields = Fields.fromFlat(incoming.rawHeaders)
      connection.keep = keepOf(fields)
      incoming.once('end', () => {
        // An answer that came before the whole request was sent leaves a connection nobody can use.
        if (!outgoing.writableFinished) socket.destroy()
      })
      const length = lengthOf(message.method, incoming)
      const idle = deadlines.content
      const told = { clock, idle, signal, origin, address, length, complaint: () => complaint }
      const content = new OriginContent(incoming, told)
      resolve({
        status: incoming.statusCode ?? 0,
        reason: incoming.statusMessage ?? '',
        version: incoming.httpVersion === '1.0' ? '1.0' : '1.1',
        fields,
        length,
        content,
        trailers: () => content.trailers(),
      })
    })
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) return onAbort()
    sendContent(outgoing, message, {
      clock,
      signal,
      writing: () => arm('send'),
      waiting: () => cancelTimer(),
    }).catch(cause => {
      complaint ??= cause
      fail(new OriginAborted(origin, { phase, address, cause }))
    })
  })
}

function begin(socket: Socket, message: WireRequest, headLimit: number): ClientRequest | Error {
  try {
    const outgoing = request({
      createConnection: () => socket,
      method: message.method,
      path: message.target,
      headers: [...message.fields.flat],
      maxHeaderSize: headLimit,
      insecureHTTPParser: false,
    })
    outgoing.shouldKeepAlive = true // without an Agent Node presumes the contrary, whatever Connection says
    return outgoing
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function headFailure(
  phase: OriginPhase,
  origin: string,
  trouble: { readonly cause: Error; readonly address: string },
): OriginFailure {
  if (systemCode(trouble.cause)?.startsWith('HPE_')) {
    return new OriginMalformed(origin, 'its head breaks the grammar', {
      ...trouble,
      phase: 'fields',
    })
  }
  return phase === 'send'
    ? new OriginSendFailure(origin, trouble)
    : new OriginFieldsFailure(origin, trouble)
}

const UNASKED = 'it changes protocols (101) although nobody asked'

/** What Node's parser lets through and we do not. */
function headProblem(incoming: IncomingMessage): string | undefined {
  const { httpVersion, statusCode } = incoming
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'its version is not HTTP/1.1 or 1.0'
  if (statusCode === 101) return UNASKED
  const coding = incoming.headers['transfer-encoding']
  if (coding === undefined) return undefined
  // RFC 9112 section 6.1: HTTP/1.0 knows no transfer codings; their framing is faulty there.
  if (httpVersion === '1.0') return 'it has a transfer coding in HTTP/1.0'
  // We send no TE, so chunked is all that may come (RFC 9112 section 7).
  return coding.toLowerCase() === 'chunked' ? undefined : 'its transfer coding is not chunked'
}

/** Bytes of content to come (RFC 9112 section 6.3); undefined when only the end will tell. */
function lengthOf(method: string, incoming: IncomingMessage): number | undefined {
  if (method === 'HEAD' || incoming.statusCode === 204 || incoming.statusCode === 304) return 0
  const length = incoming.headers['content-length']
  return length === undefined ? undefined : Number(length)
}

/** Half a second less than the origin's own limit, so that we close first; at most this long whatever it offers. */
const LONGEST_KEEP: Milliseconds = 30_000

/** How long the origin keeps an idle connection, from its Keep-Alive field; undefined when it does not say. */
function keepOf(fields: Fields): Milliseconds | undefined {
  const [, timeout] = /(?:^|[,\s])timeout=(\d+)/i.exec(fields.get('Keep-Alive') ?? '') ?? []
  if (timeout === undefined) return undefined
  return Math.min(Math.max(Number(timeout) * 1000 - 500, 0), LONGEST_KEEP)
}
