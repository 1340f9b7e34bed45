/**
 * Removes stored files that were found wrong. The store has one writer. While a daemon runs, the command asks it over the admin socket,
 * and the daemon removes the files and its copies in memory. Without a daemon the command takes the lock of the directory during the
 * removal.
 */

import { askOwner, wholeDirectory } from '../../../admin-socket.ts'
import { keepAlive, type Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import { explainError, Failure } from '../../../errors.ts'
import { isRecord } from '../../../json.ts'
import type { Logger } from '../../../log/log.ts'
import { isDigest } from '../../store/disk/disk.ts'
import { diskProblem, mustBeOwner } from '../../store/disk/health.ts'
import { openStore, type Store } from '../../store/store.ts'
import type { StoreOptions } from '../../store/wiring.ts'
import { isWrongBecause, type WrongFile, warningWords } from './report.ts'

/** The fate of a wrong file: it was removed, or the reason why not. */
export type Fate =
  | { readonly evicted: true }
  | { readonly evicted: false; readonly because: string }

/** Removes a wrong file from a store of this process and logs it. Never throws. */
export async function evictFrom(
  store: Pick<Store, 'evict'>,
  wrong: WrongFile,
  log: Logger,
): Promise<Fate> {
  const { key, digest, because } = wrong
  const fate = await store.evict(key, { digest, content: because === 'content' }).then(
    gone => (gone ? { evicted: true as const } : kept('it was replaced meanwhile')),
    (error: unknown) => kept(diskProblem(error)),
  )
  log.warn(warningWords, { ...wrong, ...fateFacts(fate) })
  return fate
}

/** The fate of a file as facts for logs and reports. */
export function fateFacts(fate: Fate): { readonly evicted: boolean; readonly kept?: string } {
  return fate.evicted ? { evicted: true } : { evicted: false, kept: fate.because }
}

function kept(because: string): Fate {
  return { evicted: false, because }
}

/** Decodes the request `{ do: 'evict', wrong }` of a command to the owner of the directory; undefined when it is malformed. */
export function readEvictRequest(request: unknown): WrongFile | undefined {
  if (!isRecord(request) || request['do'] !== 'evict') return undefined
  const { wrong } = request
  if (!isRecord(wrong)) return undefined
  const { key, digest, because, sentence, according } = wrong
  if (typeof key !== 'string' || typeof digest !== 'string' || !isDigest(digest)) return undefined
  if (typeof sentence !== 'string' || !isWrongBecause(because)) return undefined
  return { key, digest, because, sentence, ...(typeof according === 'string' && { according }) }
}

/** The number of trials when another process takes the lock after it did not answer the request, and the time between them. */
const trials = 4
const betweenTrials: Milliseconds = 250

type EvictorOptions = Pick<StoreOptions, 'directory' | 'clock' | 'log'>

/** Removes wrong files for a process that does not own the directory. */
export class Evictor {
  readonly #options: EvictorOptions
  readonly #waiting: { readonly wrong: WrongFile; readonly settle: (fate: Fate) => void }[] = []
  #working = false

  constructor(options: EvictorOptions) {
    this.#options = options
  }

  /** Removes a file after the earlier ones. Answers its fate. */
  evict(wrong: WrongFile): Promise<Fate> {
    return new Promise(settle => {
      this.#waiting.push({ wrong, settle })
      if (!this.#working) void this.#work()
    })
  }

  async #work(): Promise<void> {
    this.#working = true
    for (let trial = 1; this.#waiting[0] !== undefined; ) {
      try {
        const { directory, clock } = this.#options
        const request = { do: 'evict', wrong: this.#waiting[0].wrong }
        const reply = await askOwner({ directory, lock: wholeDirectory }, request, clock)
        if (reply === undefined) await this.#evictWaiting()
        else this.#waiting.shift()?.settle(readFate(reply.answer))
        trial = 1
      } catch (error) {
        const owned = error instanceof Failure && error.code === 'directory-in-use'
        if (owned && trial < trials) {
          // A process has taken the lock after the request and will soon answer requests.
          await keepAlive(pause(this.#options.clock, betweenTrials))
          trial += 1
        } else for (const { settle } of this.#waiting.splice(0)) settle(kept(explainError(error)))
      }
    }
    this.#working = false
  }

  async #evictWaiting(): Promise<void> {
    await mustBeOwner(this.#options.directory)
    const store = await openStore({ ...this.#options, memory: 0 })
    const settled: (() => void)[] = []
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const { settle, wrong } = next
      const fate = await evictFrom(store, wrong, this.#options.log)
      settled.push(() => settle(fate))
    }
    // The fates are settled after the lock is released, because a caller may need the lock next.
    await store.close().finally(() => {
      for (const settle of settled) settle()
    })
  }
}

function readFate(answer: unknown): Fate {
  const { evicted, because } = isRecord(answer) ? answer : {}
  if (evicted === true) return { evicted }
  return kept(typeof because === 'string' ? because : 'the owner of the directory cannot do that')
}
