/**
 * The content of an origin's response, block by block, with the pressure turned back: what nobody asks for stays in the
 * kernel and stops the origin. Knows one response; the connection belongs to whoever made it.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'
import { Fields } from '../message/field.ts'
import {
  OriginAborted,
  OriginContentTimeout,
  type OriginFailure,
  OriginMalformed,
  OriginTruncated,
} from './errors.ts'

export interface ContentOptions {
  readonly clock: Clock
  /** The longest silence while somebody waits for a block. */
  readonly idle: Milliseconds
  readonly signal: AbortSignal
  readonly origin: string
  readonly address: string
  /** Bytes announced; undefined when the end is only known when it comes. */
  readonly length: number | undefined
  /** What the connection or the parser complained about, if anything. */
  readonly complaint: () => unknown
}

/** So much is read to the end, rather than giving the connection up, when the reader leaves early. */
const WORTH_READING = 65_536

/**
 * Blocks of at most 64 KiB or so. Idle time counts only while a block is being waited for. Ends with an OriginFailure when
 * the content does; `return` lets go of the rest. Asked for one block at a time.
 */
export class OriginContent implements AsyncIterableIterator<Buffer> {
  /** Bytes handed out so far. */
  received = 0
  readonly #message: IncomingMessage
  readonly #options: ContentOptions
  #state: 'open' | 'ended' | 'broken' = 'open'
  #failure: OriginFailure | undefined
  #left = false
  #wake: () => void = () => {}

  constructor(message: IncomingMessage, options: ContentOptions) {
    this.#message = message
    this.#options = options
    message.on('readable', () => {
      if (message.readableLength === 0) message.read(0) // lets 'end' happen
      this.#wake()
    })
    message.on('end', () => this.#finish(this.#wasCut() ? 'broken' : 'ended'))
    message.on('error', () => this.#finish('broken'))
    message.on('close', () => this.#finish('broken'))
    const { signal } = options
    signal.addEventListener('abort', this.#onAbort)
    if (signal.aborted) this.#onAbort()
  }

  /** Trailer fields (RFC 9110 section 6.5); none before the content has ended. */
  trailers(): Fields {
    return this.#state === 'ended' ? Fields.fromFlat(this.#message.rawTrailers) : Fields.empty
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#left) return { done: true, value: undefined }
    const block = await this.#take()
    return block === undefined ? { done: true, value: undefined } : { done: false, value: block }
  }

  /** The reader wants no more. A small rest is read so that the connection can be used again; else it is closed. */
  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.#left = true
    const { length } = this.#options
    const rest = length === undefined ? Number.POSITIVE_INFINITY : length - this.received
    if (this.#state === 'open') {
      if (rest <= WORTH_READING) this.#drain().catch(() => this.#message.destroy())
      else this.#message.destroy()
    }
    return { done: true, value: undefined }
  }

  /** The whole rest has the time that a block has otherwise. */
  async #drain(): Promise<void> {
    const { clock, idle } = this.#options
    const cancelTimer = clock.after(idle, () => this.#message.destroy())
    try {
      while ((await this.#take()) !== undefined);
    } finally {
      cancelTimer()
    }
  }

  readonly #onAbort = () => {
    const { origin, address, signal } = this.#options
    this.#fail(new OriginAborted(origin, { phase: 'content', address, cause: signal.reason }))
  }

  async #take(): Promise<Buffer | undefined> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure
      const block: Buffer | null = this.#message.read()
      if (block !== null) {
        this.received += block.length
        return block
      }
      if (this.#state === 'ended') return undefined
      if (this.#state === 'broken') throw this.#broken()
      await this.#change()
    }
  }

  #change(): Promise<void> {
    const { clock, idle } = this.#options
    return new Promise(resolve => {
      const cancelTimer = clock.after(idle, () => {
        const { origin, address } = this.#options
        const { received } = this
        this.#fail(new OriginContentTimeout(origin, { after: idle, address, received }))
      })
      this.#wake = () => {
        cancelTimer()
        this.#wake = () => {}
        resolve()
      }
    })
  }

  #finish(state: 'ended' | 'broken'): void {
    if (this.#state === 'open') this.#state = state
    this.#options.signal.removeEventListener('abort', this.#onAbort)
    this.#wake()
  }

  #fail(failure: OriginFailure): void {
    if (this.#state === 'ended') return
    this.#failure ??= failure
    this.#message.destroy()
    this.#finish('broken')
  }

  /** Node takes even a broken connection for the end of content that only the connection delimits. */
  #wasCut(): boolean {
    const { length, complaint } = this.#options
    const delimited = length !== undefined || 'transfer-encoding' in this.#message.headers
    return !delimited && complaint() !== undefined
  }

  #broken(): OriginFailure {
    const { origin, address, length, complaint } = this.#options
    const cause = complaint()
    const trouble = { address, ...(cause === undefined ? {} : { cause }) }
    const { received } = this
    this.#failure = systemCode(cause)?.startsWith('HPE_')
      ? new OriginMalformed(origin, 'its content breaks the framing', {
          ...trouble,
          phase: 'content',
        })
      : new OriginTruncated(origin, { ...trouble, received, length })
    return this.#failure
  }
}
