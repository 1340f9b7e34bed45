/**
 * Removes stored files that were found wrong. The store has one writer. While a daemon runs, it removes the files, asked over
 * its admin socket, together with its copies in memory. Without a daemon the command takes the directory's lock during the
 * removal.
 */

import { askOwner } from '../../admin-socket.ts'
import type { Milliseconds } from '../../async/clock.ts'
import { explainError, Failure } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { isDigest } from '../store/disk/layout.ts'
import { openStore, type Store } from '../store/store.ts'
import type { StoreOptions } from '../store/wiring.ts'
import { isWrongBecause, type Wrong, warningWords } from './report.ts'

/** What became of a wrong file. */
export type Fate =
  | { readonly evicted: true }
  | { readonly evicted: false; readonly because: string }

/** Removes a wrong file from a store of this process and logs it. Never throws. */
export async function evictFrom(
  store: Pick<Store, 'evict'>,
  wrong: Wrong,
  log: Logger,
): Promise<Fate> {
  const { key, digest, because } = wrong
  const fate = await store.evict(key, { digest, content: because === 'content' }).then(
    gone => (gone ? { evicted: true as const } : kept('it was replaced meanwhile')),
    (error: unknown) => kept(explainError(error)),
  )
  log.warn(warningWords, { ...wrong, ...fateFacts(fate) })
  return fate
}

/** What became of a file, for logs and reports. */
export function fateFacts(fate: Fate): { readonly evicted: boolean; readonly kept?: string } {
  return fate.evicted ? { evicted: true } : { evicted: false, kept: fate.because }
}

function kept(because: string): Fate {
  return { evicted: false, because }
}

/** The request `{ do: 'evict', wrong }` by which a command asks the owner to remove a file; undefined when it is malformed. */
export function readEvictRequest(request: unknown): Wrong | undefined {
  if (!isRecord(request) || request['do'] !== 'evict') return undefined
  const { wrong } = request
  if (!isRecord(wrong)) return undefined
  const { key, digest, because, sentence, according } = wrong
  if (typeof key !== 'string' || typeof digest !== 'string' || !isDigest(digest)) return undefined
  if (typeof sentence !== 'string' || !isWrongBecause(because)) return undefined
  return { key, digest, because, sentence, ...(typeof according === 'string' && { according }) }
}

/** How often an owner that came between the question and the lock is waited for. */
const trials = 4
const pause: Milliseconds = 250

type EvictorOptions = Pick<StoreOptions, 'directory' | 'clock' | 'log'>

/** Removes wrong files for a process that does not own the directory. */
export class Evictor {
  readonly #options: EvictorOptions
  readonly #fates = new Map<string, Fate>()
  readonly #waiting: Wrong[] = []
  #working: Promise<void> | undefined

  constructor(options: EvictorOptions) {
    this.#options = options
  }

  evict(wrong: Wrong): void {
    this.#waiting.push(wrong)
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
  }

  /** Resolves when every file has its fate. */
  async finished(): Promise<void> {
    while (this.#working !== undefined) await this.#working
  }

  /** What became of a wrong file; undefined for one this was not asked to remove. */
  fateOf(wrong: Wrong): Fate | undefined {
    return this.#fates.get(idOf(wrong))
  }

  async #work(): Promise<void> {
    let trial = 1
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      try {
        const { directory, clock } = this.#options
        const reply = await askOwner(directory, { do: 'evict', wrong: next }, clock)
        if (reply === undefined) await this.#evictWaiting()
        else this.#settle(readFate(reply.answer))
        trial = 1
      } catch (error) {
        const owned = error instanceof Failure && error.code === 'directory-in-use'
        if (owned && trial < trials) {
          // An owner took the lock after it was asked: it will soon listen. The timers of the clock would let the process end.
          await new Promise(resolve => setTimeout(resolve, pause))
          trial += 1
        } else while (this.#waiting.length > 0) this.#settle(kept(explainError(error)))
      }
    }
  }

  async #evictWaiting(): Promise<void> {
    const store = await openStore({ ...this.#options, memory: 0 })
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        this.#settle(await evictFrom(store, next, this.#options.log))
      }
    } finally {
      await store.close()
    }
  }

  /** The fate of the file that has waited longest. */
  #settle(fate: Fate): void {
    const wrong = this.#waiting.shift()
    if (wrong !== undefined) this.#fates.set(idOf(wrong), fate)
  }
}

function idOf({ key, digest }: Wrong): string {
  return `${key} ${digest}`
}

function readFate(answer: unknown): Fate {
  const { evicted, because } = isRecord(answer) ? answer : {}
  if (evicted === true) return { evicted }
  return kept(typeof because === 'string' ? because : 'the owner of the directory cannot do that')
}
