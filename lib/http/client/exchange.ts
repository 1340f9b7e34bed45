/**
 * One request and the head of its response on one connection, with a deadline for every part.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Landing, scratchBuffer } from '../../bytes/landing.ts'
import { Piece } from '../../bytes/piece.ts'
import { type WriteListener, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { Fields } from '../message/field.ts'
import type { StreamedContent } from '../message/message.ts'
import { ChunkReader } from '../wire/chunks.ts'
import {
  chunkEnd,
  chunkStart,
  type Framing,
  framingOf,
  keepAliveTime,
  keepsConnection,
  lastChunk,
} from '../wire/framing.ts'
import type { ResponseHead } from '../wire/response-head.ts'
import type { OriginConnection, Reader } from './connection.ts'
import { failureOf, OriginFailure, type OriginTrouble } from './errors.ts'
import {
  continuesHandshake,
  type OriginDeadlines,
  type OriginResponse,
  type OriginSource,
  type OriginSwitched,
  offersBinding,
  type WireRequest,
} from './request.ts'
import type { RequestLife } from './request-life.ts'

export interface ExchangeOwner {
  /** `host:port`, for errors. */
  readonly origin: string
  /** Host and port of the parent proxy that is asked. */
  readonly parent: string | undefined
  readonly deadlines: OriginDeadlines
  /** Called with the head. Content may still be on its way, and so may the request. `onDone` may have been called before. */
  onHead(response: OriginResponse | OriginSwitched): void
  /** Called when the head is later than `deadlines.fields`. Answers for how much longer the exchange waits; 0 ends it. */
  onLate(): Milliseconds
  /** Called when the origin has missed a deadline, before `onFailure` or the failure of the content. */
  onSilence(): void
  /** Called when no head came. The connection is destroyed. */
  onFailure(failure: OriginFailure): void
  /**
   * Called when the exchange needs the connection no longer. With `free` another request may use it; otherwise it is destroyed or switched.
   */
  onDone(free: boolean): void
}

/** A request, or a message in a tunnel, with more bytes than this is written at once, without a copy. */
export const mostCopiedBytes = 4096
/** The most interim responses of one exchange. */
const mostInterim = 16
/**
 * The longest time in milliseconds for which a free connection is kept when the origin names one. It ends `headStart` before the origin's
 * own limit, so that our side closes first.
 */
const longestKeep = 30_000
const headStart = 500
/** Content up to this size that came whole with the head is copied into memory of its own. */
const mostWhole = 65_536

export class OriginExchange implements Reader {
  /** Whether a byte came in answer. */
  heard = false
  readonly connection: OriginConnection
  readonly owner: ExchangeOwner
  readonly life: RequestLife
  readonly #message: WireRequest
  readonly #upload: Upload | undefined
  #interim = 0
  /** The time for which the head may be under way. */
  #headTime: Milliseconds = 0
  /** Whether the origin keeps the connection. */
  #stays = false
  #content: OriginContent | undefined

  /** An exchange of a request whose life is `sending`. */
  constructor(
    connection: OriginConnection,
    message: WireRequest,
    { owner, life }: { readonly owner: ExchangeOwner; readonly life: RequestLife },
  ) {
    this.connection = connection
    this.#message = message
    this.owner = owner
    this.life = life
    const { head, content } = message
    if (content.kind === 'stream') this.#upload = new Upload(this, head, content)
  }

