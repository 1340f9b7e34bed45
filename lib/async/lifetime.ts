/**
 * The lifetime of an exchange with a client, or of a fetch. Its owner calls `end` once, and that calls all functions given to `onceOver`.
 *
 * # Facts
 * - An AbortController with one listener costs a twentieth of a small download. So the signal is made on first use, for callers that cannot
 *   use `onceOver`.
 */
export class Lifetime {
  #controller: AbortController | undefined
  #reason: Error | undefined
  #whenOver: Array<(reason: Error) => void> | undefined

  static until(signal: AbortSignal): Lifetime {
    const lifetime = new Lifetime()
    const end = (): void => lifetime.end(asError(signal.reason))
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
    return lifetime
  }

  /** Fires at the end, with its reason. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    return this.#controller.signal
  }

  get over(): boolean {
    return this.#reason !== undefined
  }

  get reason(): Error | undefined {
    return this.#reason
  }

  /** Calls `act` once at the end, or now when that has passed. `act` must not throw. */
  onceOver(act: (reason: Error) => void): void {
    if (this.#reason !== undefined) return act(this.#reason)
    this.#whenOver ??= []
    this.#whenOver.push(act)
  }

  /** Ensures that `act`, given to `onceOver`, is not called, so that a long lifetime does not keep objects of the past in memory. */
  forget(act: (reason: Error) => void): void {
    const at = this.#whenOver?.indexOf(act) ?? -1
    if (at >= 0) this.#whenOver?.splice(at, 1)
  }

  /** Ends the lifetime. Only the first call counts. */
  end(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    const acts = this.#whenOver ?? []
    this.#whenOver = undefined
    for (const act of acts) act(reason)
    this.#controller?.abort(reason)
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
