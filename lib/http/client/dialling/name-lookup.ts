/**
 * Names to addresses, through the system's resolver, so that /etc/hosts and nsswitch.conf count.
 *
 * # Facts
 * - getaddrinfo blocks one of libuv's threads (4 unless UV_THREADPOOL_SIZE says more), which file operations share, and it
 *   cannot be cancelled: a dead resolver holds a thread for tens of seconds.
 * - It does not tell how long an answer may be kept.
 *
 * So at most `atOnce` look-ups run at a time and leave the other threads to files, callers who ask for the same name share
 * one, and answers are remembered for seconds: long enough for a burst of requests, short enough to follow a change.
 *
 * A server of names that is silent, which any client may make us ask, holds both places. Names in use do not wait for it: an
 * answer that is older serves when no new one comes within a second (RFC 8767 section 4).
 */
import { lookup as systemLookup } from 'node:dns/promises'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { SingleFlight } from '../../../async/single-flight.ts'

/** Answers with every address of a name, in the order to try them; throws when there is none. */
export type Lookup = (host: string) => Promise<readonly string[]>

export interface NameLookupOptions {
  readonly clock: Clock
  /** The resolver; the system's unless told. */
  readonly lookup?: Lookup
  /** Look-ups running at once; 2 unless told. Keep it below the number of libuv's threads. */
  readonly atOnce?: number
  /** How long an answer, and how long a failure, is remembered; 10 s and 1 s unless told. */
  readonly remember?: { readonly answer: Milliseconds; readonly failure: Milliseconds }
}

interface Memory {
  readonly outcome: { readonly addresses: readonly string[] } | { readonly error: unknown }
  readonly until: Milliseconds
}

/** An older answer is better than none for so long, and is turned to after so long. */
const OLDEST: Milliseconds = 3_600_000
const PATIENCE: Milliseconds = 1000
const MOST_REMEMBERED = 10_000
const MOST_WAITING = 1000

export class NameLookup {
  readonly #clock: Clock
  readonly #lookup: Lookup
  readonly #atOnce: number
  readonly #remember: { readonly answer: Milliseconds; readonly failure: Milliseconds }
  readonly #memory = new Map<string, Memory>()
  readonly #flights = new SingleFlight<readonly string[]>()
  readonly #waiting: Array<() => void> = []
  #running = 0

  constructor(options: NameLookupOptions) {
    this.#clock = options.clock
    this.#lookup = options.lookup ?? resolveBySystem
    this.#atOnce = options.atOnce ?? 2
    this.#remember = options.remember ?? { answer: 10_000, failure: 1000 }
  }

  /** Every address of a name. Has no deadline of its own and throws what the resolver throws. */
  async addresses(host: string): Promise<readonly string[]> {
    const memory = this.#memory.get(host)
    const now = this.#clock.elapsed()
    if (memory === undefined || memory.until <= now) {
      const fresh = this.#flights.run(host, () => this.#ask(host))
      const old = memory !== undefined && now - memory.until <= OLDEST ? memory.outcome : undefined
      return old !== undefined && 'addresses' in old ? this.#soon(fresh, old.addresses) : fresh
    }
    if ('error' in memory.outcome) throw memory.outcome.error
    return memory.outcome.addresses
  }

  /** The new answer, or the old one when it does not come soon. */
  #soon(fresh: Promise<readonly string[]>, old: readonly string[]): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(PATIENCE, () => resolve(old))
      fresh
        .then(resolve, error => (error instanceof TooManyNames ? resolve(old) : reject(error)))
        .finally(cancel)
    })
  }

  async #ask(host: string): Promise<readonly string[]> {
    await this.#turn()
    try {
      const addresses = await this.#lookup(host)
      this.#keep(host, { addresses }, this.#remember.answer)
      return addresses
    } catch (error) {
      this.#keep(host, { error }, this.#remember.failure)
      throw error
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  /** Takes one of the places, or waits to be given one. Waits that were given up stay in the line; its length is bounded. */
  async #turn(): Promise<void> {
    if (this.#running < this.#atOnce) {
      this.#running += 1
      return
    }
    if (this.#waiting.length >= MOST_WAITING)
      throw new TooManyNames('too many names are being looked up')
    await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #keep(host: string, outcome: Memory['outcome'], time: Milliseconds): void {
    this.#memory.delete(host)
    this.#memory.set(host, { outcome, until: this.#clock.elapsed() + time })
    const [oldest] = this.#memory.keys()
    if (this.#memory.size > MOST_REMEMBERED && oldest !== undefined) this.#memory.delete(oldest)
  }
}

class TooManyNames extends Error {}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  const found = await systemLookup(host, { all: true })
  return found.map(one => one.address)
}
