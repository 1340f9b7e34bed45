/**
 * Keeps requests from a store that fails: after a failure they are answered at once, without asking, until a question of our own in
 * the background was answered. The rest before it is a second at first, and twice as long after each failure, up to a minute. A store
 * that fails again within a minute goes on where it was.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'

const firstRest: Milliseconds = 1000
const longestRest: Milliseconds = 60_000

export interface BreakerOptions {
  readonly clock: Clock
  /** Asks whether it works again: undefined when it does, else why not. It must not reject. */
  readonly ask: () => Promise<string | undefined>
  /** Called with the reason when it begins to rest, and with undefined when it works again. */
  readonly onChange: (because: string | undefined) => void
}

export class Breaker {
  readonly #options: BreakerOptions
  #because: string | undefined
  #failures = 0
  /** When it worked again last, by `elapsed`. */
  #recovered: Milliseconds = 0
  #cancel: () => void = () => {}
  #closed = false

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** Why it rests; undefined when it may be asked. */
  get resting(): string | undefined {
    return this.#because
  }

  /** A request failed. Further failures of requests that were under way change nothing. */
  failed(because: string): void {
    if (this.#because !== undefined || this.#closed) return
    if (this.#options.clock.elapsed() - this.#recovered > longestRest) this.#failures = 0
    this.#because = because
    this.#options.onChange(because)
    this.#rest()
  }

  close(): void {
    this.#closed = true
    this.#cancel()
  }

  #rest(): void {
    const time = Math.min(longestRest, firstRest * 2 ** this.#failures)
    this.#failures += 1
    this.#cancel = this.#options.clock.after(time, () => void this.#ask())
  }

  async #ask(): Promise<void> {
    const because = await this.#options.ask()
    if (this.#closed) return
    if (because !== undefined) {
      this.#because = because
      return this.#rest()
    }
    this.#because = undefined
    this.#recovered = this.#options.clock.elapsed()
    this.#options.onChange(undefined)
  }
}
