/**
 * Asks origins by schedule about the Release files of suites that clients use, so that a new generation is adopted before a client
 * comes. Off unless the setting `suites.refresh` says so.
 *
 * # Facts
 * - A refresh is the update that a client's question begins: one that is under way is joined.
 * - Only elapsed time counts from one refresh to the next: a clock that is set neither keeps origins waiting nor floods them.
 * - Each interval is longer by a random part, up to a tenth, so that many caches do not ask one archive in the same second.
 * - A refresh is no use of a file. The store counts one when an entry is put, so the last use is put back.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { repeat } from '../../async/repeat.ts'
import { explainError } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'
import type { Updates } from '../answer/suite-updates.ts'
import type { Config } from '../config/config.ts'
import type { TimesOfDay } from '../config/setting-kinds.ts'
import type { RevalidationResult } from '../fetch/revalidation.ts'
import { neverConfirmed } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { keyIn, releasesOf } from '../suites/generation.ts'
import type { Suites } from '../suites/suites.ts'

/** What came of a refresh: the origin has the same Release file, a new one that clients get now, or neither is known. */
export type RefreshResult = 'confirmed' | 'updated' | 'failed'

export interface RefreshParts {
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'get' | 'lastUsed' | 'touch'>
  readonly suites: Pick<Suites, 'all'>
  readonly updates: Pick<Updates, 'governs' | 'refresh'>
  /** Undefined while no origin may be asked. */
  readonly settings: () => RefreshSettings | undefined
  /** From 0 to 1. */
  readonly random: () => number
  /** Called once for each Release file. */
  readonly onEnd: (result: RefreshResult) => void
}

type RefreshSettings = Pick<Config['suites'], 'refresh' | 'refreshFor' | 'refreshBetween'>

/** How often it is looked whether a refresh is due. */
const betweenLooks: Milliseconds = 60_000

/** How long the next refresh waits for one. That one goes on. */
const longestWait: Milliseconds = 30_000

/** The part of the interval by which it is longer at most. */
const spread = 0.1

/** Release files of which the next refresh is remembered. */
const mostFiles = 4000

export class RefreshSchedule {
  readonly #parts: RefreshParts
  /** When the next refresh of a Release file is due, by `elapsed`. */
  readonly #due = recentEntries<string, Milliseconds>(mostFiles)
  readonly #stopLooking: () => void
  readonly #closing = new AbortController()
  #working: Promise<void> | undefined

  constructor(parts: RefreshParts) {
    this.#parts = parts
    this.#stopLooking = repeat(parts.clock, betweenLooks, () => this.#look())
  }

  /** Begins no more; resolves when it waits for none any more. */
  async close(): Promise<void> {
    this.#closing.abort()
    this.#stopLooking()
    await this.#working
  }

  #look(): Promise<void> | undefined {
    if (this.#wanted() === undefined) return undefined
    this.#working = this.#refreshAll().finally(() => {
      this.#working = undefined
    })
    return this.#working
  }

  /** The settings, when origins may be asked now. */
  #wanted(): RefreshSettings | undefined {
    const settings = this.#parts.settings()
    if (settings === undefined || settings.refresh === 0) return undefined
    const { refreshBetween } = settings
    const now = this.#parts.clock.now()
    return refreshBetween === undefined || isWithin(now, refreshBetween) ? settings : undefined
  }

  async #refreshAll(): Promise<void> {
    const { suites, log } = this.#parts
    for (const { at, generations } of suites.all) {
      const [adopted] = generations
      for (const { name } of adopted === undefined ? [] : releasesOf(adopted)) {
        const settings = this.#wanted()
        if (settings === undefined || this.#closing.signal.aborted) return
        const key = keyIn(at, name)
        if (key === undefined) continue
        try {
          await this.#refresh(key, settings)
        } catch (error) {
          log.warn('a suite could not be refreshed', { suite: at, because: explainError(error) })
        }
      }
    }
  }

  /** Refreshes a Release file if it is due. */
  async #refresh(key: string, settings: RefreshSettings): Promise<void> {
    const { clock, store, updates, log, onEnd } = this.#parts
    const entry = await store.get(key)
    const used = store.lastUsed(key)
    if (entry === undefined || used === undefined || !updates.governs(entry)) return
    if (clock.now() - used > settings.refreshFor) return
    if (!this.#isDue(key, entry.validated, settings.refresh)) return
    log.debug('asking the origin of a suite by schedule', { key })
    const result = await this.#inTime(updates.refresh(entry))
    store.touch(key, used)
    const word = result === undefined ? 'failed' : wordOf(result)
    log.debug('refreshed a suite', { key, result: word })
    onEnd(word)
  }

  /** Whether the interval has passed since the origin was asked; if so, the next one begins. */
  #isDue(key: string, validated: Milliseconds, interval: Milliseconds): boolean {
    const { clock, random } = this.#parts
    const elapsed = clock.elapsed()
    const age = validated === neverConfirmed ? interval : clock.now() - validated
    // A clock that was set back makes it negative.
    const left = age < 0 ? interval : Math.max(0, interval - age)
    const due = this.#due.get(key)
    const longer = random() * spread * interval
    // The first look after a start begins an interval, and so does an answer that the origin gave to a client meanwhile.
    if (due === undefined || (elapsed >= due && age >= 0 && left > 0)) {
      this.#due.set(key, elapsed + left + longer)
      return false
    }
    // A moment that is further away was set by a longer interval, before a reload.
    if (elapsed < due && due - elapsed <= interval * (1 + spread)) return false
    this.#due.set(key, elapsed + interval + longer)
    return true
  }

  /** Undefined when it takes too long, or the service stops. */
  #inTime(work: Promise<RevalidationResult>): Promise<RevalidationResult | undefined> {
    const { signal } = this.#closing
    const stopped = new Promise<undefined>(resolve => {
      if (signal.aborted) resolve(undefined)
      else signal.addEventListener('abort', () => resolve(undefined), { once: true })
    })
    return resultInTime(Promise.race([work, stopped]), this.#parts.clock, longestWait)
  }
}

function wordOf(result: RevalidationResult): RefreshResult {
  if (result.use !== 'store') return 'failed'
  return result.because === 'changed' ? 'updated' : 'confirmed'
}

/** Whether a moment lies between two times of the day, by the local time of the machine; from the evening to the morning, too. */
export function isWithin(moment: Milliseconds, { from, until }: TimesOfDay): boolean {
  const date = new Date(moment)
  const minute = date.getHours() * 60 + date.getMinutes()
  return from < until ? minute >= from && minute < until : minute >= from || minute < until
}
