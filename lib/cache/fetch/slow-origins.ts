/**
 * Remembers origins that have just let a deadline pass. For a while requests for stored files do not wait for them again.
 * An origin that says no at once costs no time and is asked every time.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { originName } from './mirrors.ts'

/** Origins remembered: a client can ask for any name. */
const capacity = 1000

/** Time in which requests with a stored copy do not wait for such an origin. */
const memory: Milliseconds = 10_000

export class SlowOrigins {
  readonly #clock: Clock
  readonly #until = new LRUCache<string, Milliseconds>({ max: capacity })
  readonly #probed = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether stored answers should not wait for this origin. */
  has(uri: TargetUri): boolean {
    const origin = originName(uri)
    const until = this.#until.get(origin)
    if (until === undefined) return false
    if (until > this.#clock.elapsed()) return true
    this.#until.delete(origin)
    return false
  }

  note(uri: TargetUri): void {
    this.#until.set(originName(uri), this.#clock.elapsed() + memory)
  }

  forget(uri: TargetUri): void {
    this.#until.delete(originName(uri))
  }

  /** Undefined while a probe of this origin is under way; else what to call when the one that begins now is over. */
  beginProbe(uri: TargetUri): (() => void) | undefined {
    const origin = originName(uri)
    if (this.#probed.has(origin)) return undefined
    this.#probed.add(origin)
    return () => this.#probed.delete(origin)
  }
}
