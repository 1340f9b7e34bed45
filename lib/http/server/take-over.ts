/**
 * Handlers that take a connection over: of CONNECT (RFC 9110 section 9.3.6) and of changes of protocol (section 7.8).
 */
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { Fields } from '../message/field.ts'
import { noContent, type Request, type Response } from '../message/message.ts'
import type { Authority } from '../message/target.ts'

/** What became of a connection that such a handler took over. */
export interface TakenOver {
  /** Status that was sent before the connection changed hands. */
  readonly status: number
  /** Bytes sent to the client afterwards. */
  readonly sent: number
  readonly facts: Response['facts']
}

/**
 * Takes a connection on which TLS was begun after a CONNECT and answers the requests that come through it; their `tunnelEnd`
 * is `end`. Settles with the number of requests when the connection has closed. The limits and the end of the server hold
 * for it as for any other.
 */
export type Adopt = (socket: TLSSocket, end: Authority) => Promise<number>

/**
 * Answers a CONNECT or an upgrade: with a response that refuses it, or, after the connection's new life is over, with what
 * became of it.
 */
export type ConnectHandler = (
  request: Request,
  socket: Socket,
  head: Buffer,
  adopt: Adopt,
) => Promise<Response | TakenOver>

/** A connection's second life as a response, for the log and the counters. */
export function afterTakeOver({ status, facts }: TakenOver): Response {
  const response = { status, fields: Fields.empty, content: noContent }
  return facts === undefined ? response : { ...response, facts }
}