  begin(): void {
    const { transport, usable, alarm } = this.connection
    // RFC 9112 section 9.2: bytes that come before the request are no response to it.
    if (transport.unread > 0) return this.#malformed('it spoke before it was asked')
    transport.handTo(this)
    if (!usable) return this.closed(undefined)
    transport.resume()
    const { head, content, awaitContinue, binds } = this.#message
    if (binds) this.connection.bound = true
    if (content.kind !== 'stream') {
      this.onWriting()
      const parts = content.kind === 'bytes' ? [head, content.bytes] : [head]
      writeSoon(transport.socket, parts, () => this.onSent(), mostCopiedBytes)
    } else if (awaitContinue === undefined) {
      this.#upload?.go()
    } else {
      this.#upload?.hold()
      alarm.set(awaitContinue, () => this.#upload?.go())
    }
  }

  /**
   * Ends the exchange in any phase: the response is no longer wanted, or the source of the request's content failed, or gave more or
   * fewer bytes than announced.
   */
  cancel(cause: unknown): void {
    const { state } = this.life
    if (state === 'closed') return
    const { address } = this.connection
    const phase = state === 'sending' ? 'send' : state === 'waiting' ? 'fields' : 'content'
    const trouble = { phase, address, cause } as const
    this.#fail(new OriginFailure('ORIGIN_ABORTED', this.owner.origin, trouble))
  }

  room(): Buffer {
    return scratchBuffer()
  }

  read(count: number): boolean {
    this.heard = true
    let bytes = scratchBuffer().subarray(0, count)
    while (bytes.length > 0) {
      const reading = this.connection.heads.read(bytes)
      if (reading === 'incomplete') return true
      if ('problem' in reading) {
        this.#malformed(reading.problem, reading.tooLarge)
        return false
      }
      bytes = bytes.subarray(reading.used)
      const { head } = reading
      if (head.status >= 200 || head.status === 101) {
        this.#final(head, bytes)
        return false
      }
      // The callback below may let another connection write to the shared memory.
      bytes = Buffer.from(bytes)
      this.#tellInterim(head)
      if (this.life.state === 'closed') return false
    }
    return true
  }

  ended(): void {
    this.closed(undefined)
  }

  closed(cause: Error | undefined): void {
    this.#broken({ cause })
  }

  /** To be called when the origin has to take bytes next. */
  onWriting(): void {
    if (this.life.state !== 'sending') return
    this.connection.alarm.set(this.owner.deadlines.send, this.#late)
  }

  /** To be called when the source of the content has to give a piece next. */
  onWaiting(): void {
    if (this.life.state === 'sending') this.connection.alarm.clear()
  }

  /** To be called when the kernel has the last byte. */
  onSent(): void {
    if (!this.life.on('sent')) return
    this.#awaitHead(this.owner.deadlines.fields)
  }

  #awaitHead(more: Milliseconds): void {
    this.#headTime += more
    this.connection.alarm.set(more, this.#late)
  }

  readonly #late = (): void => {
    if (this.life.state === 'closed') return
    this.owner.onSilence()
    if (this.life.state === 'sending') return this.#broken({ after: this.owner.deadlines.send })
    if (this.life.state !== 'waiting') return
    const more = this.owner.onLate()
    // The owner may have ended this exchange.
    if (this.life.state !== 'waiting') return
    if (more > 0) this.#awaitHead(more)
    else this.#broken({ after: this.#headTime })
  }

  #broken(trouble: OriginTrouble): void {
    const { address } = this.connection
    const phase = this.life.state === 'sending' ? 'send' : 'fields'
    this.#fail(failureOf(phase, this.owner.origin, { ...trouble, address }))
  }

  #tellInterim(head: ResponseHead): void {
    this.#interim += 1
    if (this.#interim > mostInterim) return this.#malformed('it sends interim responses only')
    if (head.status === 100) this.#upload?.go()
    this.#message.onInterim?.(head.status, head.fields)
  }

  #final(head: ResponseHead, behind: Buffer): void {
    if (head.status === 101) return this.#switched(head, behind)
    const framing = framingOf(this.#message.method, head)
    if ('problem' in framing) return this.#malformed(framing.problem)
    const connection = this.connection
    this.life.on('head')
    this.#upload?.onHead()
    connection.alarm.clear()
    connection.keep = keepOf(head)
    if (offersBinding(head.fields)) connection.bound = true
    if (connection.bound) connection.handshake = continuesHandshake(head.status, head.fields)
    this.#stays = framing.kind !== 'close' && keepsConnection(head)
    const { reused, address } = connection
    const { status, reason, version, fields } = head
    const length = framing.kind === 'length' ? framing.length : undefined
    let content: OriginSource
    let trailers: (() => Fields) | undefined
    if (length !== undefined && length <= Math.min(mostWhole, behind.length)) {
      content = new WholeContent(behind, length)
      this.onContentDone(length === behind.length)
    } else {
      const streamed = new OriginContent(this, framing)
      this.#content = streamed
      connection.transport.handTo(streamed)
      connection.transport.give(behind)
      content = streamed
      if (framing.kind === 'chunked') trailers = () => streamed.trailers()
    }
    this.owner.onHead({
      status,
      reason,
      version,
      fields,
      length,
      content,
      trailers,
      address,
      parent: this.owner.parent,
      reused,
    })
  }

