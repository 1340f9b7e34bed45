/**
 * Removes stored files that were found wrong. The store has one writer. While a daemon runs, it removes the files, asked over
 * its admin socket, together with its copies in memory. Without a daemon the command takes the directory's lock during the
 * removal.
 */

import { askOwner, wholeDirectory } from '../../admin-socket.ts'
import { keepAlive, type Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'
import { explainError, Failure } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { isDigest } from '../store/disk/disk.ts'
import { diskProblem } from '../store/disk/health.ts'
import { mustBeOwner } from '../store/owner.ts'
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
    (error: unknown) => kept(diskProblem(error)),
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
const betweenTrials: Milliseconds = 250

type EvictorOptions = Pick<StoreOptions, 'directory' | 'clock' | 'log'>

/** Removes wrong files for a process that does not own the directory. */
export class Evictor {
  readonly #options: EvictorOptions
  readonly #waiting: { readonly wrong: Wrong; readonly settle: (fate: Fate) => void }[] = []
  #working = false

  constructor(options: EvictorOptions) {
    this.#options = options
  }

  /** Removes a file as soon as those before it are; answers what became of it. */
  evict(wrong: Wrong): Promise<Fate> {
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
          // An owner took the lock after it was asked: it will soon listen.
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
    // A caller that waits for the fate of a file may need the lock next.
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
