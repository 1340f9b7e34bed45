/**
 * The HTTP server. It makes a Request of the bytes on a connection, and bytes of the handler's Response. It is stricter than Node's parser
 * (`checkRequest`). It limits head size and time, field count, connections, requests in a pipeline, and idle and stalled clients.
 *
 * Handlers of pipelined requests run at the same time; on the fast path only those of safe requests without content do. Node's server or
 * the fast path sends their responses in the order of the requests. With the option `fastPath` connections begin on the fast path.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import type { AddressInfo, ListenOptions, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import { Fields } from '../message/field.ts'
import { asksForWebSocket } from '../message/hop-by-hop.ts'
import { hasContent, noContent, type Response, type SendInterim } from '../message/message.ts'
import { textResponse } from '../message/reply.ts'
import { type Authority, TargetReader } from '../message/target.ts'
import { checkRequest } from '../wire/request-head.ts'
import type { ConnectionPlace } from './clients.ts'
import {
  type Connection,
  Connections,
  callAfterLastRequest,
  LiveRequest,
  peerOf,
  shareReadMemory,
} from './connections.ts'
import {
  Exchanges,
  interimSender,
  LoopShare,
  malformedResponse,
  NodeResponseWriter,
  wholeResponse,
} from './exchanges.ts'
import { FastPath } from './fast-path.ts'
import { unobservedMovement } from './movement.ts'
import type {
  ConnectHandler,
  HttpServerLimits,
  HttpServerOptions,
  KeyAndCertificate,
  TakenOver,
  TlsOptions,
} from './options.ts'
import { awaitIntroduction } from './proxy-protocol.ts'
import { emptyContent, passOver, RequestContent } from './request-content.ts'

/** How long a new connection is kept for its first request when the server stops. */
const forFirstRequest: Milliseconds = 1000

export class HttpServer {
  readonly #server: Server | SecureServer
  /** TCP connections of a TLS listener, and connections that begin with the PROXY protocol. */
  readonly #raw = new Set<Socket>()
  /** The places of connections whose handshake is under way, by `endsOf`. */
  readonly #places = new Map<string, ConnectionPlace>()
  readonly #connections: Connections
  readonly #options: HttpServerOptions
  readonly #targets = new TargetReader()
  readonly #exchanges: Exchanges
  readonly #fastPath: FastPath | undefined
  /** Gives a connection to Node's server. */
  readonly #toNode: (socket: Socket) => void
  #stopWatching: (() => void) | undefined

