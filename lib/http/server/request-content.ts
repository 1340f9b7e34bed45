/**
 * The content of a request, which its handler reads block by block (RFC 9110 section 6.4). Bytes that the handler does not read stay in the
 * kernel. A handler that leaves early does not cut the connection, so an answer given before the end of an upload can still be sent.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../message/field.ts'

/** The content has malformed chunks (RFC 9112 section 7.1), ends before its length, or came too slowly. */
export class MalformedContent extends Failure {
  /** `problem` is a code of Node's parser. */
  constructor(problem: string) {
    super(`the content of the request is malformed: ${problem}`, {
      code: 'CLIENT_CONTENT_MALFORMED',
      fault: 'downstream',
      publicText: 'The content of the request is malformed.',
      facts: { problem },
    })
  }
}

/** The content can be read once. `next` throws when the client goes away before the end, or sends a malformed chunk. */
export class RequestContent implements AsyncIterableIterator<Buffer, undefined> {
  readonly #message: IncomingMessage
  readonly #begin: () => void
  #state: 'new' | 'open' | 'ended' | 'broken' = 'new'
  #malformed: MalformedContent | undefined
  #wake: () => void = () => {}
  #stopListening: () => void = () => {}

  /** `begin` is called when the handler asks for the first block: the moment to send 100 (Continue). */
  constructor(message: IncomingMessage, begin: () => void = () => {}) {
    this.#message = message
    this.#begin = begin
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#state === 'new') this.#start()
    for (;;) {
      const block: Buffer | null = this.#state === 'open' ? this.#message.read() : null
      if (block !== null) return { done: false, value: block }
      if (this.#state === 'ended') return { done: true, value: undefined }
      if (this.#state === 'broken') {
        throw this.#malformed ?? new Error('the client went away before its content ended')
      }
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.#stop('ended')
    return { done: true, value: undefined }
  }

  /** Whether `refuse` was called. */
  get malformed(): boolean {
    return this.#malformed !== undefined
  }

  /** Stops reading, because the parser has refused the rest. False when the content was complete. */
  refuse(problem: string): boolean {
    if (this.#message.complete) return false
    this.#malformed = new MalformedContent(problem)
    this.#stop('broken')
    return true
  }

  /** The trailer fields (RFC 9110 section 6.5). There are none before the content has ended. */
  trailers(): Fields {
    return this.#message.complete ? Fields.fromFlat(this.#message.rawTrailers) : Fields.empty
  }

  #start(): void {
    const message = this.#message
    this.#state = 'open'
    if (message.readableEnded) return this.#stop('ended')
    if (message.destroyed) return this.#stop('broken')
    const onReadable = (): void => {
      if (message.readableLength === 0) message.read(0) // lets 'end' happen
      this.#wake()
    }
    const onEnd = (): void => this.#stop('ended')
    const onBroken = (): void => this.#stop('broken')
    message.on('readable', onReadable).on('end', onEnd).on('close', onBroken).on('error', onBroken)
    this.#stopListening = () => {
      // The listener for 'error' stays: an error without a listener would end the process.
      message.off('readable', onReadable).off('end', onEnd).off('close', onBroken)
    }
    this.#begin()
  }

  #stop(state: 'ended' | 'broken'): void {
    if (this.#state === 'ended' || this.#state === 'broken') return
    this.#state = state
    this.#stopListening()
    this.#wake()
  }
}

/** The content of a request that has none. */
export const emptyContent: AsyncIterable<Buffer> = {
  [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }),
}

/** Time limit for the rest of a request that was answered before its end. */
export const restTime: Milliseconds = 10_000

/** Reads and discards the rest of a request that was answered, for a limited time. */
export function passOver(message: IncomingMessage, clock: Clock): void {
  if (message.complete || message.socket.destroyed) return
  const cancel = clock.after(restTime, () => message.socket.destroy())
  message.once('close', cancel)
  message.once('end', cancel)
  message.resume()
}
