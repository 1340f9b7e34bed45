/**
 * Runs actions under the same name one after another, and under different names at the same time.
 */
export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** Runs `action` when every earlier one under `name` is over, however it ended. Its result or error is the caller's. */
  async take<Result>(name: string, action: () => Promise<Result>): Promise<Result> {
    const turn = (this.#last.get(name) ?? Promise.resolve()).then(action)
    const over = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#last.set(name, over)
    try {
      return await turn
    } finally {
      if (this.#last.get(name) === over) this.#last.delete(name)
    }
  }
}