  constructor(options: HttpServerOptions) {
    this.#options = options
    this.#connections = new Connections(options)
    this.#server = nodeServer(options.limits, options.tls)
    const share = new LoopShare(options.clock)
    this.#exchanges = new Exchanges(options, share)
    // The event by which Node's server takes a connection that is ready for requests.
    const arrival = options.tls === undefined ? 'connection' : 'secureConnection'
    const takers = this.#server.listeners(arrival)
    this.#server.removeAllListeners(arrival)
    this.#toNode = socket => {
      for (const take of takers) take.call(this.#server, socket)
    }
    if (options.fastPath) {
      const parts = { options, exchanges: this.#exchanges, targets: this.#targets }
      const refuse = this.#refuseBytes.bind(this)
      this.#fastPath = new FastPath({ ...parts, toNode: this.#toNode, refuse })
    }
    this.#server.on('connection', () => share.arrive())
    if (options.tls === undefined) {
      this.#server.on('connection', socket => this.#accepted(shareReadMemory(socket)))
    } else {
      this.#server.on('secureConnection', socket => this.#arrived(socket))
      this.#server.on('connection', socket => this.#beginsHandshake(socket))
    }
    this.#server.on('request', (message, out) => this.#answer(message, out))
    // RFC 9110 section 10.1.1: the server sends 100 (Continue) only when a handler asks for the content.
    this.#server.on('checkContinue', (message, out) => this.#answer(message, out, true))
    // Without this listener Node would answer 417 itself, and no exchange would be reported.
    this.#server.on('checkExpectation', (message, out) => this.#answer(message, out))
    if (options.upgrade !== undefined) {
      this.#server.on('upgrade', (message, socket, head) => {
        void this.#answerUpgrade(message, socket as Socket, head)
      })
    }
    this.#server.on('connect', (message, socket, head) => {
      void this.#answerConnect(message, socket as Socket, head)
    })
    this.#server.on('clientError', (error, socket) => {
      this.#refuseBytes(systemCode(error) ?? '', socket as Socket)
    })
  }

  /**
   * Starts listening and rejects with the system's error. Port 0 takes a free port. `fd` is a socket passed in by systemd. The answer is
   * undefined for a socket in the file system, whose clients have no address.
   */
  async listen(where: ListenOptions | { fd: number }): Promise<AddressInfo | undefined> {
    this.#server.listen('fd' in where ? where : { ...where, backlog: 4096 })
    await once(this.#server, 'listening')
    this.#stopWatching = this.#connections.watch(this.#options.limits)
    const address = this.#server.address()
    return address === null || typeof address === 'string' ? undefined : address
  }

  /** Uses another certificate from now on; for TLS listeners. */
  setIdentity(identity: KeyAndCertificate): void {
    if ('setSecureContext' in this.#server) {
      this.#server.setSecureContext({ ...identity, minVersion: tlsRules.minVersion })
    }
  }

  /** The requests whose answers have not ended, tunnels included. Each comes with a function that cuts its connection. */
  underWay() {
    return this.#connections.underWay()
  }

  get connections(): number {
    return this.#connections.count
  }

  /**
   * From now on the last answer on each connection announces the end of the connection and ends it. New connections are accepted as before.
   */
  announceEnd(): void {
    this.#exchanges.ending = true
  }

  /**
   * Stops accepting, lets the requests under way finish, and ends idle connections. A connection without a first request stays open for
   * `forFirstRequest`, because its client may have sent one. When `deadline` fires, all other connections are cut.
   */
  async close(deadline: AbortSignal): Promise<void> {
    const { clock } = this.#options
    this.announceEnd()
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    const cut = () => {
      this.#connections.destroyAll()
      for (const socket of this.#raw) socket.destroy()
    }
    if (deadline.aborted) cut()
    else deadline.addEventListener('abort', cut, { once: true })
    const cancel = clock.after(forFirstRequest, () => this.#connections.endSilent())
    await whatHasCome()
    this.#exchanges.draining = true
    this.#connections.endIdle()
    await closed
    cancel()
    deadline.removeEventListener('abort', cut)
    this.#stopWatching?.()
  }

  /** Takes a connection; one that begins with the PROXY protocol waits until the client is known. */
  #accepted(socket: Socket): void {
    const peer = peerOf(socket)
    const { clock, introduces, onMalformed } = this.#options
    if (introduces?.(peer.address) !== true) return this.#arrived(socket)
    this.#remember(socket)
    awaitIntroduction(socket, {
      clock,
      introduced: (client, rest) => {
        this.#connections.add(socket, { secure: false, client: client ?? peer })
        this.#arrived(socket, rest)
        if (this.#exchanges.draining && rest.length === 0) socket.destroySoon()
      },
      refused: problem => onMalformed(peer, 400, problem),
    })
  }

  /** Takes a new connection, or the TLS connection inside an intercepted tunnel. `first` are bytes already read from it. */
  #arrived(socket: Socket, first?: Buffer): void {
    const connection = this.#connectionOf(socket)
    if (socket.destroyed) return
    if (this.#fastPath === undefined) {
      if (first !== undefined) socket.pause().unshift(first)
      this.#toNode(socket)
      if (first !== undefined) socket.resume()
    } else {
      this.#fastPath.add(socket, connection, first)
    }
  }

  #answer(message: IncomingMessage, out: ServerResponse, expected = false): void {
    const connection = this.#connectionOf(message.socket)
    if (connection.over) return void message.resume()
    let awaited = expected
    const content = new RequestContent(message, () => {
      if (awaited && !out.headersSent) out.writeContinue()
      awaited = false
    })
    const { request, refusal } = this.#read(message, connection, {
      content,
      interim: interimSender(out),
    })
    connection.requests += 1
    if (connection.underWay.size >= this.#options.limits.pipelined) {
      return void message.socket.destroy()
    }
    connection.underWay.add(request)
    connection.content = content
    connection.over = refusal !== undefined || !out.shouldKeepAlive
    // A client that still waits for 100 (Continue) may send its content or not, so the start of its next request is unknown.
    const ends = () => awaited || content.malformed || refusal !== undefined
    const outgoing = new NodeResponseWriter(out, connection.untaken, ends)
    this.#exchanges.answer(request, connection, { out: outgoing, response: refusal }, () => {
      passOver(message, this.#options.clock)
      this.#exchanges.settle(connection, message.socket)
    })
  }

  async #answerConnect(message: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const handed = this.#handedOver(message, socket)
    if (handed === undefined) return
    const { connection, request, refusal } = handed
    const { connect } = this.#options
    const answer = refusal ?? (await this.#takeOver(connect, request, { socket, head }))
    if (!('fields' in answer)) return this.#reportTakenOver(request, connection, answer)
    socket.end(wholeResponse(answer)).once('finish', () => socket.destroySoon())
    const bytes = answer.content.kind === 'bytes' ? answer.content.bytes.length : 0
    this.#exchanges.report(request, answer, { bytes, complete: true })
    connection.underWay.delete(request)
  }

  async #answerUpgrade(message: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    socket.setTimeout(0)
    const handed = this.#handedOver(message, socket)
    if (handed === undefined) return
    const { connection, request } = handed
    const { upgrade = this.#options.connect } = this.#options
    let answer: Response | TakenOver | undefined = handed.refusal
    if (answer === undefined && hasContent(request)) {
      const sentence = 'A request with content cannot change the protocol here.'
      answer = malformedResponse({ status: 400, sentence })
    } else if (answer === undefined && asksForWebSocket(request)) {
      answer = await this.#takeOver(upgrade, request, { socket, head })
    }
    if (answer !== undefined && !('fields' in answer)) {
      return this.#reportTakenOver(request, connection, answer)
    }
    connection.takenOver = false
    connection.moved = unobservedMovement
    const response = new ServerResponse(message)
    response.assignSocket(socket)
    const out = new NodeResponseWriter(response, connection.untaken, () => true)
    this.#exchanges.answer(request, connection, { out, response: answer }, () =>
      socket.destroySoon(),
    )
  }

  #reportTakenOver(request: LiveRequest, connection: Connection, answer: TakenOver): void {
    const { status, sent, facts } = answer
    const response = { status, fields: Fields.empty, content: noContent, facts }
    this.#exchanges.report(request, response, { bytes: sent, complete: true })
    connection.underWay.delete(request)
  }

  /** The request of a connection that Node's server has given up; undefined when no answer can be sent on it. */
  #handedOver(message: IncomingMessage, socket: Socket) {
    socket.on('error', () => socket.destroy())
    const connection = this.#connectionOf(socket)
    if (connection.over) return undefined
    // An earlier answer that is still due could no longer be sent, or would land in the tunnel (RFC 9112 section 9.3.2).
    if (connection.underWay.size > 0) return void socket.destroy()
    const { request, refusal } = this.#read(message, connection)
    connection.underWay.add(request)
    connection.takenOver = true
    return { connection, request, refusal }
  }

  /** The request that Node's parser has read, and the answer when its head breaks a rule that parser does not know. */
  #read(
    message: IncomingMessage,
    connection: Connection,
    more: { readonly content?: RequestContent; readonly interim?: SendInterim } = {},
  ) {
    const { content, interim } = more
    const { method = '', url: rawTarget = '' } = message
    const fields = Fields.fromFlat(message.rawHeaders)
    const target = this.#targets.read(method, rawTarget)
    const read = {
      method,
      target: 'problem' in target ? ({ form: 'asterisk' } as const) : target,
      version: message.httpVersionMinor === 0 ? ('1.0' as const) : ('1.1' as const),
      fields,
      content: content ?? emptyContent,
      trailers: content && (() => content.trailers()),
      interim,
    }
    const head = { method, version: message.httpVersion, rawTarget, fields }
    const problem =
      checkRequest(head, this.#options.limits.heads) ??
      ('problem' in target ? { status: 400, sentence: target.problem } : undefined)
    const request = new LiveRequest(read, connection, this.#options)
    return { request, refusal: problem && malformedResponse(problem) }
  }

  async #takeOver(
    handler: ConnectHandler,
    request: LiveRequest,
    given: { socket: Socket; head: Buffer },
  ): Promise<Response | TakenOver> {
    try {
      return await handler(request, given.socket, given.head, (secure, end) =>
        this.#adopt(given.socket, secure, end),
      )
    } catch (error) {
      return this.#exchanges.failed(request, error)
    }
  }

  /** Refuses bytes of a head or of content that are malformed or came too late. The handler that reads the content learns of it. */
  #refuseBytes(code: string, socket: Socket): void {
    const connection = this.#connections.of(socket)
    // Node repeats the error for each packet that follows.
    if (connection?.content?.malformed) return
    if (connection === undefined || code === 'ECONNRESET' || !socket.writable) socket.destroy()
    else if (connection.content?.refuse(code)) {
      this.#options.onMalformed(connection.client, 400, code)
      callAfterLastRequest(connection, () => socket.destroySoon())
    } else if (!connection.over) this.#refuse(socket, connection, code)
  }

  /** Sends the refusal after the responses to earlier requests on the connection. */
  #refuse(socket: Socket, connection: Connection, code: string): void {
    connection.over = true
    const [status, sentence] = headProblems[code] ?? malformedHead
    callAfterLastRequest(connection, () => {
      this.#options.onMalformed(connection.client, status, code)
      socket.end(wholeResponse(textResponse(status, sentence)), () => socket.destroySoon())
    })
  }

  #adopt(below: Socket, secure: TLSSocket, end: Authority): Promise<number> {
    const connection = this.#connections.addWithin(this.#connectionOf(below), secure, end)
    this.#arrived(secure)
    return new Promise(resolve => {
      if (secure.closed) resolve(connection.requests)
      else secure.once('close', () => resolve(connection.requests))
    })
  }

  /** Keeps a connection that is not ready for requests, so that a stop can cut it. */
  #remember(socket: Socket): void {
    this.#raw.add(socket)
    socket.once('close', () => this.#raw.delete(socket))
  }

  /** Counts the connection among those of its client before the handshake: a client could begin many handshakes and end none. */
  #beginsHandshake(socket: Socket): void {
    this.#remember(socket)
    const place = this.#options.clients?.enter(peerOf(socket).address)
    if (place === undefined) return
    if (place === 'none') return void socket.destroy()
    const name = endsOf(socket)
    this.#places.set(name, place)
    socket.once('close', () => {
      this.#places.delete(name)
      place.leave()
    })
  }

  #connectionOf(socket: Socket): Connection {
    const known = this.#connections.of(socket)
    if (known !== undefined) return known
    const secure = this.#options.tls !== undefined
    const place = this.#places.size === 0 ? undefined : this.#places.get(endsOf(socket))
    return this.#connections.add(socket, place === undefined ? { secure } : { secure, place })
  }
}

function endsOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}

/** Settles when the event loop has read the bytes that are in the kernel now. */
async function whatHasCome(): Promise<void> {
  // The first `setImmediate` may run before the loop reads again; the second runs after it.
  for (const _ of [1, 2]) await new Promise(resolve => setImmediate(resolve))
}

/** The server takes TLS 1.2 or newer, and HTTP/1.1 alone. */
export const tlsRules = { minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'] } as const

/** The answers when Node's parser refuses a head, by its codes. */
const headProblems: Readonly<Record<string, readonly [status: number, sentence: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The fields of this request are larger than this server takes.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_INVALID_METHOD: [501, 'This method is not known here and cannot be passed on.'],
}
const malformedHead = [400, 'This is not an HTTP request that can be understood.'] as const

/** Node's HTTP server, for plain connections or TLS, with our limits. */
function nodeServer(limits: HttpServerLimits, tls?: TlsOptions): Server | SecureServer {
  const options = {
    maxHeaderSize: limits.head,
    headersTimeout: limits.headTime,
    requestTimeout: limits.requestTime,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: Math.min(5000, limits.headTime),
    noDelay: true,
    requireHostHeader: false,
    insecureHTTPParser: false,
  }
  const server =
    tls === undefined
      ? createServer(options)
      : createSecureServer({
          ...options,
          ...tls.identity,
          ...tlsRules,
          ALPNProtocols: [...tlsRules.ALPNProtocols],
          handshakeTimeout: limits.headTime,
          SNICallback: (host, done) => {
            tls.contextFor(host).then(context => done(null, context), done)
          },
        })
  // Node's `close` would cut idle connections, and with them requests that have arrived and are not read.
  server.closeIdleConnections = () => undefined
  server.maxHeadersCount = 0
  server.maxConnections = limits.connections
  return server
}
