/**
 * Counts what is stored of each archive, and finds the largest files. It walks through all entries, so it does so when asked and
 * at most once a minute.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { inTime } from '../../async/deadline.ts'
import type { Listed } from '../store/catalogue/catalogue.ts'
import type { ReadableStore } from '../store/reading.ts'

/** The stored files of one archive. */
interface Holding {
  /** Host, and port if it is not the default. */
  readonly name: string
  files: number
  /** Contents that several files share count for each. */
  bytes: number
}

/** What is stored, as it was counted last. */
export interface Counted {
  /** By bytes, most first. */
  readonly archives: readonly Holding[]
  /** A few files, the largest first. */
  readonly largest: readonly Listed[]
}

const goodFor: Milliseconds = 60_000
/** How long a page waits for a count; it goes on, for the next one. */
const patience: Milliseconds = 2000
/** Archives with figures of their own. */
const mostNames = 1000
const others = 'others'
const mostLargest = 10

export class Holdings {
  readonly #store: Pick<ReadableStore, 'list'>
  readonly #clock: Clock
  #last: { readonly counted: Counted; readonly at: Milliseconds } | undefined
  #running: Promise<void> | undefined

  constructor(store: Pick<ReadableStore, 'list'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Undefined while the first count goes on. */
  async counted(): Promise<Counted | undefined> {
    const age = this.#clock.elapsed() - (this.#last?.at ?? 0)
    if (this.#last === undefined || age >= goodFor) {
      this.#running ??= this.#count().finally(() => {
        this.#running = undefined
      })
      await inTime(this.#running, this.#clock, patience)
    }
    return this.#last?.counted
  }

  async #count(): Promise<void> {
    const all = new Map<string, Holding>()
    let largest: readonly Listed[] = []
    for await (const some of this.#store.list()) {
      const least = largest[mostLargest - 1]?.size ?? -1
      largest = [...largest, ...some.filter(({ size }) => size > least)]
        .sort((a, b) => b.size - a.size)
        .slice(0, mostLargest)
      for (const { key, size } of some) {
        const [, found = ''] = /^https?:\/\/([^/]+)/.exec(key) ?? []
        const name = all.has(found) || all.size < mostNames ? found : others
        const holding = all.get(name) ?? { name, files: 0, bytes: 0 }
        holding.files += 1
        holding.bytes += size
        all.set(name, holding)
      }
    }
    const archives = [...all.values()].sort((a, b) => b.bytes - a.bytes || b.files - a.files)
    this.#last = { counted: { archives, largest }, at: this.#clock.elapsed() }
  }
}
