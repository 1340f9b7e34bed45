/**
 * The way in: bytes on a connection become a Request, the handler's Response becomes bytes. Strict where Node's parser is
 * lenient (request-rules.ts), bounded in every direction: head size and time, field count, connections, requests in a
 * pipeline, idle and stalled clients.
 *
 * Order on one connection is Node's doing: handlers of pipelined requests run at once, their responses leave in the order
 * the requests came.
 */
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Clock, Milliseconds } from '../clock.ts'
import { systemCode } from '../errors.ts'
import { type Connection, Connections } from './connections.ts'
import { LiveRequest } from './live-request.ts'
import type { Exchange, Handler, Peer, Request, Response } from './message.ts'
import { problemOf, rawRefusal } from './raw-refusal.ts'
import { textResponse } from './reply.ts'
import { emptyContent, RequestContent } from './request-content.ts'
import { checkRequest, type HeadLimits } from './request-rules.ts'
import { interimSender, type Sent, send } from './send.ts'
import { afterTakeOver, type ConnectHandler, type TakenOver } from './take-over.ts'
import { parseTarget } from './target.ts'
import { asksForWebSocket, hasContent } from './upgrade.ts'

export type { ConnectHandler, TakenOver } from './take-over.ts'

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
  /** Without a byte moving while a response is under way; 0 for any time. */
  readonly stalled: Milliseconds
  /** For a client to take a block of content; any time unless told. */
  readonly taking?: Milliseconds
}

/** For the rest of a request that was answered before its end. */
const REST_TIME: Milliseconds = 10_000

export class HttpServer {
  readonly #server: Server
  readonly #connections = new Connections()
  readonly #options: HttpServerOptions
  #draining = false

