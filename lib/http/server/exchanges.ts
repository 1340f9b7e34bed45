/**
 * Calls the handler of each request, sends its response and reports the exchange for the log, on the fast path and through Node's server.
 * Answers for a handler that fails, and ends connections. Content shares the turns of the event loop with new connections (`LoopShare`).
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { type Pace, PacedSource } from '../../bytes/pace.ts'
import type { Piece } from '../../bytes/piece.ts'
import type { WriteListener } from '../../bytes/small-writes.ts'
import { bytesSource, type Source } from '../../bytes/source.ts'
import { attempt } from '../../errors.ts'
import type { Fields } from '../message/field.ts'
import {
  type Exchange,
  lengthOf,
  type Request,
  type Response,
  type SendInterim,
  type StreamedContent,
} from '../message/message.ts'
import { textResponse } from '../message/reply.ts'
import { formatAuthority, formatUri, pathAndQuery } from '../message/target.ts'
import { type OutgoingHead, responseText } from '../wire/framing.ts'
import { type Connection, ignoreFurtherRequests, type LiveRequest } from './connections.ts'
import type { HttpServerOptions } from './options.ts'
import { MalformedContent } from './request-content.ts'

export class Exchanges {
  readonly #options: HttpServerOptions
  readonly #share: LoopShare
  /** Whether the server is about to stop. Then the last answer on each connection announces its end and ends it. */
  ending = false
  /** Whether a connection ends when no request is under way on it. */
  draining = false

  constructor(options: HttpServerOptions, share: LoopShare) {
    this.#options = options
    this.#share = share
  }

  /** The handler's response. Never throws, but may reject. */
  #ask(request: LiveRequest): Response | Promise<Response> {
    try {
      return this.#options.handler(request)
    } catch (error) {
      return this.failed(request, error)
    }
  }

  failed(request: LiveRequest, error: unknown): Response {
    return error instanceof MalformedContent
      ? malformedResponse({ status: 400, sentence: error.publicText })
      : this.#options.onFailure(request, error)
  }

  /** Sends `response`, or the handler's when it is undefined, reports the exchange and calls `done`. Never throws. */
  answer(
    request: LiveRequest,
    connection: Connection,
    way: { readonly out: ResponseWriter; readonly response?: Response | undefined },
    done: () => void,
  ): void {
    const { out, response = this.#ask(request) } = way
    const { clientPlace } = connection
    const begin = (ready: Response): void => {
      // Requests in the pipeline were accepted before the server began to stop, so only the last response closes the connection.
      const ends = this.ending || clientPlace?.refused === true
      if (ends && connection.underWay.newest === request) {
        out.last()
        ignoreFurtherRequests(connection)
      }
      const pace = clientPlace?.pace
      const paced = pace === undefined ? ready : pacedResponse(ready, pace)
      const finished = (sent: Sent): void => {
        connection.underWay.delete(request)
        this.report(request, ready, sent)
        done()
      }
      send(paced, { out, request, share: this.#share, done: finished })
    }
    if (response instanceof Promise) {
      void response.then(begin, (error: unknown) => begin(this.failed(request, error)))
    } else begin(response)
  }

  /** To be called after each response. It does what waits until no request is under way. */
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
export function malformedResponse(refusal: { status: number; sentence: string }): Response {
  const facts = { outcome: 'refused', because: 'malformed' }
  return textResponse(refusal.status, refusal.sentence, { facts })
}

/**
 * The record of an exchange for the log. `duration` is in milliseconds, `sent` in bytes of content. It holds no cookie, credential or query
 * secret: the logger redacts, and only the fields named here are read. The caller may change the object.
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
    slow: request.slowClient ? true : undefined,
    agent: request.fields.get('User-Agent'),
    // This comes last, because V8 hands each member behind a spread to its runtime.
    ...response.facts,
  }
}

/** The target of a request, as it was written. */
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

interface Sent {
  /** Bytes of content the kernel took for the client. */
  readonly bytes: number
  readonly complete: boolean
  /** Why the content broke off, when it broke off on our side. */
  readonly error?: unknown
}

const nothing: Sent = { bytes: 0, complete: false }

/** A response on its way to the client. */
interface Sending {
  readonly out: ResponseWriter
  readonly request: LiveRequest
  readonly share: LoopShare
  readonly done: (sent: Sent) => void
}

/**
 * Sends a response: framing (RFC 9112 section 6) and back-pressure. If the content breaks off, it cuts the connection, so that no client
 * takes a part for the whole.
 *
 * Calls `done` once, when the kernel has the last byte or the connection has closed. The watch over the connections (connections.ts)
 * ensures that one of the two happens. Never throws.
 */
function send(response: Response, to: Sending): void {
  const { out, request, done } = to
  const { status, reason, fields, content } = response
  if (request.over) {
    discard(response)
    return done(nothing)
  }
  const hasContent = request.method !== 'HEAD' && mayHaveContent(status)
  try {
    // RFC 9110 section 8.6: a 204 has no Content-Length.
    const announced = status === 204 ? undefined : response.announcedLength
    const length = hasContent ? lengthOf(content) : announced
    out.head({ status, reason, fields, length, hasContent })
  } catch (error) {
    discard(response)
    out.destroy()
    return done({ ...nothing, error })
  }
  if (hasContent && content.kind === 'stream') new Streaming(content, to).run()
  else finish(hasContent && content.kind === 'bytes' ? content.bytes : undefined, to)
}

/** Releases the memory and the connection of a response that is not sent. */
function discard({ content }: Response): void {
  if (content.kind === 'stream') content.open().close()
}

/** Whether a response with this status may have content (RFC 9110 section 6.4.1). */
function mayHaveContent(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

/** Ends a response, with its content when all of it is in memory. */
function finish(bytes: Buffer | undefined, { out, request, done }: Sending): void {
  let told = false
  const tell = (sent: Sent): void => {
    if (told) return
    told = true
    done(sent)
  }
  request.onceOver(() => tell(nothing))
  // After an error the connection closes, which ends the request.
  out.end(bytes, error => {
    if (!error) tell({ bytes: bytes?.length ?? 0, complete: true })
  })
}

class Streaming {
  readonly #content: StreamedContent
  readonly #to: Sending
  readonly #source: Source
  /** Bytes handed to the connection, and those the kernel has taken. */
  #written = 0
  #taken = 0
  #asking = false
  #looping = false
  #broken: Error | undefined
  #ended = false
  #over = false

  constructor(content: StreamedContent, to: Sending) {
    this.#content = content
    this.#to = to
    this.#source = content.open()
  }

  run(): void {
    // A response behind another one gets no event for its own writes when the connection breaks.
    this.#to.request.onceOver(() => this.#finish({ complete: false }))
    this.#ask()
  }

  /** Asks for pieces until enough of them wait. It is a loop, because a source may answer at once. */
  #ask(): void {
    if (this.#looping) return
    this.#looping = true
    while (!this.#asking && !this.#over && this.#to.share.mayAsk(this.#written - this.#taken)) {
      this.#asking = true
      this.#source.next(this.#take)
    }
    this.#looping = false
  }

  readonly #take = (error: Error | undefined, piece: Piece | undefined): void => {
    if (this.#over) return piece?.release()
    if (error !== undefined) return this.#break(error)
    if (piece === undefined) return this.#end()
    if (this.#written === 0) this.#write(piece)
    else this.#to.share.take(piece.bytes.length, () => this.#write(piece))
  }

  #write(piece: Piece): void {
    if (this.#over) return piece.release()
    const { length } = this.#content
    const size = piece.bytes.length
    if (length !== undefined && this.#written + size > length) {
      piece.release()
      return this.#break(new RangeError('more content than was announced'))
    }
    this.#written += size
    this.#to.share.wait(size)
    this.#to.out.write(piece.bytes, error => {
      piece.release()
      this.#to.share.wait(-size)
      // The client's connection has broken, which says nothing about the content.
      if (error) return this.#finish({ complete: false })
      this.#taken += size
      if (this.#over) return
      if (this.#taken < this.#written) return this.#ask()
      if (this.#broken !== undefined) this.#fail(this.#broken)
      else if (this.#ended) this.#finish({ complete: true })
      else this.#ask()
    })
    this.#asking = false
    this.#ask()
  }

  #end(): void {
    const { length, trailers } = this.#content
    if (length !== undefined && this.#written !== length) {
      return this.#break(new RangeError('less content than was announced'))
    }
    // Without chunks there is no place for trailer fields (RFC 9112 section 7.1.2).
    if (trailers !== undefined && this.#to.out.chunked) this.#to.out.trailers(trailers())
    this.#to.out.end(undefined, error => {
      if (error) return
      this.#ended = true
      if (this.#taken === this.#written) this.#finish({ complete: true })
    })
  }

  /** The content broke off on our side: the client gets the bytes sent so far, then the connection is cut. */
  #break(error: Error): void {
    this.#broken = error
    if (this.#taken === this.#written) this.#fail(error)
  }

  #fail(error: unknown): void {
    const { over } = this.#to.request
    this.#to.out.destroy()
    this.#finish(over ? { complete: false } : { complete: false, error })
  }

  #finish(how: Omit<Sent, 'bytes'>): void {
    if (this.#over) return
    this.#over = true
    this.#source.close()
    this.#to.done({ bytes: how.complete ? this.#written : this.#taken, ...how })
  }
}

/**
 * Writes one response, on the fast path or through Node. Its methods are called in this order: `last` if needed, `head`, any number of
 * `write`, `trailers` if needed, `end`.
 */
export interface ResponseWriter {
  /** Makes the connection end with this response. */
  last(): void
  /** Throws for fields that cannot be written; then no byte has left. */
  head(head: OutgoingHead): void
  /** Whether the content goes in chunks (RFC 9112 section 7.1), so that there is room for trailer fields. */
  readonly chunked: boolean
  write(block: Buffer, taken: WriteListener): void
  trailers(fields: Fields): void
  /** Ends the response; `bytes` is the content when all of it is in memory. */
  end(bytes: Buffer | undefined, taken: WriteListener): void
  /** Cuts the connection, so that the client does not take a part for the whole. */
  destroy(): void
}

export class NodeResponseWriter implements ResponseWriter {
  readonly #out: ServerResponse
  readonly #untaken: Set<WriteListener>
  readonly #ends: () => boolean
  /** Whether only the end of the connection marks the end of the content. */
  #untilClose = false

  /** `untaken` is that of the connection. `ends` says, when the head is due, whether the connection has to end with this response. */
  constructor(out: ServerResponse, untaken: Set<WriteListener>, ends: () => boolean) {
    this.#out = out
    this.#untaken = untaken
    this.#ends = ends
  }

  last(): void {
    this.#out.shouldKeepAlive = false
  }

  head({ status, reason, fields, length, hasContent }: OutgoingHead): void {
    if (this.#ends()) this.last()
    const flat = [...fields.flat]
    if (length !== undefined) flat.push('Content-Length', String(length))
    if (reason === undefined) this.#out.writeHead(status, flat)
    else this.#out.writeHead(status, reason, flat)
    this.#untilClose = hasContent && length === undefined && !this.chunked
  }

  get chunked(): boolean {
    return this.#out.chunkedEncoding
  }

  write(block: Buffer, taken: WriteListener): void {
    const told: WriteListener = error => {
      if (this.#untaken.delete(told)) taken(error)
    }
    this.#untaken.add(told)
    this.#out.write(block, told)
  }

  trailers(fields: Fields): void {
    this.#out.addTrailers([...fields].map(([name, value]): [string, string] => [name, value]))
  }

  end(bytes: Buffer | undefined, taken: WriteListener): void {
    this.#out.once('finish', taken)
    if (bytes === undefined) this.#out.end()
    else this.#out.end(bytes)
  }

  destroy(): void {
    const { socket } = this.#out
    if (socket === null) {
      // This response waits behind another one. The connection ends when that one is sent; Node 24 does not do this.
      this.#out.once('socket', assigned => assigned.destroy())
    } else if (this.#untilClose && !(socket instanceof TLSSocket)) {
      // A plain end would look like the end of the content. TLS leaves out its own end (close_notify).
      socket.resetAndDestroy()
    }
    this.#out.destroy()
  }
}

/** A short response as bytes, for a connection that Node's server has handed over. The connection ends after it. */
export function wholeResponse({ status, reason, fields, content }: Response): Buffer {
  const bytes = content.kind === 'bytes' ? content.bytes : Buffer.alloc(0)
  const head = { status, reason, fields, length: bytes.length, hasContent: true }
  return Buffer.concat([Buffer.from(responseText(head, 'Connection: close\r\n'), 'latin1'), bytes])
}

/** The links of early hints (RFC 8297), the only interim response that is passed on. Other responses have none. */
export function hintsOf(status: number, fields: Fields): readonly string[] {
  return status === 103 ? fields.all('Link') : []
}

/** Sends early hints ahead of the response. */
export function interimSender(out: ServerResponse): SendInterim {
  return (status, fields) => {
    const links = hintsOf(status, fields)
    if (links.length === 0) return
    // Node would write the hints into the response before this one, which has no socket yet.
    if (out.socket === null || out.headersSent || out.req.httpVersionMinor === 0) return
    // Node refuses links it cannot read; the hints are then left out.
    attempt(() => out.writeEarlyHints({ link: [...links] }))
  }
}

/** The same response, whose content comes at this pace. */
export function pacedResponse(response: Response, pace: Pace): Response {
  const { content } = response
  if (content.kind === 'none') return response
  const open =
    content.kind === 'bytes'
      ? () => new PacedSource(bytesSource(content.bytes), pace)
      : () => new PacedSource(content.open(), pace)
  const stream = content.kind === 'bytes' ? { length: content.bytes.length } : content
  return { ...response, content: { ...stream, kind: 'stream', open } }
}

/*
 * Shares the turns of the event loop between content and new connections, and memory among clients that read their content slowly.
 *
 * # Facts
 * - Node 20 accepts one connection a turn (later versions accept all). With a block to write for every client before it, each turn lasts as
 *   long as all these writes, and the last of fifty clients waits for fifty such turns.
 * - So content gets a bounded share of a turn, and none of a turn in which a connection arrived, for at most `longestHold`. Many
 *   connections slow downloads and never stop them. The first piece of a response does not wait.
 * - Bytes that a connection has not taken wait in memory. With hundreds of slow clients each may have few of them. Pieces beyond the
 *   available blocks (bytes/block-pool.ts) are garbage for V8, which collected four times a second and used a tenth of all time.
 */

/** The cost of a write in addition to its bytes, in bytes: the call, the wake-up, the steps around it. */
const perWrite = 256 * 1024
/** Bytes of content written in one turn, `perWrite` included: one or two milliseconds. */
const share = 8 * 1024 * 1024
const longestHold: Milliseconds = 50
/** Bytes that may wait in one connection before it gets more. `fewUntaken` holds when more than `plenty` wait in all connections. */
const mostUntaken = 512 * 1024
const fewUntaken = 64 * 1024
const plenty = 32 * 1024 * 1024

export class LoopShare {
  readonly #clock: Clock
  readonly #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #left = share
  #arrived = false
  /** Since when content has been held back without a break. */
  #heldSince: Milliseconds | undefined
  #counting = false
  #untaken = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** To be called when a connection arrives in this turn. */
  arrive(): void {
    this.#arrived = true
    this.#count()
  }

  /** Calls `go` when so many bytes may be written, at once if possible; first come, first served. */
  take(bytes: number, go: () => void): void {
    this.#count()
    if (!this.#arrived && this.#waiting.length === 0 && this.#granted(bytes)) go()
    else this.#waiting.push({ bytes, go })
  }

  /** Adds bytes that were handed to a connection. A negative number says that they were taken or that the connection has closed. */
  wait(bytes: number): void {
    this.#untaken += bytes
  }

  /** Whether a connection in which so many bytes wait may get more. */
  mayAsk(untaken: number): boolean {
    return untaken < (this.#untaken < plenty ? mostUntaken : fewUntaken)
  }

  /** A piece larger than the share may go when nothing else has gone in this turn. */
  #granted(bytes: number): boolean {
    const cost = bytes + perWrite
    if (this.#left < cost && this.#left < share) return false
    this.#left -= cost
    return true
  }

  /** `setImmediate` runs once a turn, after the read of what has arrived. */
  #count(): void {
    if (this.#counting) return
    this.#counting = true
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#counting = false
    this.#left = share
    const arrived = this.#arrived
    this.#arrived = false
    if (arrived && this.#waiting.length > 0 && this.#mayHold()) return this.#count()
    this.#heldSince = undefined
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#granted(next.bytes)) break
      this.#waiting.shift()
      next.go()
    }
    if (this.#left < share || this.#waiting.length > 0) this.#count()
  }

  #mayHold(): boolean {
    const now = this.#clock.elapsed()
    this.#heldSince ??= now
    return now - this.#heldSince < longestHold
  }
}
