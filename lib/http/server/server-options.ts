/**
 * What a server is made with: who answers, who is told, and how much of everything it takes.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Exchange, Handler, Peer, Request, Response } from '../message/message.ts'
import type { HeadLimits } from '../wire/request-rules.ts'
import type { TlsOptions } from './node-server.ts'
import type { ConnectHandler } from './take-over.ts'

export interface HttpServerOptions {
  readonly handler: Handler
  readonly connect: ConnectHandler
  /**
   * Answers a request to change to WebSocket. Without it Upgrade fields are passed over; with it those of other protocols
   * are, and the connection ends after the response.
   */
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
  /**
   * Whether requests beyond doubt are read and answered by us and only the others by Node's server. Interim responses, which
   * Node writes, are then sent to none.
   */
  readonly lane?: boolean
  /** Makes it a listener that clients speak TLS to. */
  readonly tls?: TlsOptions
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
  /** Without the client taking a byte of what waits for it, or without a byte moving either way; 0 for any time. */
  readonly stalled: Milliseconds
  /** For a client to take a block of content; any time unless told. */
  readonly taking?: Milliseconds
}
