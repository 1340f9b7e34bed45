/**
 * Remembers which of several peers failed recently, for example origins of an archive or parent proxies. For a while they come last. Each
 * failure doubles that time. When it is over, one request tries the peer, while other requests still try it last.
 */
import type { Clock, Milliseconds } from './clock.ts'

/** The time for which a peer comes last after its first failure, and the longest such time. Each failure doubles it. */
const firstRest: Milliseconds = 10_000
export const longestRest: Milliseconds = 300_000

interface Health {
  readonly failures: number
  /** The moment until which it comes last, by `elapsed`. */
  until: Milliseconds
}

export class Rests {
  readonly #clock: Clock
  readonly #failing = new Map<string, Health>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Notes a failure. `least` is the shortest time for which the peer comes last. */
  note(name: string, least: Milliseconds = 0): void {
    const failures = (this.#failing.get(name)?.failures ?? 0) + 1
    const rest = Math.min(longestRest, firstRest * 2 ** (failures - 1))
    this.#failing.set(name, { failures, until: this.#clock.elapsed() + Math.max(rest, least) })
  }

  /** Forgets the failures of a peer. Answers whether there were any. */
  forget(name: string): boolean {
    return this.#failing.delete(name)
  }

  /** The remaining time for which a peer comes last; 0 when it does not. */
  left(name: string): Milliseconds {
    return Math.max(0, (this.#failing.get(name)?.until ?? 0) - this.#clock.elapsed())
  }

  /** The peers in the order in which a request should try them. Of the failing ones those whose rest ends soonest come first. */
  inTurn<Peer>(
    peers: readonly Peer[],
    nameOf: (peer: Peer) => string,
  ): { readonly healthy: readonly Peer[]; readonly failing: readonly Peer[] } {
    const left = (peer: Peer) => this.left(nameOf(peer))
    const healthy = peers.filter(peer => left(peer) === 0)
    const failing = peers.filter(peer => left(peer) > 0).sort((a, b) => left(a) - left(b))
    // Only one request tries whether the peer is back, not all requests of this moment.
    for (const peer of healthy) {
      const health = this.#failing.get(nameOf(peer))
      if (health !== undefined) health.until = this.#clock.elapsed() + firstRest
    }
    return { healthy, failing }
  }
}
