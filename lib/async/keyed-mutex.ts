/**
 * Runs actions under the same key one after another, and under different keys at the same time.
 */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `action` when every earlier one under `key` is over, however it ended. Its result or error is the caller's. */
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
