/**
 * Something stored that must be asked about. The client waits for the origin's word no longer than the budget; then, and
 * when the origin fails, it gets the stored copy, and the answer says so. An origin that says the file is gone, or refuses
 * it, is believed; one that is ill (5xx, 408, 429, nonsense) is not.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { isAnswer } from '../answer/errors.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { Answered, Fetching, Filling, Found } from './found.ts'

export type Revalidated =
  | { readonly use: 'store'; readonly entry: Entry; readonly because: 'validated' }
  | { readonly use: 'stale'; readonly because: StaleReason }
  | { readonly use: 'changed'; readonly entry: Entry }
  | { readonly use: 'filling'; readonly filling: Filling }
  /** The content came and was not stored; it must be fetched once more. */
  | { readonly use: 'again' }
  | ({ readonly use: 'answer' } & Omit<Answered, 'kind'>)

/** What to answer for `stored`, given the fetch that asks the origin about it. Never rejects. */
export async function revalidate(
  stored: Entry,
  fetching: Fetching,
  budget: { clock: Clock; wait: Milliseconds },
): Promise<Revalidated> {
  const patience = new Patience(budget.clock, budget.wait)
  try {
    const found = await patience.orLose(fetching.found)
    return found === 'lost'
      ? { use: 'stale', because: 'stale-origin-slow' }
      : await judge(stored, found, patience)
  } finally {
    patience.end()
  }
}

async function judge(stored: Entry, found: Found, patience: Patience): Promise<Revalidated> {
  switch (found.kind) {
    case 'validated':
      return { use: 'store', entry: found.entry, because: 'validated' }
    case 'failed':
      return { use: 'stale', because: 'stale-origin-failed' }
    case 'answered':
      return isIllness(found)
        ? { use: 'stale', because: 'stale-origin-failed' }
        : { ...found, use: 'answer' }
    case 'filling': {
      // From an origin without validators a 200 may be the same bytes again, which the client may have: wait and see.
      const { filling } = found
      if (filling.changed || !filling.download.stored) return { use: 'filling', filling }
      const settled = await patience.orLose(filling.settled)
      if (settled === 'lost') return { use: 'filling', filling }
      if (settled.kind === 'failed') {
        return { use: 'stale', because: 'stale-origin-failed' }
      }
      if (settled.kind === 'passed') return { use: 'again' }
      const { entry } = settled
      return entry.digest === stored.digest
        ? { use: 'store', entry, because: 'validated' }
        : { use: 'changed', entry }
    }
  }
}

/** Whether an answer speaks of an origin that is ill, so that a stored copy is the better answer. */
export function isIllness(found: Pick<Answered, 'status' | 'fields'>): boolean {
  return !isAnswer(found) || found.status === 408 || found.status === 429
}

/** Whether the origin declares that there is no such file, now and until it says otherwise. */
export function isGone(status: number): boolean {
  return status === 404 || status === 410
}

/** One deadline over several waits. */
class Patience {
  readonly #lost: Promise<'lost'>
  readonly #cancel: () => void

  constructor(clock: Clock, wait: Milliseconds) {
    let lose: () => void = () => undefined
    this.#lost = new Promise(resolve => {
      lose = () => resolve('lost')
    })
    this.#cancel = clock.after(wait, lose)
  }

  orLose<Result>(promise: Promise<Result>): Promise<Result | 'lost'> {
    return Promise.race([promise, this.#lost])
  }

  end(): void {
    this.#cancel()
  }
}
