/**
 * A deadline that changes often. One timer serves all deadlines, and compares the present one when it fires.
 */
import type { Clock, Milliseconds } from './clock.ts'

export class Alarm {
  readonly #clock: Clock
  #ring: (() => void) | undefined
  /** When the deadline passes, and when the timer fires, by `elapsed`. */
  #due: Milliseconds = 0
  #rings: Milliseconds = Number.POSITIVE_INFINITY
  #cancelTimer: () => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `ring` after this time, and cancels any earlier deadline. */
  set(after: Milliseconds, ring: () => void): void {
    this.#ring = ring
    this.#due = this.#clock.elapsed() + after
    if (this.#due < this.#rings) this.#start(after)
  }

  /** Cancels the deadline. The timer may stay. */
  clear(): void {
    this.#ring = undefined
  }

  /** Cancels the deadline and the timer. */
  close(): void {
    this.clear()
    this.#cancelTimer()
    this.#rings = Number.POSITIVE_INFINITY
  }

  #start(after: Milliseconds): void {
    this.#cancelTimer()
    this.#rings = this.#due
    this.#cancelTimer = this.#clock.after(after, this.#look)
  }

  readonly #look = (): void => {
    this.#rings = Number.POSITIVE_INFINITY
    const ring = this.#ring
    if (ring === undefined) return
    const rest = this.#due - this.#clock.elapsed()
    if (rest > 0) return this.#start(rest)
    this.#ring = undefined
    ring()
  }
}
