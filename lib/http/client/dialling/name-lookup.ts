/**
 * Addresses of names, through the system's resolver, so that /etc/hosts and nsswitch.conf apply.
 *
 * # Facts
 * - getaddrinfo blocks one of libuv's threads (4 unless UV_THREADPOOL_SIZE says more), which file operations share, and it cannot be
 *   cancelled: with a dead resolver it holds a thread for tens of seconds.
 * - It does not tell how long an answer may be kept.
 *
 * So at most `AT_ONCE` look-ups run at a time and leave the other threads to files. Callers who ask for the same name share one. Answers
 * are remembered for seconds: long enough for a burst of requests, short enough to follow a change.
 *
 * A silent name server, which any client can make us ask, holds both places. Names in use do not wait for it: an older answer is used when
 * no new one comes within a second (RFC 8767 section 4).
 */
import { lookup as systemLookup } from 'node:dns/promises'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { recentEntries } from '../../../recent.ts'

/** Returns every address of a name, in the order to try them. Throws when there is none. */
export type Lookup = (host: string) => Promise<readonly string[]>

interface Memory {
  readonly outcome: { readonly addresses: readonly string[] } | { readonly error: unknown }
  readonly until: Milliseconds
}

const AT_ONCE = 2
/** How long an answer and a failure are remembered. */
const ANSWER: Milliseconds = 10_000
const FAILURE: Milliseconds = 1000
/** An older answer is used up to this age, and after this wait for a new one. */
const OLDEST: Milliseconds = 3_600_000
const PATIENCE: Milliseconds = 1000
const MOST_REMEMBERED = 10_000
const MOST_WAITING = 1000

export class NameLookup {
  readonly #clock: Clock
  readonly #lookup: Lookup
  readonly #memory = recentEntries<string, Memory>(MOST_REMEMBERED)
  readonly #flights = new SingleFlight<readonly string[]>()
  readonly #waiting: Array<() => void> = []
  #running = 0

  constructor(clock: Clock, lookup: Lookup = resolveBySystem) {
    this.#clock = clock
    this.#lookup = lookup
  }

  /** Every address of a name. It has no deadline of its own and throws what the resolver throws. */
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

  /** The last known addresses of a name, without asking. */
  remembered(host: string): readonly string[] {
    const { outcome } = this.#memory.get(host) ?? {}
    return outcome !== undefined && 'addresses' in outcome ? outcome.addresses : []
  }

  /** The new answer, or the old one when the new one takes longer than `PATIENCE`. */
  async #soon(fresh: Promise<readonly string[]>, old: readonly string[]) {
    try {
      return (await resultInTime(fresh, this.#clock, PATIENCE)) ?? old
    } catch (error) {
      if (error instanceof TooManyNames) return old
      throw error
    }
  }

  async #ask(host: string): Promise<readonly string[]> {
    await this.#turn()
    try {
      const addresses = await this.#lookup(host)
      this.#keep(host, { addresses }, ANSWER)
      return addresses
    } catch (error) {
      this.#keep(host, { error }, FAILURE)
      throw error
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  /** Takes one of the places, or waits for one. A wait that its caller gave up stays in the line, whose length is bounded. */
  async #turn(): Promise<void> {
    if (this.#running < AT_ONCE) {
      this.#running += 1
      return
    }
    if (this.#waiting.length >= MOST_WAITING)
      throw new TooManyNames('too many names are being looked up')
    await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  #keep(host: string, outcome: Memory['outcome'], time: Milliseconds): void {
    this.#memory.set(host, { outcome, until: this.#clock.elapsed() + time })
  }
}

class TooManyNames extends Error {}

/** The addresses of a name from the system's resolver. */
export async function resolveBySystem(host: string): Promise<readonly string[]> {
  const found = await systemLookup(host, { all: true })
  return found.map(one => one.address)
}