  #switched(head: ResponseHead, behind: Buffer): void {
    const { upgrade } = this.#message
    if (!upgrade) return this.#malformed('it changes protocols (101) although it was not asked to')
    const { transport, address, alarm } = this.connection
    this.life.on('switched')
    alarm.close()
    transport.handTo(undefined)
    transport.give(behind)
    this.owner.onDone(false)
    this.owner.onHead({ fields: head.fields, transport, address })
  }

  #malformed(problem: string, tooLarge = false): void {
    const { address } = this.connection
    const code = tooLarge ? 'ORIGIN_HEAD_TOO_LARGE' : 'ORIGIN_MALFORMED'
    this.#fail(new OriginFailure(code, this.owner.origin, { address, problem }))
  }

  #fail(failure: OriginFailure): void {
    if (this.#content !== undefined) return this.#content.fail(failure)
    if (!this.life.on('failed')) return
    this.#upload?.stop()
    this.connection.destroy()
    this.owner.onFailure(failure)
  }

  /**
   * To be called once, when the content needs the connection no longer. `whole` says that exactly its bytes were read. A response that came
   * before the whole request was sent makes the connection unusable.
   */
  onContentDone(whole: boolean): void {
    const connection = this.connection
    // A small rest leaves before the next request does. TLS takes a write so late that the answer may come before.
    const waits = connection.transport.socket.writableLength > mostCopiedBytes
    const sent = this.#upload?.written !== false && !waits
    this.life.on('ended')
    this.#upload?.stop()
    const free = whole && this.#stays && sent
    if (!free) connection.destroy()
    this.owner.onDone(free)
  }
}

function keepOf({ fields }: ResponseHead): number | undefined {
  const time = keepAliveTime(fields)
  return time === undefined ? undefined : Math.min(Math.max(time - headStart, 0), longestKeep)
}

/**
 * Sends the content of a request to an origin: after 100 (Continue) if the client asked for that, piece by piece as the origin takes it,
 * with trailer fields where the framing has room for them.
 */
class Upload {
  readonly #exchange: OriginExchange
  readonly #content: StreamedContent
  /** The request's head until it is written. It leaves with the first piece. */
  #head: string
  #source: Source | undefined
  #written = 0
  /** `held`: the content waits for 100 (Continue). */
  #state: 'held' | 'sending' | 'written' | 'stopped' = 'held'

  constructor(exchange: OriginExchange, head: string, content: StreamedContent) {
    this.#exchange = exchange
    this.#head = head
    this.#content = content
  }

  /** Whether the source of the content has given all of it. */
  get written(): boolean {
    return this.#state === 'written'
  }

  /** Sends the head without the content (RFC 9110 section 10.1.1). */
  hold(): void {
    this.#write([], () => {})
  }

