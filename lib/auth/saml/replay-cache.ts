/**
 * The replay cache of IDs that must not be used again: of requests, assertions and logout messages. In memory and bounded; each
 * ID is kept until the checks of times refuse its message anyway.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** An ID costs some 200 bytes. Only verified messages get this far, so strangers cannot fill it. */
const MOST = 100_000

export class ReplayCache {
  readonly #clock: Clock
  readonly #until = new Map<string, Milliseconds>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Uses all of `ids` up, or none when one of them has been used before; in one step, so that of several requests at the same
   * time only one succeeds. False also when the cache is full: a login is refused rather than taken twice.
   */
  consume(ids: readonly string[], until: Milliseconds): boolean {
    const now = this.#clock.now()
    if (ids.some(id => (this.#until.get(id) ?? Number.NEGATIVE_INFINITY) > now)) return false
    if (this.#until.size + ids.length > MOST) this.#sweep(now)
    if (this.#until.size + ids.length > MOST) return false
    for (const id of ids) this.#until.set(id, until)
    return true
  }

  #sweep(now: Milliseconds): void {
    for (const [id, until] of this.#until) if (until <= now) this.#until.delete(id)
  }
}
