/**
 * A request onto the wire to an origin: its head, and its content piece by piece under the origin's pressure, after 100
 * (Continue) where that is asked for, with trailer fields where the framing has room for them.
 */
import type { Piece } from '../../bytes/piece.ts'
import type { Source } from '../../bytes/source.ts'
import { Fields } from '../message/field.ts'
import { chunkEnd, chunkStart, lastChunk } from '../wire/request-writer.ts'
import type { WireRequest } from './request.ts'
import type { Transport } from './transport.ts'

/** What becomes of it. */
export interface UploadOwner {
  /** The origin is to take something now. */
  writing(): void
  /** The source of the content is to say something now. */
  waiting(): void
  /** The kernel has the last byte. */
  sent(): void
  /** The source of the content broke off. */
  giveUp(cause: unknown): void
}

export class Upload {
  readonly #transport: Transport
  readonly #message: WireRequest
  readonly #owner: UploadOwner
  /** Not written yet: it leaves with the first piece. */
  #head: string
  #source: Source | undefined
  #written = 0
  /** `held`: the content waits for 100 (Continue). */
  #state: 'held' | 'sending' | 'written' | 'stopped' = 'sending'

  constructor(transport: Transport, message: WireRequest, owner: UploadOwner) {
    this.#transport = transport
    this.#message = message
    this.#owner = owner
    this.#head = message.head
  }

  begin(): void {
    const { content, awaitContinue } = this.#message
    if (content.kind === 'stream' && awaitContinue !== undefined) {
      this.#state = 'held'
      this.#write([], () => {})
    } else if (content.kind === 'stream') {
      this.#open(content.open())
    } else {
      this.#finish(...(content.kind === 'bytes' ? [content.bytes] : []))
    }
  }

  /** The origin wants the content, or has had the time to say so (RFC 9110 section 10.1.1). */
  go(): void {
    const { content } = this.#message
    if (this.#state !== 'held' || content.kind !== 'stream') return
    this.#state = 'sending'
    this.#open(content.open())
  }

  /** Content that has not begun is not wanted any more: the response is here. */
  answered(): void {
    if (this.#state === 'held') this.#state = 'stopped'
  }

  /** Whether the kernel has all of it, so that another request may follow. */
  get complete(): boolean {
    return this.#state === 'written' && this.#transport.socket.writableLength === 0
  }

  /** Nothing more is written. */
  stop(): void {
    if (this.#state === 'sending' || this.#state === 'held') this.#state = 'stopped'
    this.#source?.close()
  }

  #open(source: Source): void {
    this.#source = source
    this.#ask()
  }

  readonly #ask = (): void => {
    if (this.#state !== 'sending') return
    this.#owner.waiting()
    this.#source?.next(this.#take)
  }

  readonly #take = (error: Error | undefined, piece: Piece | undefined): void => {
    if (this.#state !== 'sending') return piece?.release()
    if (error !== undefined) return this.#owner.giveUp(error)
    const length = this.#length
    if (piece === undefined) {
      if (length !== undefined && this.#written < length) {
        return this.#owner.giveUp(new Error('content is shorter than announced'))
      }
      return length === undefined ? this.#end() : this.#finish()
    }
    const { bytes } = piece
    this.#written += bytes.length
    if (length !== undefined && this.#written > length) {
      piece.release()
      return this.#owner.giveUp(new Error('content is longer than announced'))
    }
    const taken = (broken?: Error | null): void => {
      piece.release()
      if (!broken) this.#ask()
    }
    if (bytes.length === 0) return taken()
    this.#owner.writing()
    this.#write(length === undefined ? [chunkStart(bytes.length), bytes, chunkEnd] : [bytes], taken)
  }

  #end(): void {
    let end: string
    try {
      end = lastChunk(this.#trailers())
    } catch (error) {
      return this.#owner.giveUp(error)
    }
    this.#finish(end)
  }

  get #length(): number | undefined {
    const { content } = this.#message
    return content.kind === 'stream' ? content.length : undefined
  }

  #trailers(): Fields {
    const { content } = this.#message
    return (content.kind === 'stream' ? content.trailers?.() : undefined) ?? Fields.empty
  }

  #finish(...parts: Parts): void {
    this.#state = 'written'
    this.#source?.close()
    this.#owner.writing()
    this.#write(parts, () => this.#owner.sent())
  }

  /** One write for the kernel, the head included if it has not left. `taken` is told at its end, with an error if it broke. */
  #write(parts: Parts, taken: (error?: Error | null) => void): void {
    const { socket } = this.#transport
    const all = this.#head === '' ? [...parts] : [this.#head, ...parts]
    this.#head = ''
    const last = all.pop()
    if (last === undefined) return taken()
    socket.cork()
    for (const part of all) socket.write(part, 'latin1')
    socket.write(last, 'latin1', taken)
    socket.uncork()
  }
}

/** Text is latin1. */
type Parts = ReadonlyArray<string | Buffer>
