/**
 * The event loop's turns, shared out between content and those who have just come.
 *
 * Node 20 takes one new connection a turn (later ones take all), and a request is read and looked up over several turns. When
 * fifty clients come at once to a server that has a block for every client before them, each turn is as long as all these
 * writes and the last client waits for fifty such turns. So content gets a bounded share of a turn, and none of a turn in
 * which somebody arrived, for a while: a flood of connections slows downloads and does not stop them. The first block of a
 * response never waits.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** What a write costs besides its bytes, in bytes: the call, the wake-up, the steps around it. */
const CALL = 256 * 1024
/** Bytes of content written in one turn, calls included: a millisecond or two. */
const SHARE = 8 * 1024 * 1024
/** The longest that content is held back for those who arrive. */
const PATIENCE: Milliseconds = 50

export class LoopShare {
  readonly #clock: Clock
  readonly #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #left = SHARE
  #arrived = false
  /** Since when content has been held back without a break. */
  #heldSince: Milliseconds | undefined
  #counting = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Somebody came in this turn. */
  arrive(): void {
    this.#arrived = true
    this.#count()
  }

  /** Kept when so many bytes may be written; undefined when that is now. First come, first served. */
  take(bytes: number): Promise<void> | undefined {
    this.#count()
    if (!this.#arrived && this.#waiting.length === 0 && this.#granted(bytes)) return undefined
    return new Promise(go => this.#waiting.push({ bytes, go }))
  }

  /** A block larger than the share may go when nothing else has gone. */
  #granted(bytes: number): boolean {
    const cost = bytes + CALL
    if (this.#left < cost && this.#left < SHARE) return false
    this.#left -= cost
    return true
  }

  /** `setImmediate` comes once a turn, behind what has arrived. */
  #count(): void {
    if (this.#counting) return
    this.#counting = true
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#counting = false
    this.#left = SHARE
    const arrived = this.#arrived
    this.#arrived = false
    if (arrived && this.#waiting.length > 0 && this.#mayHold()) {
      this.#count()
      return
    }
    this.#heldSince = undefined
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#granted(next.bytes)) break
      this.#waiting.shift()
      next.go()
    }
    if (this.#left < SHARE || this.#waiting.length > 0) this.#count()
  }

  #mayHold(): boolean {
    const now = this.#clock.now()
    this.#heldSince ??= now
    return now - this.#heldSince < PATIENCE
  }
}
