/**
 * Wakes all waiters when something has changed, so that each checks again.
 */
export class Change {
  #promise: Promise<void>
  #keep: () => void = () => undefined

  constructor() {
    this.#promise = this.#renew()
  }

  /** Kept at the next announcement. */
  wait(): Promise<void> {
    return this.#promise
  }

  announce(): void {
    const keep = this.#keep
    this.#promise = this.#renew()
    keep()
  }

  #renew(): Promise<void> {
    return new Promise(resolve => {
      this.#keep = resolve
    })
  }
}
