/**
 * The content of a request on the fast path: as many bytes as Content-Length says (RFC 9112 section 6.3, rule 6). The bytes of one read
 * are copied and wait for the handler; meanwhile what follows stays in the kernel.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { MalformedContent, restTime } from '../server/request-content.ts'

/** To be read once. `next` throws when the client goes away in the middle, or is too slow. */
export class FastContent implements AsyncIterableIterator<Buffer, undefined> {
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
