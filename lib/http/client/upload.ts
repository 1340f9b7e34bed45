/**
 * Sends the content of a request to an origin: after 100 (Continue) if the client asked for that, piece by piece as the origin takes it,
 * with trailer fields where the framing has room for them.
 */
import type { Piece } from '../../bytes/piece.ts'
import { type WriteListener, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import type { Source } from '../../bytes/source.ts'
import { Fields } from '../message/field.ts'
import type { StreamedContent } from '../message/message.ts'
import { chunkEnd, chunkStart, lastChunk } from '../wire/framing.ts'
import type { Transport } from './connection.ts'

export interface UploadOwner {
  /** Called when the origin has to take bytes next. */
  onWriting(): void
  /** Called when the source of the content has to give a piece next. */
  onWaiting(): void
  /** Called when the kernel has the last byte. */
  onSent(): void
  /** Ends the exchange: the source of the content failed, or gave more or fewer bytes than announced. */
  cancel(cause: unknown): void
}

export class Upload {
  readonly #transport: Transport
  readonly #content: StreamedContent
  readonly #owner: UploadOwner
  /** The request's head until it is written. It leaves with the first piece. */
  #head: string
  #source: Source | undefined
  #written = 0
  /** `held`: the content waits for 100 (Continue). */
  #state: 'held' | 'sending' | 'written' | 'stopped' = 'held'

  constructor(transport: Transport, head: string, content: StreamedContent, owner: UploadOwner) {
    this.#transport = transport
    this.#head = head
    this.#content = content
    this.#owner = owner
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

  /** To be called at the response head: content that still waits is not sent any more. */
  onHead(): void {
    if (this.#state === 'held') this.#state = 'stopped'
  }

  stop(): void {
    if (this.#state !== 'written') this.#state = 'stopped'
    this.#source?.close()
  }

  #ask(): void {
    if (this.#state !== 'sending') return
    this.#owner.onWaiting()
    this.#source?.next(this.#take)
  }

  readonly #take = (error: Error | undefined, piece: Piece | undefined): void => {
    if (this.#state !== 'sending') return piece?.release()
    if (error !== undefined) return this.#owner.cancel(error)
    if (piece === undefined) return this.#end()
    const { bytes } = piece
    const { length } = this.#content
    this.#written += bytes.length
    const tooLong = length !== undefined && this.#written > length
    const taken = (broken?: Error | null): void => {
      piece.release()
      if (tooLong) this.#owner.cancel(new Error('content is longer than announced'))
      else if (!broken) this.#ask()
    }
    if (tooLong || bytes.length === 0) return taken()
    this.#owner.onWriting()
    this.#write(length === undefined ? [chunkStart(bytes.length), bytes, chunkEnd] : [bytes], taken)
  }

  #end(): void {
    const { length, trailers } = this.#content
    if (length !== undefined && this.#written < length) {
      return this.#owner.cancel(new Error('content is shorter than announced'))
    }
    const last: string[] = []
    try {
      if (length === undefined) last.push(lastChunk(trailers?.() ?? Fields.empty))
    } catch (error) {
      return this.#owner.cancel(error)
    }
    this.#state = 'written'
    this.#source?.close()
    this.#owner.onWriting()
    this.#write(last, () => this.#owner.onSent())
  }

  /**
   * Writes parts in one call, after the head if that has not left. `taken` is called when the write has ended, with an error if it failed.
   */
  #write(parts: ReadonlyArray<string | Buffer>, taken: WriteListener): void {
    const head = this.#head
    this.#head = ''
    if (head !== '') writeSoon(this.#transport.socket, [head, ...parts], taken, mostCopiedBytes)
    // Each piece waits until the one before is taken, so it need not wait for the end of the turn as well.
    else writeNow(this.#transport.socket, parts, taken)
  }
}

/** A request, or a message in a tunnel, with more bytes than this is written at once, without a copy. */
export const mostCopiedBytes = 4096
