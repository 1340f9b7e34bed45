/**
 * Remembers the targets the origin answered 404 for, for a short time and in memory: a flat repository without a Release file
 * costs twenty of them an update.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** The most that are remembered; beyond it the least recently used is forgotten. */
const capacity = 10_000

export class NegativeMemory {
  readonly #until = new LRUCache<string, Milliseconds>({ max: capacity })
  readonly #clock: Clock
  readonly #lifetime: () => Milliseconds

  constructor(clock: Clock, lifetime: () => Milliseconds) {
    this.#clock = clock
    this.#lifetime = lifetime
  }

  /** The moment until which the 404 holds; undefined when there is none. */
  until(key: string): Milliseconds | undefined {
    const until = this.#until.get(key)
    if (until === undefined || until > this.#clock.now()) return until
    this.#until.delete(key)
    return undefined
  }

  remember(key: string): void {
    this.#until.set(key, this.#clock.now() + this.#lifetime())
  }

  forget(key: string): void {
    this.#until.delete(key)
  }

  clear(): void {
    this.#until.clear()
  }
}
