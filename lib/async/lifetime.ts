/**
 * How long an exchange with a client, or a fetch, lasts. Its owner calls `end` once, and that tells everyone who has asked.
 *
 * # Facts
 * - An AbortController with one listener costs as much as a twentieth of a small download. So the signal is made when it is first
 *   asked for: by what knows no other way to be told.
 */
export class Lifetime {
  #controller: AbortController | undefined
  #reason: Error | undefined
  #whenOver: Array<(reason: Error) => void> | undefined

  /** Ends when the signal fires. */
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

  /** Why it ended; undefined until then. */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Calls `act` once at the end, or now when it is over. It must not throw. */
  onceOver(act: (reason: Error) => void): void {
    if (this.#reason !== undefined) return act(this.#reason)
    this.#whenOver ??= []
    this.#whenOver.push(act)
  }

  /** `act`, given to `onceOver`, is not called: what lasts long does not keep what is over. */
  forget(act: (reason: Error) => void): void {
    const at = this.#whenOver?.indexOf(act) ?? -1
    if (at >= 0) this.#whenOver?.splice(at, 1)
  }

  /** Only the first call counts. */
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
