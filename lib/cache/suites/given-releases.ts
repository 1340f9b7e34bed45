/**
 * Remembers which Release of a suite a client was given last: its update ends with the indexes that Release names.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** An update takes minutes at most, over the slowest line. */
const lifetime: Milliseconds = 10 * 60 * 1000
/** The most that are remembered, a client and a suite each. */
const capacity = 16_384

export class GivenReleases {
  readonly #clock: Clock
  readonly #given = new LRUCache<string, { readonly digest: string; readonly at: Milliseconds }>({
    max: capacity,
  })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The client at an address gets the Release with this SHA-256 of the suite in the directory with this key. */
  note(client: string, suite: string, digest: string): void {
    this.#given.set(`${client} ${suite}`, { digest, at: this.#clock.elapsed() })
  }

  /** SHA-256 of the Release the client was given; undefined when that was too long ago. */
  to(client: string, suite: string): string | undefined {
    const given = this.#given.get(`${client} ${suite}`)
    if (given === undefined || this.#clock.elapsed() - given.at > lifetime) return undefined
    return given.digest
  }
}
