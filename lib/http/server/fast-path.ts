/**
 * The fast path of a server: its connections answer requests that are beyond doubt (wire/request-head.ts) without Node's server. Safe
 * requests of a pipeline, without content, are answered at the same time. Any other request waits for those before it, and those behind it
 * wait for it (RFC 9112 section 9.3.2). So a connection holds the content of one request.
 *
 * The first request in doubt, and every byte behind it, goes to Node's server after the answers before it. Rules, limits, handler and
 * report are the same on both ways; the fast path saves the work that Node does needlessly for each message (docs/decisions/0025).
 */
import { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { GatheredBytes } from '../../bytes/gathered.ts'
import { flushWrites, type WriteListener, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import { formatDate } from '../message/date.ts'
import { Fields } from '../message/field.ts'
import type { TargetReader } from '../message/target.ts'
import {
  chunkEnd,
  chunkStart,
  lastChunk,
  type OutgoingHead,
  responseText,
} from '../wire/framing.ts'
import { type PlainHead, PlainHeadReader } from '../wire/request-head.ts'
import { VaryingLine } from '../wire/varying-line.ts'
import {
  type Connection,
  LiveRequest,
  leaveReads,
  type RequestReading,
  takeReads,
} from './connections.ts'
import { type Exchanges, hintsOf, type ResponseWriter } from './exchanges.ts'
import type { HttpServerOptions } from './options.ts'
import { emptyContent, MalformedContent, restTime } from './request-content.ts'

/** Bytes of requests that may wait for earlier answers before the connection stops reading. */
const mostUnread = 64 * 1024

/** What the fast path needs of its server. */
interface ServerParts {
  readonly options: HttpServerOptions
  readonly exchanges: Exchanges
  readonly targets: TargetReader
  readonly toNode: (socket: Socket) => void
  /** Tells the client what is wrong with the head or the content that has begun, by Node's code for it. */
  readonly refuse: (code: string, socket: Socket) => void
}

/** The state that the connections of one server share. */
export class FastPath {
  readonly server: ServerParts
  readonly varying: VaryingLine | undefined
  /** The field lines of a response after which the connection stays open. */
  readonly keepAlive: string
  #date = { second: Number.NaN, line: '' }

  constructor(server: ServerParts) {
    this.server = server
    const { varying, limits } = server.options
    this.varying = varying === undefined ? undefined : new VaryingLine(varying)
    const idle = Math.floor(limits.idle / 1000)
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${idle}\r\n`
  }

  /** Takes a new connection. `first` are bytes already read from it. */
  add(socket: Socket, connection: Connection, first?: Buffer): void {
    const fast = new FastConnection(socket, connection, this)
    connection.fast = fast
    if (first !== undefined && first.length > 0) fast.take(first)
  }

  /** The line of the Date field (RFC 9110 section 6.6.1), made once a second. */
  get dateLine(): string {
    const now = this.server.options.clock.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#date.second) this.#date = { second, line: `Date: ${formatDate(now)}\r\n` }
    return this.#date.line
  }
}

class FastConnection implements RequestReading {
  readonly socket: Socket
  readonly path: FastPath
  readonly #connection: Connection
  readonly #reader: PlainHeadReader
  /** Bytes that are read and not yet understood: the beginning of a head. */
  readonly #unread = new GatheredBytes()
  /** The content of the last request that has any. Bytes that are read belong to it until it is complete. */
  #content: FastContent | undefined
  /**
   * `waiting`: the connection reads the next request when the earlier ones are answered. `leaving`: Node's server gets the bytes after
   * those answers. `over`: the connection ignores further requests.
   */
  #state: 'reading' | 'waiting' | 'leaving' | 'over' = 'reading'
  /** Whether no other request may be answered at the same time as the last one. */
  #alone = false
  /** Responses that are not written to their end, in the order of their requests. */
  readonly #due: FastResponse[] = []
  /** Whether the connection ends after the responses that are ready. */
  #ending = false
  #cancelEnd = (): void => undefined
  /** The time since which a head is incomplete, or since the first head is awaited; undefined between requests. */
  #headSince: Milliseconds | undefined

  constructor(socket: Socket, connection: Connection, path: FastPath) {
    this.socket = socket
    this.path = path
    this.#connection = connection
    this.#reader = new PlainHeadReader(
      path.server.targets,
      path.server.options.limits,
      path.varying,
    )
    this.#headSince = path.server.options.clock.elapsed()
    socket.on('error', this.#onError)
    socket.on('end', this.#onEnd)
    socket.once('close', this.#onClose)
    takeReads(socket, this.take)
  }

  get awaitsHead(): boolean {
    return this.#state === 'reading' && this.#headSince !== undefined
  }

  refuseSlowHead(now: Milliseconds, limit: Milliseconds): void {
    // While the connection does not read, the client's bytes may be in the kernel.
    if (this.#headSince === undefined || limit <= 0 || this.socket.isPaused()) return
    if (now - this.#headSince >= limit) this.#giveUp('ERR_HTTP_REQUEST_TIMEOUT')
  }

  refuseSlowContent(now: Milliseconds, limit: Milliseconds): void {
    const content = this.#arriving
    // Bytes that the handler does not read may be in the kernel.
    if (content === undefined || content.malformed || content.full || limit <= 0) return
    if (now - content.since >= limit) this.#giveUp('ERR_HTTP_REQUEST_TIMEOUT')
  }

  stop(): void {
    this.#state = 'over'
    this.#headSince = undefined
    this.#unread.take()
    // Content that its handler does not read stays in the kernel.
    if (this.#arriving?.full !== true) this.socket.resume()
  }

  get #arriving(): FastContent | undefined {
    return this.#content?.complete === false ? this.#content : undefined
  }

  /** Starts the next response when there is room: bytes that are written at once count as taken only when all of them are. */
  written(): void {
    this.#due.shift()
    if (this.#awaitsAnswers) flushWrites()
    if (this.#due.length === 0) return
    if (this.socket.writableNeedDrain && !this.#ending) this.socket.once('drain', this.#turn)
    else this.#turn()
  }

  readonly #turn = (): void => this.#due[0]?.turn()

  /** Drops all that follows: the client would read a refusal of it as the answer to the request that failed. */
  broken(): void {
    this.#state = 'over'
    this.#unread.take()
    this.#connection.afterLast = undefined
  }

  /** Takes bytes that were read this moment. */
  readonly take = (block: Buffer): boolean => {
    const bytes = this.#unread.followedBy(block)
    let at = 0
    while (at < bytes.length && !this.socket.destroyed) {
      const content = this.#arriving
      if (content !== undefined) {
        at += content.take(bytes, at)
        continue
      }
      if (this.#state !== 'reading') break
      const head = this.#reader.read(bytes, at)
      if (head === 'incomplete') break
      if (head === 'other') this.#state = 'leaving'
      else if (this.#mustWait(head)) this.#state = 'waiting'
      else {
        at = head.end
        this.#headSince = undefined
        this.#begin(head)
      }
    }
    this.#unread.keep(bytes, this.#state === 'over' ? bytes.length : at)
    if (this.#awaitsAnswers) flushWrites()
    if (this.#awaitsAnswers) this.#goOn()
    else if (this.#unread.length > 0) this.#headSince ??= this.path.server.options.clock.elapsed()
    this.#hold()
    return this.#arriving?.brisk === true
  }

  #mustWait(head: PlainHead): boolean {
    return this.#connection.underWay.size > 0 && (this.#alone || standsAlone(head))
  }

  /** Pauses reading, so that bytes that cannot be used now stay in the kernel. */
  #hold(): void {
    const { socket } = this
    const content = this.#arriving
    if (content?.full) socket.pause()
    // A client that does not take the answers cannot send further requests.
    if (content !== undefined || this.#state !== 'reading' || !socket.writableNeedDrain) return
    socket.pause()
    socket.once('drain', this.#onDrain)
  }

  readonly #onDrain = (): void => {
    if (this.#headSince !== undefined) this.#headSince = this.path.server.options.clock.elapsed()
    this.socket.resume()
  }

  #begin(head: PlainHead): void {
    const { options, exchanges } = this.path.server
    const { underWay } = this.#connection
    if (underWay.size >= options.limits.pipelined) flushWrites()
    // Node's server reads on after `pause`, and so does the fast path.
    if (underWay.size >= options.limits.pipelined) return void this.socket.destroy()
    const { method, target, version, fields, keepAlive } = head
    const out = new FastResponse(this)
    this.#alone = standsAlone(head)
    // RFC 9112 section 9.6: a request after one with `close` is not processed.
    if (!keepAlive) {
      this.#state = 'over'
      out.last()
    }
    this.#due.push(out)
    if (this.#due.length === 1) out.turn()
    const interim = out.interim.bind(out)
    const content = head.length === 0 ? undefined : this.#receive(head.length)
    const read = { method, target, version, fields, content: content ?? emptyContent, interim }
    const request = new LiveRequest(read, this.#connection, options)
    this.#connection.requests += 1
    underWay.add(request)
    exchanges.answer(request, this.#connection, { out }, () => {
      content?.passOver(options.clock, () => this.socket.destroy())
      exchanges.settle(this.#connection, this.socket)
      if (this.#awaitsAnswers) this.#goOn()
    })
  }

  /** Whether the following bytes wait for the earlier answers, which then must not wait for the end of the turn. */
  get #awaitsAnswers(): boolean {
    return this.#state === 'waiting' || this.#state === 'leaving'
  }

  #receive(length: number): FastContent {
    const readOn = () => void this.socket.resume()
    const content = new FastContent(length, this.path.server.options.clock.elapsed(), readOn)
    this.#content = content
    this.#connection.content = content
    return content
  }

  /** Processes the following bytes when no request is under way. */
  #goOn(): void {
    this.#headSince = undefined
    if (this.socket.writableEnded) {
      // A request that can get no answer must not be processed: its client may send it again (RFC 9112 section 9.6).
      this.#state = 'over'
      this.#unread.take()
    } else if (this.#connection.underWay.size > 0) {
      if (this.#unread.length > mostUnread) this.socket.pause()
    } else if (this.#state === 'leaving') this.#leave()
    else {
      this.#state = 'reading'
      this.socket.resume()
      // This is not called at once: each request of a long pipeline may be answered at once, and the calls would nest.
      queueMicrotask(() => this.take(Buffer.alloc(0)))
    }
  }

  #leave(): void {
    const { socket } = this
    this.#state = 'over'
    this.#connection.fast = undefined
    // The error that ended the connection may still be on its way.
    if (socket.destroyed || socket.readableEnded) return void socket.destroySoon()
    leaveReads(socket, this.take)
    socket.off('end', this.#onEnd).off('error', this.#onError).off('close', this.#onClose)
    socket.pause()
    socket.unshift(this.#unread.take())
    this.path.server.toNode(socket)
    socket.resume()
  }

  #giveUp(code: string): void {
    this.#state = 'over'
    this.#unread.take()
    // No request follows content that is not complete.
    if (this.#arriving !== undefined) this.#due.at(-1)?.last()
    this.path.server.refuse(code, this.socket)
  }

  /**
   * A client that has ended its side gets the answers to its requests for as long as `longestHalfOpen`: `nc -N` ends its side and reads on.
   * A client that has closed its connection looks the same until bytes are sent to it.
   */
  readonly #onEnd = (): void => {
    const inHead = this.#state === 'reading' && this.#unread.length > 0
    if (inHead || this.#arriving !== undefined) return this.#giveUp('HPE_INVALID_EOF_STATE')
    if (this.#due.length === 0) return this.#end()
    this.#state = 'over'
    this.#unread.take()
    this.#due.at(-1)?.last()
    this.#cancelEnd = this.path.server.options.clock.after(longestHalfOpen, () => this.#end())
  }

  /** Ends the connection after the responses that are ready. */
  #end(): void {
    // After the end nothing can be written, and no 'drain' is emitted.
    this.#ending = true
    this.#turn()
    flushWrites()
    // The last response may have ended the socket: Node makes an error for each end that comes later.
    if (!this.socket.writableEnded) this.socket.end()
  }

  /** Responses that wait for their turn learn that they will not be written, and release their memory. */
  readonly #onClose = (): void => {
    this.#cancelEnd()
    this.#content?.broken()
    for (const out of [...this.#due]) out.turn()
  }

  readonly #onError = (): void => void this.socket.destroy()
}

/** The longest time for which a client that has ended its side is waited for. A longer one would keep the work for clients that have left. */
const longestHalfOpen: Milliseconds = 5000

/** Whether it has content, or a method that is not safe (RFC 9110 section 9.2.1). */
function standsAlone({ method, length }: PlainHead): boolean {
  return length > 0 || (method !== 'GET' && method !== 'HEAD')
}

const noTrailers = lastChunk(Fields.empty)

/**
 * Writes a response on the fast path. The requests of a pipeline are answered in their order: a response whose turn has not come holds its
 * bytes, and so their source. Head and content up to 64 KiB leave together at the end of the turn, behind those of earlier responses.
 */
class FastResponse implements ResponseWriter {
  readonly #to: FastConnection
  /** The writes that wait for its turn; undefined once that has come. */
  #held: Array<() => void> | undefined = []
  /** The head, which is written with the first bytes of content. */
  #head = ''
  #lastChunk = noTrailers
  #last = false
  #chunked = false
  #begun = false
  /** Whether some of it has been given to the connection. */
  #left = false

  constructor(to: FastConnection) {
    this.#to = to
  }

  /** To be called when everything before it has been written. */
  turn(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const act of held) act()
  }

  last(): void {
    this.#last = true
  }

  /** Sends early hints (RFC 8297) unless other bytes have to leave before them. */
  interim(status: number, fields: Fields): void {
    const links = hintsOf(status, fields)
    if (links.length === 0 || this.#held !== undefined || this.#begun) return
    flushWrites()
    const { lines } = Fields.of(...links.map(link => ['Link', link] as const))
    this.#to.socket.write(`HTTP/1.1 103 Early Hints\r\n${lines}\r\n`, 'latin1')
  }

  get chunked(): boolean {
    return this.#chunked
  }

  head(head: OutgoingHead): void {
    const { path } = this.#to
    this.#begun = true
    this.#chunked = head.hasContent && head.length === undefined
    const date = head.fields.has('Date') ? '' : path.dateLine
    this.#head = responseText(head, date + (this.#last ? 'Connection: close\r\n' : path.keepAlive))
  }

  write(block: Buffer, taken: WriteListener): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.write(block, taken))
    // A block without bytes makes the head leave. As a chunk it would be the last one.
    if (block.length === 0 && this.#head === '') return taken()
    this.#left = true
    const inChunks = this.#chunked && block.length > 0
    const before = inChunks ? this.#head + chunkStart(block.length) : this.#head
    this.#head = ''
    const parts = before === '' ? [block] : [before, block]
    writeNow(this.#to.socket, inChunks ? [...parts, chunkEnd] : parts, taken)
  }

  trailers(fields: Fields): void {
    this.#lastChunk = lastChunk(fields)
  }

  end(bytes: Buffer | undefined, taken: WriteListener): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.end(bytes, taken))
    const { socket } = this.#to
    const text = this.#chunked ? this.#head + this.#lastChunk : this.#head
    const length = bytes?.length ?? 0
    if (text === '' && length === 0) taken()
    else writeSoon(socket, bytes === undefined ? [text] : [text, bytes], taken)
    if (this.#last) {
      flushWrites()
      socket.destroySoon()
    }
    this.#to.written()
  }

  /** Cuts the connection. If no byte of this response has left, the bytes that wait belong to earlier responses and are sent. */
  destroy(): void {
    this.#to.broken()
    if (this.#held !== undefined) return void this.#held.push(() => this.destroy())
    const { socket } = this.#to
    if (this.#left) return void socket.destroy()
    flushWrites()
    // This avoids `lingerAtEnd` (connections.ts): the responses behind it would hold memory until the connection closes.
    Socket.prototype.destroySoon.call(socket)
  }
}

/**
 * The content of a request on the fast path: as many bytes as Content-Length says (RFC 9112 section 6.3, rule 6). The bytes of one read are
 * copied and wait for the handler; meanwhile further bytes stay in the kernel.
 *
 * The content can be read once. `next` throws when the client disconnects before its end, or is too slow.
 */
class FastContent implements AsyncIterableIterator<Buffer, undefined> {
  /** The moment at which its head had arrived, on the monotonic clock. */
  readonly since: Milliseconds
  readonly #readOn: () => void
  /** Bytes that have not arrived. */
  #left: number
  #block: Buffer | undefined
  /** `left`: the handler wants no further bytes. `passed over`: the request was answered, and further bytes are dropped. */
  #state: 'open' | 'left' | 'passed over' | 'broken' = 'open'
  #why: Error | undefined
  /** Whether the handler has read anything. */
  #begun = false
  #wake: () => void = () => {}
  #cancel: () => void = () => {}

  /** `readOn` is called when more may be read after `full`. */
  constructor(length: number, since: Milliseconds, readOn: () => void) {
    this.#left = length
    this.since = since
    this.#readOn = readOn
  }

  /** Takes the bytes from `from` on that belong to it, and returns their number. It must not be called while it is full. */
  take(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#left)
    this.#left -= end - from
    if (this.#state === 'open') this.#block = Buffer.from(bytes.subarray(from, end))
    if (this.complete) this.#cancel()
    this.#wake()
    return end - from
  }

  /** Whether all of it has arrived. */
  get complete(): boolean {
    return this.#left === 0
  }

  /** Whether the connection must not read now, because the handler has to read or to answer first. */
  get full(): boolean {
    return this.#block !== undefined || this.#state === 'left'
  }

  /** Whether the handler reads, so that it is worthwhile to read more at a time. */
  get brisk(): boolean {
    return this.#begun
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    for (;;) {
      const value = this.#block
      if (value !== undefined) {
        this.#block = undefined
        this.#begun = true
        if (!this.complete) this.#readOn()
        return { done: false, value }
      }
      if (this.#why !== undefined) throw this.#why
      if (this.#state === 'left' || this.complete) return { done: true, value: undefined }
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#state === 'open') this.#end('left')
    return { done: true, value: undefined }
  }

  get malformed(): boolean {
    return this.#why instanceof MalformedContent
  }

  /** Stops reading, for this reason. False when all of it has arrived. */
  refuse(problem: string): boolean {
    if (this.complete) return false
    this.#end('broken', new MalformedContent(problem))
    return true
  }

  /** To be called when the client has disconnected. Bytes that have arrived are lost unless all have. */
  broken(): void {
    this.#cancel()
    if (this.complete || this.#state === 'broken') return
    this.#end('broken', new Error('the client went away before its content ended'))
  }

  /** To be called when the request was answered. The rest is dropped for a limited time; then `late` is called. */
  passOver(clock: Clock, late: () => void): void {
    if (this.#state === 'broken') return
    this.#end('passed over', answered)
    if (this.complete) return
    this.#cancel = clock.after(restTime, late)
    this.#readOn()
  }

  #end(state: 'left' | 'passed over' | 'broken', why?: Error): void {
    this.#cancel()
    this.#state = state
    this.#why = why
    this.#block = undefined
    this.#wake()
  }
}

/** All requests share one error, because making an error costs more than a tenth of a request. */
const answered = new Error('the request was answered before its content was read')
