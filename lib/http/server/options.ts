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
  /** Answers a request for WebSocket; others for a change are ignored and end the connection. Without it all are ignored. */
  readonly upgrade?: ConnectHandler
  /** The answer when a handler throws. */
  readonly onFailure: (request: Request, error: unknown) => Response
  /** Told once of every exchange when it is over. `error` is what broke the content off on our side. */
  readonly onExchange: (exchange: Exchange, error?: unknown) => void
  /** Told of every head that was refused before it became a Request. */
  readonly onMalformed: (client: Peer, status: number, problem: string) => void
  readonly requestId: () => string
  readonly clock: Clock
  readonly limits: HttpServerLimits
  /** Whether plain requests take the fast path (../fast-path.ts). Other requests go to Node's server. */
  readonly fastPath?: boolean
  /** A field that makes the only difference between most requests, on whichever connection they come. */
  readonly varying?: string
  /** Makes it a TLS listener. */
  readonly tls?: TlsOptions
  /** Whether connections of a peer begin with the PROXY protocol (proxy-protocol.ts); of a listener without TLS. */
  readonly introduces?: (address: string) => boolean
  /** What each client may have; all servers of a service share it. */
  readonly clients?: Clients
}

/** A certificate with its key, PEM; after the certificate may follow those between it and its root. */
export interface KeyAndCertificate {
  readonly key: string
  readonly cert: string
}

/** What a listener for TLS needs. */
export interface TlsOptions {
  /** For clients that name no host, and for hosts `contextFor` has nothing for. */
  readonly identity: KeyAndCertificate
  /** What answers for the host a client names (SNI). Undefined: `identity` does. */
  readonly contextFor: (host: string) => Promise<SecureContext | undefined>
}

export interface HttpServerLimits {
  /** Bytes of a request head. */
  readonly head: number
  readonly heads: HeadLimits
  readonly connections: number
  /** Requests under way on one connection before it is cut; apt sends ten. */
  readonly pipelined: number
  /** For a whole head to arrive. */
  readonly headTime: Milliseconds
  /** For a whole request, content included; 0 for any time. */
  readonly requestTime: Milliseconds
  /** Between requests. */
  readonly idle: Milliseconds
  /** Without the client taking what waits for it, or while it takes less than `slowest`; 0 for any time. */
  readonly taking: Milliseconds
  /** Bytes a second; 1 KiB unless told, 0 for any that moves. */
  readonly slowest?: number
  /** Without a byte moving either way while a request is under way; 0 for any time. */
  readonly stalled: Milliseconds
}

/** Answers CONNECT or a change of protocol (RFC 9110 sections 9.3.6, 7.8): refuses it, or reports when the connection has ended. */
export type ConnectHandler = (
  request: Request,
  socket: Socket,
  head: Buffer,
  adopt: Adopt,
) => Promise<Response | TakenOver>

/** The report of a connection that a handler took over. */
export interface TakenOver {
  /** Status that was sent before the handler took the connection over. */
  readonly status: number
  /** Bytes sent to the client afterwards. */
  readonly sent: number
  readonly facts: Response['facts']
}

/**
 * Takes a connection on which TLS was begun after a CONNECT and answers the requests that come through it; their `tunnelEnd`
 * is `end`. Settles with the number of requests when the connection has closed. The server's limits and its end hold for it
 * as for any other.
 */
export type Adopt = (socket: TLSSocket, end: TunnelEnd) => Promise<number>
