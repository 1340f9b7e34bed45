/**
 * The fast path of a server: its connections answer requests that are beyond doubt (wire/request-head.ts) without Node's server.
 * Safe requests of a pipeline, without content, are answered at the same time. Others wait for those before them, and those behind
 * for them (RFC 9112 section 9.3.2): so a connection holds the content of one request.
 *
 * The first request that is in doubt, and everything behind it, goes to Node's server, byte for byte, after the answers before it.
 * Rules, limits, handler and report are the same; what is saved is what Node does for each message without need (docs/decisions/0025).
 */
import { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { GatheredBytes } from '../bytes/gathered.ts'
import { flushWrites, type WriteListener, writeNow, writeSoon } from '../bytes/small-writes.ts'
import { formatDate } from './message/date.ts'
import { Fields } from './message/field.ts'
import type { TargetReader } from './message/target.ts'
import {
  type Connection,
  LiveRequest,
  leaveReads,
  type RequestReading,
  takeReads,
} from './server/connections.ts'
import { type Exchanges, hintsOf, type ResponseWriter } from './server/exchanges.ts'
import type { HttpServerOptions } from './server/options.ts'
import { emptyContent, MalformedContent, restTime } from './server/request-content.ts'
import { chunkEnd, chunkStart, lastChunk, type OutgoingHead, responseText } from './wire/framing.ts'
import { type Framing, type PlainHead, PlainHeadReader } from './wire/request-head.ts'
import { VaryingLine } from './wire/varying-line.ts'

/** Bytes of requests that wait for the answers to those before; then no more are read. */
const mostUnread = 64 * 1024

/** What the connections of one server share. */
export class FastPath {
  readonly options: HttpServerOptions
  readonly exchanges: Exchanges
  readonly targets: TargetReader
  readonly varying: VaryingLine<Framing> | undefined
  /** Field lines of a response after which the connection goes on. */
  readonly keepAlive: string
  #date = { second: Number.NaN, line: '' }

  constructor(options: HttpServerOptions, exchanges: Exchanges, targets: TargetReader) {
    this.options = options
    this.exchanges = exchanges
    this.targets = targets
    const { varying } = options
    this.varying = varying === undefined ? undefined : new VaryingLine(varying)
    const idle = Math.floor(options.limits.idle / 1000)
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${idle}\r\n`
  }

  /** Takes a new connection; `first` has been read of it. */
  add(socket: Socket, connection: Connection, exits: Exits, first?: Buffer): void {
    const fast = new FastConnection(socket, connection, this, exits)
    connection.fast = fast
    if (first !== undefined && first.length > 0) fast.take(first)
  }

  /** The line of the Date field (RFC 9110 section 6.6.1), made once a second. */
  get dateLine(): string {
    const now = this.options.clock.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#date.second) this.#date = { second, line: `Date: ${formatDate(now)}\r\n` }
    return this.#date.line
  }
}

/** How a connection leaves the fast path. */
interface Exits {
  /** Node's server takes it over. */
  readonly toNode: () => void
  /** Its client is told, by Node's code for it, what is wrong with the head or the content that has begun. */
  readonly refuse: (code: string) => void
}

class FastConnection implements RequestReading, ResponseOwner {
  readonly socket: Socket
  readonly path: FastPath
  readonly #connection: Connection
  readonly #exits: Exits
  readonly #reader: PlainHeadReader
  /** Bytes that are read and not yet understood: the beginning of a head. */
  readonly #unread = new GatheredBytes()
  /** Of the last request that has any. What is read belongs to it until it is complete. */
  #content: FastContent | undefined
  /**
   * `waiting`: the next request is read when those before it are answered. `leaving`: then Node's server gets what follows.
   * `over`: no further request is looked at.
   */
  #state: 'reading' | 'waiting' | 'leaving' | 'over' = 'reading'
  /** Whether the last request was one that none may be answered beside. */
  #alone = false
  /** Responses that are not written to their end, in the order of their requests. */
  readonly #due: FastResponse[] = []
  /** The client has said its last: what is ready is written, and the end. */
  #ending = false
  /** Since when a head is awaited that has begun, the first one from the start of the connection; undefined between requests. */
  #headSince: Milliseconds | undefined

  constructor(socket: Socket, connection: Connection, path: FastPath, exits: Exits) {
    this.socket = socket
    this.path = path
    this.#connection = connection
    this.#exits = exits
    this.#reader = new PlainHeadReader(path.targets, path.options.limits, path.varying)
    this.#headSince = path.options.clock.elapsed()
    socket.on('error', this.#onError)
    socket.on('end', this.#onEnd)
    socket.once('close', this.#onClose)
    takeReads(socket, this.#onData)
  }

  /** Takes bytes as if they were read this moment. */
  take(bytes: Buffer): void {
    this.#onData(bytes)
  }

  get awaitsHead(): boolean {
    return this.#state === 'reading' && this.#headSince !== undefined
  }

  refuseSlowHead(now: Milliseconds, limit: Milliseconds): void {
    // What the client has sent may lie in the kernel as long as it is not read.
    if (this.#headSince === undefined || limit <= 0 || this.socket.isPaused()) return
    if (now - this.#headSince >= limit) this.#giveUp('ERR_HTTP_REQUEST_TIMEOUT')
  }

  refuseSlowContent(now: Milliseconds, limit: Milliseconds): void {
    const content = this.#arriving
    // What the handler does not read may lie in the kernel.
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

  /** The content that has not come to its end. */
  get #arriving(): FastContent | undefined {
    return this.#content?.complete === false ? this.#content : undefined
  }

  /** The next one waits until there is room: all that is written at once counts as taken only when all of it is. */
  written(): void {
    this.#due.shift()
    if (this.#awaitsAnswers) flushWrites()
    if (this.#due.length === 0) return
    if (this.socket.writableNeedDrain && !this.#ending) this.socket.once('drain', this.#turn)
    else this.#turn()
  }

  readonly #turn = (): void => this.#due[0]?.turn()

  /** A refusal of what follows would be read as the answer to the request that failed. */
  broken(): void {
    this.#state = 'over'
    this.#unread.take()
    this.#connection.afterLast = undefined
  }

  readonly #onData = (block: Buffer): boolean => {
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
    else if (this.#unread.length > 0) this.#headSince ??= this.path.options.clock.elapsed()
    this.#hold()
    return this.#arriving?.brisk === true
  }

  #mustWait(head: PlainHead): boolean {
    return this.#connection.underWay.size > 0 && (this.#alone || standsAlone(head))
  }

  /** Leaves to the kernel what cannot be used at present. */
  #hold(): void {
    const { socket } = this
    const content = this.#arriving
    if (content?.full) socket.pause()
    // A client that does not take the answers cannot ask on.
    if (content !== undefined || this.#state !== 'reading' || !socket.writableNeedDrain) return
    socket.pause()
    socket.once('drain', this.#onDrain)
  }

  readonly #onDrain = (): void => {
    if (this.#headSince !== undefined) this.#headSince = this.path.options.clock.elapsed()
    this.socket.resume()
  }

  #begin(head: PlainHead): void {
    const { options, exchanges } = this.path
    const { underWay } = this.#connection
    if (underWay.size >= options.limits.pipelined) flushWrites()
    // Node's server reads on when it is told to stop, and so does the fast path.
    if (underWay.size >= options.limits.pipelined) return void this.socket.destroy()
    const { method, target, version, fields, keepAlive } = head
    const out = new FastResponse(this)
    this.#alone = standsAlone(head)
    // RFC 9112 section 9.6: what follows a request with `close` is not processed.
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

  /** What follows waits for the answers so far; these are not to wait for the end of the turn. */
  get #awaitsAnswers(): boolean {
    return this.#state === 'waiting' || this.#state === 'leaving'
  }

  #receive(length: number): FastContent {
    const readOn = () => void this.socket.resume()
    const content = new FastContent(length, this.path.options.clock.elapsed(), readOn)
    this.#content = content
    this.#connection.content = content
    return content
  }

  /** What follows has its turn when no request is under way. */
  #goOn(): void {
    this.#headSince = undefined
    if (this.socket.writableEnded) {
      // What can have no answer must not be done: its client may ask for it again (RFC 9112 section 9.6).
      this.#state = 'over'
      this.#unread.take()
    } else if (this.#connection.underWay.size > 0) {
      if (this.#unread.length > mostUnread) this.socket.pause()
    } else if (this.#state === 'leaving') this.#leave()
    else {
      this.#state = 'reading'
      this.socket.resume()
      // Not at once: each of a long pipeline may be answered at once, and the calls would lie in each other.
      queueMicrotask(() => this.#onData(Buffer.alloc(0)))
    }
  }

  #leave(): void {
    const { socket } = this
    this.#state = 'over'
    this.#connection.fast = undefined
    // The error that ended it may still be on its way.
    if (socket.destroyed || socket.readableEnded) return void socket.destroySoon()
    leaveReads(socket, this.#onData)
    socket.off('end', this.#onEnd).off('error', this.#onError).off('close', this.#onClose)
    socket.pause()
    socket.unshift(this.#unread.take())
    this.#exits.toNode()
    socket.resume()
  }

  #giveUp(code: string): void {
    this.#state = 'over'
    this.#unread.take()
    // No request follows content that is not complete.
    if (this.#arriving !== undefined) this.#due.at(-1)?.last()
    this.#exits.refuse(code)
  }

  /** As Node does: a client that has said its last gets what is ready, and the connection ends. */
  readonly #onEnd = (): void => {
    const inHead = this.#state === 'reading' && this.#unread.length > 0
    if (inHead || this.#arriving !== undefined) this.#giveUp('HPE_INVALID_EOF_STATE')
    else {
      // Nothing can be written after the end, and no room is told of.
      this.#ending = true
      this.#turn()
      flushWrites()
      // After a last response it has been ended: Node makes an error for each end that comes later.
      if (!this.socket.writableEnded) this.socket.end()
    }
  }

  /** What responses hold until their turn is told that it will not be written, and lets go of its memory. */
  readonly #onClose = (): void => {
    this.#content?.broken()
    for (const out of [...this.#due]) out.turn()
  }

  readonly #onError = (): void => void this.socket.destroy()
}

/** Whether it has content, or a method that is not safe (RFC 9110 section 9.2.1). */
function standsAlone({ method, length }: PlainHead): boolean {
  return length > 0 || (method !== 'GET' && method !== 'HEAD')
}

/** The connection a response goes to. */
interface ResponseOwner {
  readonly socket: Socket
  /** Field lines that are the same for all connections of a server. */
  readonly path: { readonly keepAlive: string; readonly dateLine: string }
  /** Told when everything of the response has been written. */
  written(): void
  /** Told when a response has failed: the connection ends with it. */
  broken(): void
}

const noTrailers = lastChunk(Fields.empty)

/**
 * Writes a response on the fast path. The requests of a pipeline are answered in their order: a response whose turn has not come
 * holds its bytes, and with them their source.
 * Head and content up to 64 KiB leave together at the end of the turn, those of a pipeline behind each other.
 */
class FastResponse implements ResponseWriter {
  readonly #to: ResponseOwner
  /** What waits for its turn; undefined once that has come. */
  #held: Array<() => void> | undefined = []
  /** Written with the first bytes of content. */
  #head = ''
  #lastChunk = noTrailers
  #last = false
  #chunked = false
  #begun = false
  /** Some of it has been given to the connection. */
  #left = false

  constructor(to: ResponseOwner) {
    this.#to = to
  }

  /** Everything before it has been written. */
  turn(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const act of held) act()
  }

  last(): void {
    this.#last = true
  }

  /** Early hints (RFC 8297), when nothing has to leave before them. */
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
    // A chunk of no bytes would be the last one.
    if (block.length === 0) return taken()
    this.#left = true
    const before = this.#chunked ? this.#head + chunkStart(block.length) : this.#head
    this.#head = ''
    const parts = before === '' ? [block] : [before, block]
    writeNow(this.#to.socket, this.#chunked ? [...parts, chunkEnd] : parts, taken)
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

  /** As long as none of it has left, what waits in the connection belongs to the responses before it: they are sent. */
  destroy(): void {
    this.#to.broken()
    if (this.#held !== undefined) return void this.#held.push(() => this.destroy())
    const { socket } = this.#to
    if (this.#left) return void socket.destroy()
    flushWrites()
    // Without lingering (`lingerAtEnd` in connections.ts): the responses behind it hold memory until the connection closes.
    Socket.prototype.destroySoon.call(socket)
  }
}

/**
 * The content of a request on the fast path: as many bytes as Content-Length says (RFC 9112 section 6.3, rule 6). The bytes of one read
 * are copied and wait for the handler; meanwhile what follows stays in the kernel.
 *
 * To be read once. `next` throws when the client goes away in the middle, or is too slow.
 */
class FastContent implements AsyncIterableIterator<Buffer, undefined> {
  /** When its head had come, on the monotonic clock. */
  readonly since: Milliseconds
  readonly #readOn: () => void
  /** Bytes that have not come. */
  #left: number
  /** What waits for the handler. */
  #block: Buffer | undefined
  /** `left`: the handler wants no more. `passed over`: the request was answered, and what comes is dropped. */
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

  /** Takes what belongs to it of the bytes from `from` on, and answers how many these are. Not to be called while it is full. */
  take(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#left)
    this.#left -= end - from
    if (this.#state === 'open') this.#block = Buffer.from(bytes.subarray(from, end))
    if (this.complete) this.#cancel()
    this.#wake()
    return end - from
  }

  /** Whether all of it has come. */
  get complete(): boolean {
    return this.#left === 0
  }

  /** Whether no more is to be read at present: the handler has to read first, or has to answer. */
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

  /** No more is read, for this reason. False when all of it has come. */
  refuse(problem: string): boolean {
    if (this.complete) return false
    this.#end('broken', new MalformedContent(problem))
    return true
  }

  /** The client has gone. What has come is lost if not all has. */
  broken(): void {
    this.#cancel()
    if (this.complete || this.#state === 'broken') return
    this.#end('broken', new Error('the client went away before its content ended'))
  }

  /** The request was answered: the rest of it is dropped, for a limited time; then `late` is called. */
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

/** One for all: making an error costs more than a tenth of a request. */
const answered = new Error('the request was answered before its content was read')
