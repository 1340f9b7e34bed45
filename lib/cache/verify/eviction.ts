/**
 * Removing what was found wrong. The store has one writer: beside a daemon it is the daemon that removes, asked over its
 * control socket, and so knows at once that what it has in memory is gone; without one, the directory's lock is taken for as
 * long as the removal takes.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { explainError, Failure } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { askOwner } from '../cli/admin-socket.ts'
import { isDigest } from '../store/disk/layout.ts'
import { openStore, type Store } from '../store/store.ts'
import { type Wrong, warningWords } from './report.ts'

/** What became of a wrong file. */
export type Fate =
  | { readonly evicted: true }
  | { readonly evicted: false; readonly because: string }

/** Removes a wrong file from a store of this process and logs it. Never throws. */
export async function evictFrom(
  store: Pick<Store, 'evict'>,
  { key, digest, because, sentence, according }: Wrong,
  log: Logger,
): Promise<Fate> {
  let fate: Fate
  try {
    const gone = await store.evict(key, { digest, content: because === 'content' })
    fate = gone ? { evicted: true } : { evicted: false, because: 'it was replaced meanwhile' }
  } catch (error) {
    fate = { evicted: false, because: explainError(error) }
  }
  const kept = fate.evicted ? {} : { kept: fate.because }
  const facts = { key, digest, because, sentence, according, evicted: fate.evicted, ...kept }
  log.warn(warningWords, facts)
  return fate
}

/** The request by which a command asks the owner to remove a file. */
export interface EvictRequest {
  readonly do: 'evict'
  readonly wrong: Wrong
}

/** What is asked for, when it is well-formed. */
export function readEvictRequest(request: unknown): Wrong | undefined {
  if (!isRecord(request) || request['do'] !== 'evict' || !isRecord(request['wrong']))
    return undefined
  const { key, digest, because, sentence, according } = request['wrong']
  if (typeof key !== 'string' || typeof digest !== 'string' || !isDigest(digest)) return undefined
  if (typeof sentence !== 'string' || !isBecause(because)) return undefined
  const said = typeof according === 'string' ? { according } : {}
  return { key, digest, because, sentence, ...said }
}

export interface EvictorOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
}

/** Removes wrong files for a process that does not own the directory. */
export class Evictor {
  readonly fates = new Map<Wrong, Fate>()
  readonly #options: EvictorOptions
  #waiting: Wrong[] = []
  #working: Promise<void> | undefined

  constructor(options: EvictorOptions) {
    this.#options = options
  }

  /** Begins to remove it. */
  evict(wrong: Wrong): void {
    this.#waiting.push(wrong)
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
  }

  /** Kept when everything has its fate. */
  async finished(): Promise<void> {
    while (this.#working !== undefined) await this.#working
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      await this.#evictAll(batch).catch(error => {
        for (const wrong of batch) {
          if (!this.fates.has(wrong)) {
            this.fates.set(wrong, { evicted: false, because: explainError(error) })
          }
        }
      })
    }
  }

  async #evictAll(batch: readonly Wrong[]): Promise<void> {
    for (let trial = 1; ; trial += 1) {
      const left = await this.#byOwner(batch.filter(wrong => !this.fates.has(wrong)))
      if (left.length === 0) return
      try {
        await this.#byOurselves(left)
        return
      } catch (error) {
        // An owner came between the two: it will soon listen.
        if (!(error instanceof Failure) || error.code !== 'directory-in-use' || trial === trials) {
          throw error
        }
        // Not by the clock, whose timers let the process end.
        await new Promise(resolve => setTimeout(resolve, pause))
      }
    }
  }

  /** Asks the owner. Answers what is left when there is none. */
  async #byOwner(batch: readonly Wrong[]): Promise<readonly Wrong[]> {
    const { directory, clock } = this.#options
    for (const [i, wrong] of batch.entries()) {
      const request: EvictRequest = { do: 'evict', wrong }
      const reply = await askOwner(directory, request, clock)
      if (reply === undefined) return batch.slice(i)
      this.fates.set(wrong, readFate(reply.answer))
    }
    return []
  }

  async #byOurselves(batch: readonly Wrong[]): Promise<void> {
    const store = await openStore({ ...this.#options, memory: 0 })
    try {
      for (const wrong of batch) {
        this.fates.set(wrong, await evictFrom(store, wrong, this.#options.log))
      }
    } finally {
      await store.close()
    }
  }
}

const trials = 4
const pause: Milliseconds = 250

function readFate(answer: unknown): Fate {
  if (isRecord(answer)) {
    if (answer['evicted'] === true) return { evicted: true }
    if (typeof answer['because'] === 'string') {
      return { evicted: false, because: answer['because'] }
    }
  }
  return { evicted: false, because: 'the owner of the directory does not know how' }
}

const reasons = ['content', 'release', 'index', 'stale-index', 'package', 'by-hash'] as const

function isBecause(value: unknown): value is Wrong['because'] {
  return reasons.some(reason => reason === value)
}
