/**
 * Messages as values, RFC 9110 section 6: the Request a handler gets and the Response it returns. Knows no sockets; `server.ts` turns bytes
 * into a Request and a Response into bytes.
 */
import type { Lifetime } from '../../async/lifetime.ts'
import type { Pace } from '../../bytes/pace.ts'
import type { Source } from '../../bytes/source.ts'
import type { Facts } from '../../errors.ts'
import { type Fields, listMembers } from './field.ts'
import type { Authority, Problem, Target } from './target.ts'

/** The content of a message (6.4). */
export type Content =
  | { readonly kind: 'none' }
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | StreamedContent

export interface StreamedContent {
  readonly kind: 'stream'
  /** The length in bytes. When it is undefined, the message is chunked or ends with its connection. */
  readonly length: number | undefined
  /** Begins the content; called at most once. The reader closes the source, at its end or early. */
  readonly open: () => Source
  /** Trailer fields (6.5), asked for after the last block. They are sent only where the framing has room for them. */
  readonly trailers?: () => Fields
}

/** Sends an interim response (15.2). It does nothing for HTTP/1.0 clients, or once the final response has begun. */
export type SendInterim = (status: number, fields: Fields) => void

export const noContent: Content = { kind: 'none' }

export interface Peer {
  /** IP address without brackets or zone; IPv4-mapped IPv6 is given as IPv4. */
  readonly address: string
  readonly port: number
}

/** The place of a connection among those of its client, when the client has limits of its own. */
export interface ClientPlace {
  /**
   * Whether a request on this connection may be answered. When the client has too many connections, it waits a moment for another to end.
   */
  admits(): boolean | Promise<boolean>
  /** The pace at which the client gets content; undefined when it has no limit. */
  readonly pace: Pace | undefined
}

export interface Request {
  /** Names this request in the log and on error pages. */
  readonly id: string
  readonly method: string
  readonly target: Target
  readonly version: '1.0' | '1.1'
  readonly fields: Fields
  /** The bytes that the client sends after its fields. Reading may throw when the client disconnects. */
  readonly content: AsyncIterable<Buffer>
  /** Trailer fields of the content. There are none before it has been read to its end. Absent for requests that cannot have any. */
  readonly trailers?: (() => Fields) | undefined
  readonly interim?: SendInterim | undefined
  readonly client: Peer
  /** The client's connection as a lifetime, which ends when it closes. Requests of a server have it. */
  readonly connection?: Lifetime
  /** The local address and port the client connected to. */
  readonly local: Peer
  /** Whether the client's connection to us is TLS. */
  readonly secure: boolean
  /** The target of the CONNECT, when this request came through an intercepted tunnel. */
  readonly tunnelEnd?: TunnelEnd
  readonly clientPlace?: ClientPlace | undefined
  /** Whether the connection was cut because the client read too slowly, or not at all. */
  readonly slowClient?: boolean
  /** What let the request pass, noted by the handler that has admitted it. */
  holder?: Holder | undefined
  /** Moment the head had arrived, in milliseconds since the epoch. */
  readonly received: number
  /** Ends when the client has disconnected or the exchange is over. */
  readonly lifetime: Lifetime
}

/**
 * The kinds of holders. This folder knows none of them: the daemon that notes them adds them here, by a `declare module` beside the type
 * (`lib/auth/session/ending.ts`).
 */
// biome-ignore lint/suspicious/noEmptyInterface: its members are declared by the daemon.
export interface Holders {}

export type Holder = Holders[keyof Holders]

/** The target of a tunnel, with the label that the handler which opened it gives to the requests inside. */
export interface TunnelEnd extends Authority {
  readonly label?: string
}

export interface Response {
  readonly status: number
  /** Reason phrase (RFC 9112 section 4) when it differs from the standard one. */
  readonly reason?: string | undefined
  /** All fields except Content-Length, Transfer-Encoding, Connection and Date, which the server writes. */
  readonly fields: Fields
  readonly content: Content
  /** The length announced for content that is not sent, in an answer to HEAD or in a 304. It is ignored otherwise. */
  readonly announcedLength?: number | undefined
  /** Outcome, reason and figures for the access log and the counters. */
  readonly facts?: Facts | undefined
}

/** Bytes of the content; undefined when only its end shows its length. */
export function lengthOf(content: Content): number | undefined {
  if (content.kind === 'none') return 0
  return content.kind === 'bytes' ? content.bytes.length : content.length
}

/** Whether a request announces content. */
export function hasContent({ fields }: Pick<Request, 'fields'>): boolean {
  if (fields.has('Transfer-Encoding')) return true
  const length = fields.get('Content-Length')
  return length !== undefined && Number(length) > 0
}

/** A function from request to response. When it throws a Failure the answer is its public text; any other error is a 500. */
export type Handler = (request: Request) => Response | Promise<Response>

/** The result of an exchange, reported once, after the last byte or when the connection broke. */
export interface Exchange {
  readonly request: Request
  readonly response: Response
  /** Bytes of content handed to the client's connection. */
  readonly sent: number
  /** False when the connection broke before the end of the response. */
  readonly complete: boolean
  /** Milliseconds from the head of the request to the end of the response. */
  readonly duration: number
}

/**
 * Reads Content-Length, RFC 9110 section 8.6, from the joined value of all its lines. The answer is a number of bytes, or the fault of the
 * value. Several equal lengths count as one, as the section allows.
 */
export function parseContentLength(value: string): number | Problem {
  if (DIGITS.test(value)) return Number(value)
  const [first = '', ...others] = listMembers(value)
  if (others.some(length => length !== first))
    return { problem: 'it has several lengths that differ' }
  if (!/^\d+$/.test(first)) return { problem: 'its length is not a number' }
  return DIGITS.test(first) ? Number(first) : { problem: 'its length is too large to be counted' }
}

/** Numbers up to 2^53: larger ones could not be counted exactly. */
const DIGITS = /^(?:\d{1,15}|[0-8]\d{15})$/
