/**
 * The content of an origin's response as a source of pieces: read straight into memory, its framing taken off (RFC 9112 section
 * 6.3). What the reader does not ask for stays in the kernel and stops the origin, but for one piece of memory read ahead.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Landing } from '../../bytes/landing.ts'
import { Piece } from '../../bytes/piece.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { Fields } from '../message/field.ts'
import { ChunkReader } from '../wire/chunks.ts'
import type { Framing } from '../wire/framing.ts'
import type { OriginConnection } from './connection.ts'
import { failureOf, OriginFailure } from './errors.ts'
import type { Reader } from './transport.ts'

export interface ContentOwner {
  readonly origin: string
  /** The longest silence while a piece is waited for. */
  readonly idle: Milliseconds
  /** Called once, when the content needs the connection no longer; `whole` if it was read to its end and not a byte further. */
  over(whole: boolean): void
}

/** So much is read to the end, rather than giving the connection up, when the reader leaves early. */
const worthReading = 65_536
/** Stretches of chunked content shorter than this are moved together. */
const worthMoving = 16_384
const brokenFraming = 'its content breaks the framing'

/** Content that came whole with the head: its connection is free before it is asked for. */
export class WholeContent implements Source {
  /** Bytes that wait until they are asked for; never an empty buffer. */
  #bytes: Buffer | undefined

  /** What lies in `behind` is copied: the memory is shared. */
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

export class OriginContent implements Source, Reader {
  readonly #connection: OriginConnection
  readonly #framing: Framing
  readonly #owner: ContentOwner
  readonly #landing: Landing
  readonly #chunks: ChunkReader | undefined
  /** Bytes announced and not read yet; undefined when only the end will tell. */
  #rest: number | undefined
  /** Bytes of content read so far. */
  #received = 0
  /** Read and not asked for. */
  readonly #pieces: Piece[] = []
  #take: Take | undefined
  /** `left`: the reader wants no more, and a small rest is read. */
  #state: 'open' | 'left' | 'ended' | 'failed' = 'open'
  #failure: OriginFailure | undefined

  constructor(connection: OriginConnection, framing: Framing, owner: ContentOwner) {
    this.#connection = connection
    this.#framing = framing
    this.#owner = owner
    this.#landing = new Landing(connection.transport.blocks)
    if (framing.kind === 'length') this.#rest = framing.length
    if (framing.kind === 'chunked') this.#chunks = new ChunkReader()
  }

  /** Takes the connection over, with the bytes that came behind the head. */
  begin(behind: Buffer): void {
    const { transport } = this.#connection
    transport.handTo(this)
    transport.give(behind)
  }

  /** Trailer fields (RFC 9110 section 6.5); none before the content has ended. */
  trailers(): Fields {
    return this.#chunks?.trailers ?? Fields.empty
  }

  next(take: Take): void {
    const piece = this.#pieces.shift()
    if (piece !== undefined || this.#state === 'ended') return take(undefined, piece)
    if (this.#failure !== undefined) return take(this.#failure, undefined)
    this.#take = take
    this.#connection.alarm.set(this.#owner.idle, this.#late)
    this.#connection.transport.resume()
  }

  /** A small rest is read so that the connection can be used again; else it is closed. */
  close(): void {
    this.#take = undefined
    for (const piece of this.#pieces.splice(0)) piece.release()
    if (this.#state !== 'open') return
    if (this.#rest === undefined || this.#rest > worthReading) return this.#stop('left')
    this.#state = 'left'
    // The whole rest has the time that a piece has otherwise.
    this.#connection.alarm.set(this.#owner.idle, () => this.#stop('left'))
    this.#connection.transport.resume()
  }

  /** Breaks it off: what was read and not asked for is not given any more. */
  fail(failure: OriginFailure): void {
    if (this.#isOver) return
    this.#failure = failure
    for (const piece of this.#pieces.splice(0)) piece.release()
    this.#stop('failed')
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
        if (this.#rest === 0) this.#end(wanted === count)
      }
    }
    this.#give()
    const { length } = this.#pieces
    return this.#take !== undefined || length === 0 || this.#landing.hasRoom(this.#most)
  }

  ended(): void {
    if (this.#framing.kind !== 'close') return this.closed(undefined)
    this.#end(false)
    this.#give()
  }

  closed(error: Error | undefined): void {
    if (this.#isOver) return
    const length = this.#framing.kind === 'length' ? this.#framing.length : undefined
    const trouble = { ...this.#progress(), length, cause: error }
    this.#broken(failureOf('content', this.#owner.origin, trouble))
    this.#give()
  }

  get #isOver(): boolean {
    return this.#state === 'ended' || this.#state === 'failed'
  }

  /** One byte more than is to come: should it arrive, the connection is not used again. */
  get #most(): number | undefined {
    return this.#rest === undefined ? undefined : this.#rest + 1
  }

  #add(bytes: Buffer): void {
    this.#received += bytes.length
    if (this.#state !== 'open' || bytes.length === 0) return
    const piece = this.#landing.piece(bytes)
    const last = this.#pieces.at(-1)
    if (last?.precedes(piece)) this.#pieces[this.#pieces.length - 1] = last.joined(piece)
    else this.#pieces.push(piece)
  }

  /** Small stretches of content are moved together, over the framing between them; a large one begins a piece of its own. */
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
      this.#broken(new OriginFailure('ORIGIN_MALFORMED', this.#owner.origin, trouble))
    } else if (chunks.trailers !== undefined) this.#end(used === bytes.length)
  }

  #give(): void {
    const take = this.#take
    if (take === undefined) return
    if (this.#pieces.length === 0 && this.#state === 'open') return
    this.#take = undefined
    if (this.#state === 'open') this.#connection.alarm.clear()
    this.next(take)
  }

  readonly #late = (): void => {
    const { origin, idle: after } = this.#owner
    this.fail(failureOf('content', origin, { after, ...this.#progress() }))
  }

  #broken(failure: OriginFailure): void {
    this.#failure ??= failure
    this.#stop('failed')
  }

  #progress() {
    return { address: this.#connection.address, received: this.#received }
  }

  /** The last byte was read. */
  #end(whole: boolean): void {
    if (!this.#isOver) this.#finish('ended', whole)
  }

  /** The connection is of no use any more; what was read before may still be asked for. */
  #stop(state: 'left' | 'failed'): void {
    if (this.#isOver) return
    this.#connection.destroy()
    this.#finish(state === 'left' ? 'ended' : 'failed', false)
  }

  #finish(state: 'ended' | 'failed', whole: boolean): void {
    this.#state = state
    this.#landing.close()
    this.#connection.alarm.clear()
    this.#owner.over(whole)
  }
}
