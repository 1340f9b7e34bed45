/**
 * Work that gives way to other work: it goes on when no more of it has come for a moment, and in any case soon.
 */
import type { Clock, Milliseconds } from './clock.ts'

/** How long none may have come. */
const quiet: Milliseconds = 20
/** What has waited so long goes on in any case. */
const longest: Milliseconds = 1_000

interface Waiting {
  readonly since: Milliseconds
  readonly size: number
  readonly goOn: () => void
}

export class Lull {
  readonly #clock: Clock
  #waiting: Waiting[] = []
  #size = 0
  #last: Milliseconds = 0
  #cancel: (() => void) | undefined
  #over = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves when the work may go on. When the sizes of all that waits are more than `most`, what came first goes on. */
  wait(size: number, most: number): Promise<void> {
    if (this.#over) return Promise.resolve()
    const since = this.#clock.elapsed()
    this.#last = since
    this.#size += size
    return new Promise(goOn => {
      this.#waiting.push({ since, size, goOn })
      this.#goOn(() => this.#size > most)
      this.#watch()
    })
  }

  /** All goes on, and nothing waits from here on. */
  end(): void {
    this.#over = true
    this.#goOn(() => true)
    this.#cancel?.()
  }

  #watch(): void {
    if (this.#waiting.length === 0) return
    this.#cancel ??= this.#clock.after(quiet, () => {
      this.#cancel = undefined
      const now = this.#clock.elapsed()
      const lull = now - this.#last >= quiet
      this.#goOn(({ since }) => lull || now - since >= longest)
      this.#watch()
    })
  }

  /** Those go on that came first, as long as they may. */
  #goOn(may: (first: Waiting) => boolean): void {
    for (let [first] = this.#waiting; first !== undefined && may(first); [first] = this.#waiting) {
      this.#waiting.shift()
      this.#size -= first.size
      first.goOn()
    }
  }
}
