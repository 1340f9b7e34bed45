/**
 * What every exchange of a server has in common, whoever read the request and writes the response: the handler's answer or
 * the one for its failure, when a connection ends, and the report.
 */
import type { Socket } from 'node:net'
import type { LoopShare } from '../fast-path/loop-share.ts'
import type { Response } from '../message/message.ts'
import { textResponse } from '../message/reply.ts'
import type { Refusal } from '../wire/request-rules.ts'
import { type Connection, isNewest } from './connections.ts'
import type { LiveRequest } from './live-request.ts'
import type { Outgoing } from './response-writer.ts'
import { type Sent, send, type Taking } from './send.ts'
import type { HttpServerOptions } from './server-options.ts'

export class Exchanges {
  readonly #options: HttpServerOptions
  readonly #taking: Taking
  /** Whether the server is about to stop: the last answer on each connection closes it. */
  draining = false

  constructor(options: HttpServerOptions, share: LoopShare) {
    this.#options = options
    const { clock, limits } = options
    this.#taking = { clock, taking: limits.taking, share }
  }

  /** The handler's response; that for its failure when it throws. */
  async handle(request: LiveRequest): Promise<Response> {
    try {
      return await this.#options.handler(request)
    } catch (error) {
      return this.#options.onFailure(request, error)
    }
  }

  /** Lets the request be handled, sends the response and reports the exchange. Never rejects. */
  async answer(
    request: LiveRequest,
    connection: Connection,
    way: { readonly out: Outgoing; readonly response?: Response | undefined },
  ): Promise<void> {
    const { out, response = await this.handle(request) } = way
    // What follows in the pipeline was accepted before we began to stop: the last answer closes.
    if (this.draining && isNewest(request, connection)) out.last()
    const sent = await send(out, request, response, this.#taking)
    connection.underWay.delete(request)
    this.report(request, response, sent)
  }

  /** To be called after every answer: what had to wait until nothing is under way any more happens now. */
  settle(connection: Connection, socket: Socket): void {
    if (connection.underWay.size > 0) return
    const { afterLast } = connection
    delete connection.afterLast
    afterLast?.()
    if (this.draining) socket.destroySoon()
  }

  report(request: LiveRequest, response: Response, sent: Sent): void {
    request.gone()
    const duration = Math.max(0, this.#options.clock.now() - request.received)
    this.#options.onExchange(
      { request, response, sent: sent.bytes, complete: sent.complete, duration },
      sent.error,
    )
  }
}

/** The answer to a head that breaks a rule. */
export function malformed({ status, sentence }: Pick<Refusal, 'status' | 'sentence'>): Response {
  return textResponse(status, sentence, { facts: { outcome: 'refused', because: 'malformed' } })
}
