/**
 * Counts in the background how many packages a waiting generation changes, and remembers the counts for the pages.
 */
import type { Clock } from '../../async/clock.ts'
import { answerOfThread } from '../../async/thread.ts'
import { explainError } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import { longestJob } from '../suites/thread.ts'
import type { ChangeCount, Comparison } from './changes.ts'

interface ChangeCountsParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
}

/** Two generations that are compared, with the files that clients use. `name` identifies the pair. */
type CountTask = Omit<Comparison, 'cacheDirectory'> & { readonly name: string }

const mostCounts = 1000
const heapMegabytes = 512

export class ChangeCounts {
  readonly #parts: ChangeCountsParts
  readonly #counts = recentEntries<string, ChangeCount | 'unknown'>(mostCounts)
  readonly #closing = new AbortController()
  #working: Promise<void> | undefined

  constructor(parts: ChangeCountsParts) {
    this.#parts = parts
  }

  /** The count; undefined until it is known. A call begins it, unless another count is under way. */
  of(counting: CountTask): ChangeCount | 'unknown' | undefined {
    const known = this.#counts.get(counting.name)
    if (known === undefined && !this.#closing.signal.aborted) {
      this.#working ??= this.#count(counting).finally(() => {
        this.#working = undefined
      })
    }
    return known
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the service stops'))
    await this.#working
  }

  async #count({ name, before, after }: CountTask): Promise<void> {
    const { clock, log, cacheDirectory } = this.#parts
    const { signal } = this.#closing
    const program = new URL('./changes.js', import.meta.url)
    const task: Comparison = { cacheDirectory, before, after }
    const thread = { task, heapMegabytes, signal }
    try {
      const limit = { clock, longest: longestJob }
      const count = await answerOfThread<ChangeCount>(program, thread, limit)
      this.#counts.set(name, count)
    } catch (error) {
      if (signal.aborted) return
      this.#counts.set(name, 'unknown')
      log.warn('changes of a suite could not be counted', { because: explainError(error) })
    }
  }
}
