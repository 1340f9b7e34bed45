/**
 * Runs a task once for all callers that want the same result at the same time.
 */
export class SingleFlight<Result> {
  readonly #flights = new Map<string, Promise<Result>>()

  /**
   * Joins the running task under `key`, or starts one. All callers share its result or its error. A call after that starts a new task. The
   * task can ask whether it still is the one under its key; it may do so only after it has waited.
   */
  run(key: string, start: (isCurrent: () => boolean) => Promise<Result>): Promise<Result> {
    const flying = this.#flights.get(key)
    if (flying !== undefined) return flying
    const isCurrent = (): boolean => this.#flights.get(key) === flight
    const flight: Promise<Result> = start(isCurrent).finally(() => {
      if (isCurrent()) this.#flights.delete(key)
    })
    this.#flights.set(key, flight)
    return flight
  }

  /** No further caller joins the running task under `key`. Those that have joined get its result. */
  forget(key: string): void {
    this.#flights.delete(key)
  }

  get size(): number {
    return this.#flights.size
  }
}
