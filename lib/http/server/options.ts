/**
 * The options of a server: handlers, callbacks and limits.
 */
import type { Socket } from 'node:net'
import type { SecureContext, TLSSocket } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Exchange, Handler, Peer, Request, Response, TunnelEnd } from '../message/message.ts'
import type { HeadLimits } from '../wire/request-head.ts'
import type { Clients } from './clients.ts'

export interface HttpServerOptions {
  readonly handler: Handler
  readonly connect: ConnectHandler
  /**
   * Answers a request for WebSocket. Other requests for a protocol change are ignored and end the connection. Without this handler all
   * requests for a change are ignored.
   */
  readonly upgrade?: ConnectHandler
  /** Makes the answer when a handler throws. */
  readonly onFailure: (request: Request, error: unknown) => Response
  /** Called once for every exchange when it is over. `error` is the reason when the content broke off on our side. */
  readonly onExchange: (exchange: Exchange, error?: unknown) => void
  /** Called for every head that was refused before it became a Request. */
  readonly onMalformed: (client: Peer, status: number, problem: string) => void
  readonly requestId: () => string
  readonly clock: Clock
  readonly limits: HttpServerLimits
  /** Whether plain requests take the fast path (../fast-path.ts). Other requests go to Node's server. */
  readonly fastPath?: boolean
  /** The name of a field whose value is the only difference between most requests, on any connection. */
  readonly varying?: string
  /** With these options the listener is one for TLS. */
  readonly tls?: TlsOptions
  /** Whether connections of this peer begin with the PROXY protocol (proxy-protocol.ts). Only a listener without TLS uses it. */
  readonly introduces?: (address: string) => boolean
  /** What each client may use. All servers of a service share it. */
  readonly clients?: Clients
}

/** A certificate with its key, in PEM. Certificates between it and its root may follow it. */
export interface KeyAndCertificate {
  readonly key: string
  readonly cert: string
}

export interface TlsOptions {
  /** Serves clients that name no host, and hosts for which `contextFor` has none. */
  readonly identity: KeyAndCertificate
  /** The certificate for the host that a client names (SNI); undefined: `identity` serves the host. */
  readonly contextFor: (host: string) => Promise<SecureContext | undefined>
}

export interface HttpServerLimits {
  /** Bytes of a request head. */
  readonly head: number
  readonly heads: HeadLimits
  readonly connections: number
  /** Requests under way on one connection before it is cut; apt sends ten. */
  readonly pipelined: number
  readonly headTime: Milliseconds
  /** Time for a whole request to arrive, content included; 0 is no limit. */
  readonly requestTime: Milliseconds
  /** Time between requests. */
  readonly idle: Milliseconds
  /** Time in which the client takes none of the waiting bytes, or takes them more slowly than `slowest`; 0 is no limit. */
  readonly taking: Milliseconds
  /** Bytes a second that the client has to take, 1024 if undefined. With 0 any movement is enough. */
  readonly slowest?: number
  /** Time without a byte in either direction while a request is under way; 0 is no limit. */
  readonly stalled: Milliseconds
}

/**
 * Answers CONNECT or a protocol change (RFC 9110 sections 9.3.6, 7.8). It refuses the request, or reports when the connection has ended.
 */
export type ConnectHandler = (
  request: Request,
  socket: Socket,
  head: Buffer,
  adopt: Adopt,
) => Promise<Response | TakenOver>

/** The report of a connection that a handler took over. */
export interface TakenOver {
  /** The status that was sent before the handler took the connection over. */
  readonly status: number
  /** The number of bytes sent to the client afterwards. */
  readonly sent: number
  readonly facts: Response['facts']
}

/**
 * Takes a connection on which TLS was begun after a CONNECT, and answers the requests that come through it. Their `tunnelEnd` is `end`. The
 * promise settles with the number of requests when the connection has closed. The server's limits and its stop apply to the connection as
 * to any other.
 */
export type Adopt = (socket: TLSSocket, end: TunnelEnd) => Promise<number>
