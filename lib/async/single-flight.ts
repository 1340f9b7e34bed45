/**
 * Runs a task once for all callers that want the same result at the same time.
 */
export class SingleFlight<Result> {
  readonly #flights = new Map<string, Promise<Result>>()

  /** Joins the running task under `key`, or starts one. All callers share its result or its error. A call after that starts a new task. */
  run(key: string, start: () => Promise<Result>): Promise<Result> {
    const flying = this.#flights.get(key)
    if (flying !== undefined) return flying
    const flight = start().finally(() => this.#flights.delete(key))
    this.#flights.set(key, flight)
    return flight
  }

  get size(): number {
    return this.#flights.size
  }
}
