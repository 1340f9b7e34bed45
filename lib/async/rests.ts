/**
 * Remembers which of several peers failed recently, for example origins of an archive, their addresses or parent proxies. For a while they
 * come last, or are left alone. Each further failure doubles that time, up to a limit. When it is over, one request tries the peer, while
 * other requests still try it last.
 */
import { recentEntries } from '../recent.ts'
import type { Clock, Milliseconds } from './clock.ts'

/** The usual time for which a peer comes last after its first failure, and the usual longest one. */
const firstRest: Milliseconds = 10_000
export const longestRest: Milliseconds = 300_000

/** The most peers that are remembered. A client can cause questions to any number of them. */
const mostPeers = 1000

interface RestTimes {
  readonly first?: Milliseconds
  readonly longest?: Milliseconds
}

interface Health<Reason> {
  readonly failures: number
  /** The moment until which it comes last, by `elapsed`. */
  until: Milliseconds
  readonly because: Reason | undefined
}

export class Rests<Reason = never> {
  readonly #clock: Clock
  readonly #first: Milliseconds
  readonly #longest: Milliseconds
  readonly #failing = recentEntries<string, Health<Reason>>(mostPeers)

  constructor(clock: Clock, { first = firstRest, longest = longestRest }: RestTimes = {}) {
    this.#clock = clock
    this.#first = first
    this.#longest = longest
  }

  /** Notes a failure. `least` is the shortest time for which the peer comes last. */
  note(
    name: string,
    { least = 0, because }: { readonly least?: Milliseconds; readonly because?: Reason } = {},
  ): void {
    const failures = (this.#failing.get(name)?.failures ?? 0) + 1
    const rest = Math.min(this.#longest, this.#first * 2 ** (failures - 1))
    const until = this.#clock.elapsed() + Math.max(rest, least)
    this.#failing.set(name, { failures, until, because })
  }

  /** Forgets the failures of a peer. Answers whether there were any. */
  forget(name: string): boolean {
    return this.#failing.size > 0 && this.#failing.delete(name)
  }

  /** The remaining time for which a peer comes last; 0 when it does not. */
  left(name: string): Milliseconds {
    return Math.max(0, (this.#failing.get(name)?.until ?? 0) - this.#clock.elapsed())
  }

  /** The reason of the last failure, while the peer rests. */
  reason(name: string): Reason | undefined {
    return this.left(name) === 0 ? undefined : this.#failing.get(name)?.because
  }

  /** The peers that rest now. */
  names(): readonly string[] {
    return [...this.#failing.keys()].filter(name => this.left(name) > 0)
  }

  /** The peers in the order in which a request should try them. Of the failing ones those whose rest ends soonest come first. */
  inTurn<Peer>(
    peers: readonly Peer[],
    nameOf: (peer: Peer) => string,
  ): { readonly healthy: readonly Peer[]; readonly failing: readonly Peer[] } {
    if (this.#failing.size === 0) return { healthy: peers, failing: [] }
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
