/**
 * Waits for one promise after another until an end comes. Promise.race with a promise that stays pending keeps the values of
 * all races in memory until it settles: the blocks of a whole download. An End keeps only the wait that is under way.
 */
export class End {
  #come = false
  #wake: () => void = () => {}

  /** Ends it: the waiting caller and all later callers get undefined. */
  readonly come = (): void => {
    this.#come = true
    this.#wake()
  }

  /** What `work` settles with, or undefined when the end comes first. One wait at a time. */
  before<T>(work: Promise<T>): Promise<T | undefined> {
    if (this.#come) {
      work.catch(() => undefined)
      return Promise.resolve(undefined)
    }
    return new Promise<T | undefined>((resolve, reject) => {
      this.#wake = () => resolve(undefined)
      work.then(resolve, reject)
    }).finally(() => {
      this.#wake = () => {}
    })
  }
}
