/**
 * Waiting for one thing after another while an end may come. Promise.race against a promise that outlives the others keeps
 * the value of every race there ever was, since each hangs on it until it settles: a gigabyte, block by block. Nothing hangs
 * on an End but the wait that is under way.
 */
export class End {
  #come = false
  #wake: () => void = () => {}

  /** It has come: who waits gets undefined, and so do all later callers. */
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
