/**
 * Calls the handler of each request and reports the exchange, its record for the log: on the fast path and through Node's server.
 * Answers the handler's failure and ends the connection.
 */
import type { Socket } from 'node:net'
import type { Exchange, Request, Response } from '../message/message.ts'
import { textResponse } from '../message/reply.ts'
import { formatAuthority, formatUri, pathAndQuery } from '../message/target.ts'
import { type Connection, type LiveRequest, lookAtNoMore } from './connections.ts'
import type { LoopShare } from './loop-share.ts'
import type { HttpServerOptions } from './options.ts'
import { MalformedContent } from './request-content.ts'
import { type ResponseWriter, type Sent, send } from './send.ts'

export class Exchanges {
  readonly #options: HttpServerOptions
  readonly #share: LoopShare
  /** Whether the server is about to stop: the last answer on each connection says that the connection ends, and ends it. */
  ending = false
  /** Whether a connection ends when nothing is under way on it. */
  draining = false

  constructor(options: HttpServerOptions, share: LoopShare) {
    this.#options = options
    this.#share = share
  }

  /** The handler's response, or the one for its failure. Never throws or rejects. */
  handle(request: LiveRequest): Response | Promise<Response> {
    const answer = this.#ask(request)
    return answer instanceof Promise
      ? answer.catch((error: unknown) => this.failed(request, error))
      : answer
  }

  /** The handler's response. Never throws, but may reject. */
  #ask(request: LiveRequest): Response | Promise<Response> {
    try {
      return this.#options.handler(request)
    } catch (error) {
      return this.failed(request, error)
    }
  }

  /** The response to a request whose handler has failed. */
  failed(request: LiveRequest, error: unknown): Response {
    return error instanceof MalformedContent
      ? malformed({ status: 400, sentence: error.publicText })
      : this.#options.onFailure(request, error)
  }

  /** Calls the handler unless `way` has the response, sends the response, reports the exchange, and calls `done`. Never throws. */
  answer(
    request: LiveRequest,
    connection: Connection,
    way: { readonly out: ResponseWriter; readonly response?: Response | undefined },
    done: () => void,
  ): void {
    const { out, response = this.#ask(request) } = way
    const begin = (ready: Response): void => {
      // Requests in the pipeline were accepted before the server began to stop: the last response closes the connection.
      if (this.ending && connection.underWay.newest === request) {
        out.last()
        lookAtNoMore(connection)
      }
      send(out, request, ready, this.#share, sent => {
        connection.underWay.delete(request)
        this.report(request, ready, sent)
        done()
      })
    }
    if (response instanceof Promise) {
      void response.then(begin, (error: unknown) => begin(this.failed(request, error)))
    } else begin(response)
  }

  /** To be called after each response: does what waits until no request is under way. */
  settle(connection: Connection, socket: Socket): void {
    if (connection.underWay.size > 0) return
    const { afterLast } = connection
    connection.afterLast = undefined
    afterLast?.()
    if (this.draining) socket.destroySoon()
  }

  report(request: LiveRequest, response: Response, sent: Sent): void {
    request.gone()
    const duration = this.#options.clock.elapsed() - request.begun
    this.#options.onExchange(
      { request, response, sent: sent.bytes, complete: sent.complete, duration },
      sent.error,
    )
  }
}

/** The response to a request that is refused for its head alone. */
export function malformed({ status, sentence }: { status: number; sentence: string }): Response {
  return textResponse(status, sentence, { facts: { outcome: 'refused', because: 'malformed' } })
}

/**
 * The record of an exchange for the log. `duration` is milliseconds, `sent` bytes of content. No cookie, no credential, no
 * query secret: the logger redacts, and only the fields named here are ever read. The object is the caller's.
 */
export function accessFacts(exchange: Exchange): Record<string, unknown> {
  const { request, response } = exchange
  return {
    id: request.id,
    client: request.client.address,
    method: request.method,
    target: targetText(request),
    status: response.status,
    sent: exchange.sent,
    duration: Math.round(exchange.duration),
    complete: exchange.complete ? undefined : false,
    agent: request.fields.get('User-Agent'),
    // Last: V8 hands each member behind a spread to its runtime.
    ...response.facts,
  }
}

/** What a request asks for, as it was written. */
export function targetText({ target, fields }: Request): string {
  switch (target.form) {
    case 'absolute':
      return formatUri(target.uri)
    case 'authority':
      return formatAuthority(target.authority)
    case 'asterisk':
      return '*'
    case 'origin':
      return `${fields.get('Host') ?? ''}${pathAndQuery(target)}`
  }
}
