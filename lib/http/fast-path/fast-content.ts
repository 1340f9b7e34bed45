/**
 * The content of a request on the fast path: as many bytes as Content-Length says (RFC 9112 section 6.3, rule 6), copied as they come
 * and kept until the handler reads them, within a bound.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { MalformedContent, restTime } from '../server/request-content.ts'

/** Bytes that wait for the handler before no more are read. */
const mostWaiting = 64 * 1024
/** So many blocks are put together: each costs more memory than the few bytes a slow client sends at a time. */
const mostBlocks = 64

/** To be read once. `next` throws when the client goes away in the middle, or is too slow. */
export class FastContent implements AsyncIterableIterator<Buffer, undefined> {
  /** When its head had come, on the monotonic clock. */
  readonly since: Milliseconds
  readonly #readOn: () => void
  /** Bytes that have not come. */
  #left: number
  #blocks: Buffer[] = []
  #waiting = 0
  /** `left`: the handler wants no more. `passed over`: what comes is dropped. */
  #state: 'open' | 'left' | 'passed over' | 'broken' = 'open'
  #malformed: MalformedContent | undefined
  #wake: () => void = () => {}
  #cancel: () => void = () => {}

  /** `readOn` is called when there is room again. */
  constructor(length: number, since: Milliseconds, readOn: () => void) {
    this.#left = length
    this.since = since
    this.#readOn = readOn
  }

  /** Takes what belongs to it of the bytes from `from` on, and answers how many these are. */
  take(bytes: Buffer, from: number): number {
    const end = Math.min(bytes.length, from + this.#left)
    const count = end - from
    this.#left -= count
    if (this.#state === 'open') this.#blocks.push(Buffer.from(bytes.subarray(from, end)))
    if (this.#blocks.length === mostBlocks) this.#blocks = [Buffer.concat(this.#blocks)]
    // What the handler does not want is left to the kernel all the same, until the request is answered.
    if (this.#state === 'open' || this.#state === 'left') this.#waiting += count
    if (this.#left === 0) this.#cancel()
    this.#wake()
    return count
  }

  /** Whether all of it has come. */
  get complete(): boolean {
    return this.#left === 0
  }

  /** Whether no more is to be read at present. */
  get full(): boolean {
    return this.#waiting >= mostWaiting
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    for (;;) {
      if (this.#state === 'broken') {
        throw this.#malformed ?? new Error('the client went away before its content ended')
      }
      const value = this.#state === 'open' ? this.#blocks.shift() : undefined
      if (value !== undefined) {
        const { full } = this
        this.#waiting -= value.length
        if (full && !this.full && !this.complete) this.#readOn()
        return { done: false, value }
      }
      if (this.#state !== 'open' || this.complete) return { done: true, value: undefined }
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    if (this.#state === 'open') this.#state = 'left'
    this.#wake()
    return { done: true, value: undefined }
  }

  get malformed(): boolean {
    return this.#malformed !== undefined
  }

  /** No more is read, for this reason. False when all of it has come. */
  refuse(problem: string): boolean {
    if (this.complete) return false
    this.#malformed = new MalformedContent(problem)
    this.broken()
    return true
  }

  /** The client has gone. What has come is lost if not all has. */
  broken(): void {
    this.#cancel()
    if (this.complete) return
    this.#state = 'broken'
    this.#drop()
    this.#wake()
  }

  /** The request was answered: what the handler did not read is dropped, for a limited time; then `late` is called. */
  passOver(clock: Clock, late: () => void): void {
    const { full } = this
    this.#drop()
    if (this.#state === 'broken' || this.complete) return
    this.#state = 'passed over'
    this.#cancel = clock.after(restTime, late)
    if (full) this.#readOn()
  }

  #drop(): void {
    this.#blocks = []
    this.#waiting = 0
  }
}
