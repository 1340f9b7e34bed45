/**
 * Runs actions under the same key one after another, and under different keys at the same time.
 */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `action` when every earlier one under `key` has ended, with success or not. The caller gets its result or error. */
  async run<Result>(key: string, action: () => Promise<Result>): Promise<Result> {
    const turn = (this.#last.get(key) ?? Promise.resolve()).then(action)
    const over = turn.catch(() => undefined)
    this.#last.set(key, over)
    try {
      return await turn
    } finally {
      if (this.#last.get(key) === over) this.#last.delete(key)
    }
  }
}
