/**
 * How logins and logouts ended, counted by code. The codes are ours, a closed set, so the map stays small.
 */
export class Outcomes {
  readonly #counts = new Map<string, number>()

  /** Counts one. */
  count(code: string): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1)
  }

  /** Counts so far. */
  read(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts)
  }
}
