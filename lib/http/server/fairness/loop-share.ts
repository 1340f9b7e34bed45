/**
 * Shares the turns of the event loop between content and new connections, and memory between those that take their content slowly.
 *
 * # Facts
 * - Node 20 accepts one connection a turn (later versions accept all). With a block to write for every client before it, each
 *   turn lasts as long as all these writes, and the last of fifty clients waits for fifty such turns.
 * - So content gets a bounded share of a turn, and none of a turn in which a connection arrived, for at most `longestHold`: many
 *   connections slow downloads and never stop them. The first piece of a response does not wait.
 * - What a connection has not taken waits in memory. With hundreds of slow clients each has little of it: what is made beyond the
 *   blocks there are for it (bytes/block-pool.ts) V8 collects, four times a second with a tenth of all time.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'

/** What a write costs besides its bytes, in bytes: the call, the wake-up, the steps around it. */
const perWrite = 256 * 1024
/** Bytes of content written in one turn, `perWrite` included: one or two milliseconds. */
const share = 8 * 1024 * 1024
const longestHold: Milliseconds = 50
/** Bytes that may wait in one connection before it is given more; the second when more than `plenty` wait in all. */
const mostUntaken = 512 * 1024
const fewUntaken = 64 * 1024
const plenty = 32 * 1024 * 1024

export class LoopShare {
  readonly #clock: Clock
  readonly #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #left = share
  #arrived = false
  /** Since when content has been held back without a break. */
  #heldSince: Milliseconds | undefined
  #counting = false
  /** Bytes that wait in connections. */
  #untaken = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A connection arrived in this turn. */
  arrive(): void {
    this.#arrived = true
    this.#count()
  }

  /** Calls `go` when so many bytes may be written, at once if possible; first come, first served. */
  take(bytes: number, go: () => void): void {
    this.#count()
    if (!this.#arrived && this.#waiting.length === 0 && this.#granted(bytes)) go()
    else this.#waiting.push({ bytes, go })
  }

  /** So many bytes were handed to a connection; a negative number: they were taken, or it has closed. */
  wait(bytes: number): void {
    this.#untaken += bytes
  }

  /** Whether a connection in which so many bytes wait may be given more. */
  mayAsk(untaken: number): boolean {
    return untaken < (this.#untaken < plenty ? mostUntaken : fewUntaken)
  }

  /** A piece larger than the share may go when nothing else has gone. */
  #granted(bytes: number): boolean {
    const cost = bytes + perWrite
    if (this.#left < cost && this.#left < share) return false
    this.#left -= cost
    return true
  }

  /** `setImmediate` runs once a turn, after what has arrived was read. */
  #count(): void {
    if (this.#counting) return
    this.#counting = true
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#counting = false
    this.#left = share
    const arrived = this.#arrived
    this.#arrived = false
    if (arrived && this.#waiting.length > 0 && this.#mayHold()) return this.#count()
    this.#heldSince = undefined
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#granted(next.bytes)) break
      this.#waiting.shift()
      next.go()
    }
    if (this.#left < share || this.#waiting.length > 0) this.#count()
  }

  #mayHold(): boolean {
    const now = this.#clock.elapsed()
    this.#heldSince ??= now
    return now - this.#heldSince < longestHold
  }
}