  constructor(options: HttpServerOptions) {
    this.#options = options
    const { limits } = options
    this.#server = createServer({
      maxHeaderSize: limits.head,
      headersTimeout: limits.headTime,
      requestTimeout: limits.requestTime,
      keepAliveTimeout: limits.idle,
      connectionsCheckingInterval: Math.min(5000, limits.headTime),
      noDelay: true,
      requireHostHeader: false,
      insecureHTTPParser: false,
    })
    this.#server.maxHeadersCount = 0
    this.#server.maxConnections = limits.connections
    this.#server.timeout = limits.stalled
    this.#server.on('connection', socket => this.#connections.add(socket, false))
    this.#server.on('request', (message, out) => void this.#answer(message, out))
    // RFC 9110 section 10.1.1: 100 (Continue) is sent when a handler asks for the content, and otherwise never.
    this.#server.on('checkContinue', (message, out) => void this.#answer(message, out, true))
    if (options.upgrade !== undefined) {
      this.#server.on('upgrade', (message, socket, head) => {
        void this.#answerUpgrade(message, socket as Socket, head)
      })
    }
    this.#server.on('connect', (message, socket, head) => {
      void this.#answerConnect(message, socket as Socket, head)
    })
    this.#server.on('clientError', (error, socket) => this.#refuseHead(error, socket as Socket))
  }

  /** Starts listening; rejects with the system's error. Port 0 takes a free one; `fd` is a socket passed in by systemd. */
  async listen(where: { host?: string; port: number } | { fd: number }): Promise<AddressInfo> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen('fd' in where ? where : { ...where, backlog: 4096 }, () => {
        this.#server.off('error', reject)
        resolve()
      })
    })
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('not a TCP listener')
    return address
  }

  /** Open client connections. */
  get connections(): number {
    return this.#connections.count
  }

  /**
   * Stops accepting, lets what is under way finish, ends idle connections at once. When `deadline` fires the rest is cut.
   */
  async close(deadline: AbortSignal): Promise<void> {
    this.#draining = true
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.#connections.endIdle()
    const cut = () => this.#connections.destroyAll()
    if (deadline.aborted) cut()
    else deadline.addEventListener('abort', cut, { once: true })
    await closed
    deadline.removeEventListener('abort', cut)
  }

  async #answer(message: IncomingMessage, out: ServerResponse, expected = false): Promise<void> {
    const connection = this.#connectionOf(message.socket)
    let awaited = expected
    const content = new RequestContent(message, () => {
      if (awaited && !out.headersSent) out.writeContinue()
      awaited = false
    })
    const checked = this.#check(message, connection, { content, interim: interimSender(out) })
    const { request } = checked
    if (connection.underWay.size >= this.#options.limits.pipelined) {
      message.socket.destroy()
      return
    }
    connection.underWay.add(request)
    const response = checked.refusal ?? (await this.#handle(request))
    // A client that still waits for its 100 may send its content or not: where its next request begins is unknown.
    if (this.#draining || checked.refusal !== undefined || awaited) out.shouldKeepAlive = false
    const { clock, limits } = this.#options
    const sent = await send(out, request, response, { clock, taking: limits.taking })
    connection.underWay.delete(request)
    this.#report(request, response, sent)
    if (!message.complete && !message.socket.destroyed) this.#passOver(message)
    if (connection.underWay.size > 0) return
    connection.afterLast?.()
    if (this.#draining) message.socket.destroySoon()
  }

  async #answerConnect(message: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    const connection = this.#connectionOf(socket)
    const { request, refusal } = this.#check(message, connection)
    connection.underWay.add(request)
    const { connect } = this.#options
    const answer = refusal ?? (await this.#takeOver(connect, request, { socket, head }))
    if ('fields' in answer) {
      const raw = rawRefusal(answer)
      socket.end(raw.bytes)
      socket.once('finish', () => socket.destroySoon())
      this.#report(request, answer, { bytes: raw.contentLength, complete: true })
    } else this.#report(request, afterTakeOver(answer), { bytes: answer.sent, complete: true })
    connection.underWay.delete(request)
  }

  /** Takes the rest of a request that has its answer, for a while. */
  #passOver(message: IncomingMessage): void {
    const cancel = this.#options.clock.after(REST_TIME, () => message.socket.destroy())
    message.once('close', cancel)
    message.once('end', cancel)
    message.resume()
  }

  async #answerUpgrade(message: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy())
    socket.setTimeout(0)
    const connection = this.#connectionOf(socket)
    // Node has let go of the connection: an answer that is still due before this one could not be sent any more.
    if (connection.underWay.size > 0) return void socket.destroy()
    const checked = this.#check(message, connection, { content: emptyContent })
    const { request } = checked
    connection.underWay.add(request)
    const { upgrade = this.#options.connect } = this.#options
    let answer: Response | TakenOver
    if (checked.refusal !== undefined) answer = checked.refusal
    else if (hasContent(request)) {
      answer = textResponse(400, 'A request with content cannot change the protocol here.')
    } else if (asksForWebSocket(request)) {
      answer = await this.#takeOver(upgrade, request, { socket, head })
    } else answer = await this.#handle(request)
    if ('fields' in answer) {
      const out = new ServerResponse(message)
      out.assignSocket(socket)
      out.shouldKeepAlive = false
      const { clock, limits } = this.#options
      const sent = await send(out, request, answer, { clock, taking: limits.taking })
      this.#report(request, answer, sent)
      socket.destroySoon()
    } else this.#report(request, afterTakeOver(answer), { bytes: answer.sent, complete: true })
    connection.underWay.delete(request)
  }

  /** The request as a value, and the refusal when its head breaks a rule. */
  #check(
    message: IncomingMessage,
    connection: Connection,
    more: Pick<ConstructorParameters<typeof LiveRequest>[2], 'content' | 'interim'> = {},
  ): { request: LiveRequest; refusal: Response | undefined } {
    const { limits, clock, requestId } = this.#options
    const method = message.method ?? ''
    const target = parseTarget(method, message.url ?? '')
    const readable = 'problem' in target ? ({ form: 'asterisk' } as const) : target
    const request = new LiveRequest(message, connection, {
      id: requestId(),
      target: readable,
      received: clock.now(),
      ...more,
    })
    const head = {
      method,
      version: message.httpVersion,
      rawTarget: message.url ?? '',
      fields: request.fields,
    }
    const broken =
      checkRequest(head, limits.heads) ??
      ('problem' in target ? { status: 400, sentence: target.problem } : undefined)
    if (broken === undefined) return { request, refusal: undefined }
    const refusal = textResponse(broken.status, broken.sentence, {
      facts: { outcome: 'refused', because: 'malformed' },
    })
    return { request, refusal }
  }

  async #handle(request: LiveRequest): Promise<Response> {
    try {
      return await this.#options.handler(request)
    } catch (error) {
      return this.#options.onFailure(request, error)
    }
  }

  async #takeOver(
    handler: ConnectHandler,
    request: LiveRequest,
    given: { socket: Socket; head: Buffer },
  ): Promise<Response | TakenOver> {
    try {
      return await handler(request, given.socket, given.head)
    } catch (error) {
      return this.#options.onFailure(request, error)
    }
  }

  #report(request: LiveRequest, response: Response, sent: Sent): void {
    request.gone()
    const duration = Math.max(0, this.#options.clock.now() - request.received)
    this.#options.onExchange(
      { request, response, sent: sent.bytes, complete: sent.complete, duration },
      sent.error,
    )
  }

  /** A head Node's parser refused. Good requests before it on the same connection get their answers first. */
  #refuseHead(error: Error, socket: Socket): void {
    const connection = this.#connections.of(socket)
    const code = systemCode(error) ?? ''
    if (connection === undefined || code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    const { status, sentence } = problemOf(code)
    const refuse = () => {
      this.#options.onMalformed(connection.client, status, code)
      socket.end(rawRefusal(textResponse(status, sentence)).bytes, () => socket.destroySoon())
    }
    if (connection.underWay.size === 0) refuse()
    else connection.afterLast = refuse
  }

  #connectionOf(socket: Socket): Connection {
    return this.#connections.of(socket) ?? this.#connections.add(socket, false)
  }
}
