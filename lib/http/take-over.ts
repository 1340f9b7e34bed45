/**
 * Handlers that take a connection over: of CONNECT (RFC 9110 section 9.3.6) and of changes of protocol (section 7.8).
 */
import type { Socket } from 'node:net'
import { Fields } from './field.ts'
import { noContent, type Request, type Response } from './message.ts'

/** What became of a connection that such a handler took over. */
export interface TakenOver {
  /** Status that was sent before the connection changed hands. */
  readonly status: number
  /** Bytes sent to the client afterwards. */
  readonly sent: number
  readonly facts: Response['facts']
}

/**
 * Answers a CONNECT or an upgrade: with a response that refuses it, or, after the connection's new life is over, with what
 * became of it.
 */
export type ConnectHandler = (
  request: Request,
  socket: Socket,
  head: Buffer,
) => Promise<Response | TakenOver>

/** A connection's second life as a response, for the log and the counters. */
export function afterTakeOver({ status, facts }: TakenOver): Response {
  const response = { status, fields: Fields.empty, content: noContent }
  return facts === undefined ? response : { ...response, facts }
}