  /** Sends the content. Further calls do nothing. */
  go(): void {
    if (this.#state !== 'held') return
    this.#state = 'sending'
    this.#source = this.#content.open()
    this.#ask()
  }

  /** To be called at the response head: content that still waits is no longer sent. */
  onHead(): void {
    if (this.#state === 'held') this.#state = 'stopped'
  }

  stop(): void {
    if (this.#state !== 'written') this.#state = 'stopped'
    this.#source?.close()
  }

  #ask(): void {
    if (this.#state !== 'sending') return
    this.#exchange.onWaiting()
    this.#source?.next(this.#take)
  }

  readonly #take = (error: Error | undefined, piece: Piece | undefined): void => {
    if (this.#state !== 'sending') return piece?.release()
    if (error !== undefined) return this.#exchange.cancel(error)
    if (piece === undefined) return this.#end()
    const { bytes } = piece
    const { length } = this.#content
    this.#written += bytes.length
    const tooLong = length !== undefined && this.#written > length
    const taken = (broken?: Error | null): void => {
      piece.release()
      if (tooLong) this.#exchange.cancel(new Error('content is longer than announced'))
      else if (!broken) this.#ask()
    }
    if (tooLong || bytes.length === 0) return taken()
    this.#exchange.onWriting()
    this.#write(length === undefined ? [chunkStart(bytes.length), bytes, chunkEnd] : [bytes], taken)
  }

  #end(): void {
    const { length, trailers } = this.#content
    if (length !== undefined && this.#written < length) {
      return this.#exchange.cancel(new Error('content is shorter than announced'))
    }
    const last: string[] = []
    try {
      if (length === undefined) last.push(lastChunk(trailers?.() ?? Fields.empty))
    } catch (error) {
      return this.#exchange.cancel(error)
    }
    this.#state = 'written'
    this.#source?.close()
    this.#exchange.onWriting()
    this.#write(last, () => this.#exchange.onSent())
  }

  /**
   * Writes parts in one call, after the head if that has not left. `taken` is called when the write has ended, with an error if it failed.
   */
  #write(parts: ReadonlyArray<string | Buffer>, taken: WriteListener): void {
    const { socket } = this.#exchange.connection.transport
    const head = this.#head
    this.#head = ''
    if (head !== '') writeSoon(socket, [head, ...parts], taken, mostCopiedBytes)
    // Each piece waits until the previous one is taken, so it need not wait for the end of the turn as well.
    else writeNow(socket, parts, taken)
  }
}

/** When the reader leaves early, at most this many bytes are read to the end, so that the connection can be used again. */
const worthReading = 65_536
/** Stretches of chunked content shorter than this are moved together. */
const worthMoving = 16_384
const brokenFraming = 'its content breaks the framing'

/** Content that came whole with the head. Its connection is free before the content is requested. */
class WholeContent implements Source {
  /** Bytes that wait for a request; never an empty buffer. */
  #bytes: Buffer | undefined

  /** The bytes in `behind` are copied, because the memory is shared. */
  constructor(behind: Buffer, length: number) {
    if (length > 0) this.#bytes = Buffer.from(behind.subarray(0, length))
  }

  whole(): Buffer | undefined {
    const bytes = this.#bytes
    this.#bytes = undefined
    return bytes
  }

  next(take: Take): void {
    const bytes = this.whole()
    take(undefined, bytes === undefined ? undefined : new Piece(bytes))
  }

  close(): void {
    this.#bytes = undefined
  }
}

/**
 * The content of an origin's response as a source of pieces. It is read straight into memory, and its framing is removed (RFC 9112 section
 * 6.3). Bytes that the reader does not ask for stay in the kernel and stop the origin, except one piece of memory that is read ahead.
 */
class OriginContent implements Source, Reader {
  readonly #exchange: OriginExchange
  readonly #framing: Framing
  readonly #landing: Landing
  readonly #chunks: ChunkReader | undefined
  /** Bytes announced and not read yet; undefined when only the end shows the length. */
  #rest: number | undefined
  #received = 0
  /** Pieces that were read and not requested yet. */
  readonly #pieces: Piece[] = []
  #take: Take | undefined
  #failure: OriginFailure | undefined

  /** The content of a request whose life is `reading`. */
  constructor(exchange: OriginExchange, framing: Framing) {
    this.#exchange = exchange
    this.#framing = framing
    this.#landing = new Landing(exchange.connection.transport.blocks)
    if (framing.kind === 'length') this.#rest = framing.length
    if (framing.kind === 'chunked') this.#chunks = new ChunkReader()
  }

  /** Trailer fields (RFC 9110 section 6.5). There are none before the content has ended. */
  trailers(): Fields {
    return this.#chunks?.trailers ?? Fields.empty
  }

