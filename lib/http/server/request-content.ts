/**
 * The content of a request, block by block, as its handler reads it (RFC 9110 section 6.4). What is not read stays in the
 * kernel. Leaving early does not cut the connection, so that an answer given before the end of an upload can still be sent.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../message/field.ts'

/** Chunks that are none (RFC 9112 section 7.1), so that the end of the request is not known. */
export class MalformedContent extends Failure {
  /** `problem` is the code of Node's parser. */
  constructor(problem: string) {
    super(`the content of the request is malformed: ${problem}`, {
      code: 'CLIENT_CONTENT_MALFORMED',
      fault: 'downstream',
      publicText: 'The content of the request is malformed.',
      facts: { problem },
    })
  }
}

export class RequestContent implements AsyncIterable<Buffer> {
  readonly #message: IncomingMessage
  readonly #begin: () => void
  #blocks: Blocks | undefined
  #malformed: MalformedContent | undefined

  /** `begin` is called when the first block is asked for: the moment to send 100 (Continue). */
  constructor(message: IncomingMessage, begin: () => void = () => {}) {
    this.#message = message
    this.#begin = begin
  }

  /** To be read once. `next` throws when the client goes away in the middle, or sends a malformed chunk. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer, undefined> {
    this.#blocks = new Blocks(this.#message, this.#begin)
    if (this.#malformed !== undefined) this.#blocks.break(this.#malformed)
    return this.#blocks
  }

  /** Whether `refuse` was called. */
  get malformed(): boolean {
    return this.#malformed !== undefined
  }

  /** The parser has refused the rest: no more is read. False when the content was complete. */
  refuse(problem: string): boolean {
    if (this.#message.complete) return false
    this.#malformed = new MalformedContent(problem)
    this.#blocks?.break(this.#malformed)
    return true
  }

  /** The trailer fields (RFC 9110 section 6.5); none before the content has ended. */
  trailers(): Fields {
    return this.#message.complete ? Fields.fromFlat(this.#message.rawTrailers) : Fields.empty
  }
}

/** The content of a request that has none. */
export const emptyContent: AsyncIterable<Buffer> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
}

class Blocks implements AsyncIterator<Buffer, undefined> {
  readonly #message: IncomingMessage
  readonly #begin: () => void
  #state: 'new' | 'open' | 'ended' | 'broken' = 'new'
  #why = new Error('the client went away before its content ended')
  #wake: () => void = () => {}

  constructor(message: IncomingMessage, begin: () => void) {
    this.#message = message
    this.#begin = begin
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#state === 'new') this.#start()
    for (;;) {
      const block: Buffer | null = this.#state === 'open' ? this.#message.read() : null
      if (block !== null) return { done: false, value: block }
      if (this.#state === 'ended') return { done: true, value: undefined }
      if (this.#state === 'broken') throw this.#why
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  break(why: Error): void {
    if (this.#state === 'new') this.#state = 'open'
    this.#why = why
    this.#stop('broken')
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#state === 'open') this.#stop('ended')
    this.#state = 'ended'
    return { done: true, value: undefined }
  }

  #start(): void {
    const message = this.#message
    this.#state = 'open'
    if (message.readableEnded || message.destroyed) {
      this.#stop(message.readableEnded ? 'ended' : 'broken')
      return
    }
    message.on('readable', this.#onReadable)
    message.on('end', this.#onEnd)
    message.on('close', this.#onBroken)
    message.on('error', this.#onBroken)
    this.#begin()
  }

  readonly #onReadable = () => {
    if (this.#message.readableLength === 0) this.#message.read(0) // lets 'end' happen
    this.#wake()
  }
  readonly #onEnd = () => this.#stop('ended')
  readonly #onBroken = () => this.#stop('broken')

  #stop(state: 'ended' | 'broken'): void {
    if (this.#state !== 'open') return
    this.#state = state
    const message = this.#message
    message.off('readable', this.#onReadable)
    message.off('end', this.#onEnd)
    message.off('close', this.#onBroken)
    // 'error' keeps its listener: without one it would end the process.
    this.#wake()
  }
}

/** Time limit for the rest of a request that was answered before its end. */
const REST_TIME: Milliseconds = 10_000

/** Reads and discards the rest of a request that was answered, for a limited time. */
export function passOver(message: IncomingMessage, clock: Clock): void {
  if (message.complete || message.socket.destroyed) return
  const cancel = clock.after(REST_TIME, () => message.socket.destroy())
  message.once('close', cancel)
  message.once('end', cancel)
  message.resume()
}
