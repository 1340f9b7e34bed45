/**
 * Work that gives way to other work: it goes on when no more of it has come for a moment, and in any case soon.
 */
import type { Clock, Milliseconds } from './clock.ts'

/** How long none may have come. */
const quiet: Milliseconds = 20
/** What has waited so long goes on in any case. */
const longest: Milliseconds = 1_000

/** So many are done at once. */
const atOnce = 8

interface Waiting {
  readonly since: Milliseconds
  readonly size: number
  readonly work: () => Promise<void>
}

export class Lull {
  readonly #clock: Clock
  #waiting: Waiting[] = []
  #size = 0
  #last: Milliseconds = 0
  /** Those need not wait any longer. They are begun in their order. */
  #due: Waiting[] = []
  #running = 0
  #cancel: (() => void) | undefined
  #over = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Does the work, which must not reject, when it may be done, and resolves when it is. When the sizes of all that waits are more
   * than `most`, what came first need not wait any longer.
   */
  run(work: () => Promise<void>, size: number, most: number): Promise<void> {
    const since = this.#clock.elapsed()
    this.#last = since
    this.#size += size
    return new Promise(done => {
      this.#waiting.push({ since, size, work: () => work().finally(done) })
      this.#let(() => this.#over || this.#size > most)
      this.#watch()
    })
  }

  /** Nothing waits from here on. */
  end(): void {
    this.#over = true
    this.#let(() => true)
    this.#cancel?.()
  }

  #watch(): void {
    if (this.#waiting.length === 0) return
    this.#cancel ??= this.#clock.after(quiet, () => {
      this.#cancel = undefined
      const now = this.#clock.elapsed()
      const lull = now - this.#last >= quiet
      this.#let(({ since }) => lull || now - since >= longest)
      this.#watch()
    })
  }

  /** Those go on that came first, as long as they may. */
  #let(may: (first: Waiting) => boolean): void {
    let count = 0
    for (const one of this.#waiting) {
      if (!may(one)) break
      this.#size -= one.size
      count += 1
    }
    this.#due.push(...this.#waiting.splice(0, count))
    this.#begin()
  }

  #begin(): void {
    while (this.#running < atOnce) {
      const next = this.#due.shift()
      if (next === undefined) return
      this.#running += 1
      void next.work().finally(() => {
        this.#running -= 1
        this.#begin()
      })
    }
  }
}