  next(take: Take): void {
    const piece = this.#pieces.shift()
    if (piece !== undefined) return take(undefined, piece)
    if (this.#failure !== undefined) return take(this.#failure, undefined)
    if (this.#isOver) return take(undefined, undefined)
    this.#take = take
    this.#exchange.connection.alarm.set(this.#exchange.owner.deadlines.content, this.#late)
    this.#exchange.connection.transport.resume()
  }

  /** Reads a small rest so that the connection can be used again; otherwise closes the connection. */
  close(): void {
    this.#take = undefined
    for (const piece of this.#pieces.splice(0)) piece.release()
    if (this.#exchange.life.state !== 'reading') return
    if (this.#rest === undefined || this.#rest > worthReading) return this.#finish('ended')
    this.#exchange.life.on('left')
    // The whole rest gets the time of one piece.
    this.#exchange.connection.alarm.set(this.#exchange.owner.deadlines.content, () =>
      this.#finish('ended'),
    )
    this.#exchange.connection.transport.resume()
  }

  /** Breaks the content off. Pieces that were read and not requested are dropped. */
  fail(failure: OriginFailure): void {
    if (this.#isOver) return
    this.#failure = failure
    for (const piece of this.#pieces.splice(0)) piece.release()
    this.#finish('failed')
    this.#give()
  }

  room(): Buffer {
    return this.#landing.room(this.#most)
  }

  read(count: number): boolean {
    const bytes = this.#landing.landed(count)
    if (this.#chunks !== undefined) this.#readChunks(bytes, this.#chunks)
    else {
      const wanted = this.#rest === undefined ? count : Math.min(count, this.#rest)
      this.#add(bytes.subarray(0, wanted))
      if (this.#rest !== undefined) {
        this.#rest -= wanted
        if (this.#rest === 0) this.#finish('ended', wanted === count)
      }
    }
    this.#give()
    const { length } = this.#pieces
    return this.#take !== undefined || length === 0 || this.#landing.hasRoom(this.#most)
  }

  ended(): void {
    if (this.#framing.kind !== 'close') return this.closed(undefined)
    this.#finish('ended')
    this.#give()
  }

  closed(error: Error | undefined): void {
    if (this.#isOver) return
    const length = this.#framing.kind === 'length' ? this.#framing.length : undefined
    const trouble = { ...this.#progress(), length, cause: error }
    this.#broken(failureOf('content', this.#exchange.owner.origin, trouble))
    this.#give()
  }

  get #isOver(): boolean {
    return this.#exchange.life.state === 'closed'
  }

  /** One byte more than the rest: if it arrives, the connection is not used again. */
  get #most(): number | undefined {
    return this.#rest === undefined ? undefined : this.#rest + 1
  }

  #add(bytes: Buffer): void {
    this.#received += bytes.length
    if (this.#exchange.life.state !== 'reading' || bytes.length === 0) return
    const piece = this.#landing.piece(bytes)
    const last = this.#pieces.at(-1)
    if (last?.precedes(piece)) this.#pieces[this.#pieces.length - 1] = last.joined(piece)
    else this.#pieces.push(piece)
  }

  /** Moves small stretches of content together, over the framing between them. A large one begins a piece of its own. */
  #readChunks(bytes: Buffer, chunks: ChunkReader): void {
    let from = 0
    let to = 0
    const used = chunks.read(bytes, (start, end) => {
      if (start !== to && end - start >= worthMoving) {
        this.#add(bytes.subarray(from, to))
        from = start
        to = start
      }
      if (start !== to) bytes.copyWithin(to, start, end)
      to += end - start
    })
    this.#add(bytes.subarray(from, to))
    if (used === undefined) {
      const trouble = { ...this.#progress(), phase: 'content', problem: brokenFraming } as const
      this.#broken(new OriginFailure('ORIGIN_MALFORMED', this.#exchange.owner.origin, trouble))
    } else if (chunks.trailers !== undefined) this.#finish('ended', used === bytes.length)
  }

  #give(): void {
    const take = this.#take
    if (take === undefined) return
    const reading = this.#exchange.life.state === 'reading'
    if (this.#pieces.length === 0 && reading) return
    this.#take = undefined
    if (reading) this.#exchange.connection.alarm.clear()
    this.next(take)
  }

  readonly #late = (): void => {
    const { owner } = this.#exchange
    const { origin, deadlines } = owner
    const after = deadlines.content
    if (!this.#isOver) owner.onSilence()
    this.fail(failureOf('content', origin, { after, ...this.#progress() }))
  }

  #broken(failure: OriginFailure): void {
    this.#failure ??= failure
    this.#finish('failed')
  }

  #progress() {
    return { address: this.#exchange.connection.address, received: this.#received }
  }

  /** Without `whole` the connection is destroyed. The reader may still request pieces that were read before. */
  #finish(by: 'ended' | 'failed', whole = false): void {
    if (this.#isOver) return
    this.#exchange.life.on(by)
    this.#landing.close()
    this.#exchange.connection.alarm.clear()
    this.#exchange.onContentDone(whole)
  }
}
