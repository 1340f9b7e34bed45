/**
 * Asks origins by schedule about the Release files of suites that clients use, so that a new generation is adopted before a client
 * asks. It does so only when the setting `suites.refresh` switches it on.
 *
 * # Facts
 * - A refresh is the same update that the request of a client begins. It joins an update that is under way.
 * - Only elapsed time counts from one refresh to the next, so that setting the clock neither stops nor multiplies them.
 * - Each interval is longer by a random part, up to a tenth, so that many caches do not ask one archive in the same second.
 * - A refresh is no use of a file. The store notes a use when an entry is put, so the refresh restores the former last use.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import { repeat } from '../../../async/repeat.ts'
import { explainError } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { parentOf } from '../../archive/path.ts'
import type { Config } from '../../config/config.ts'
import type { RevalidationResult } from '../../fetch/revalidation.ts'
import { neverConfirmed } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import { keyIn, releasesOf } from '../../suites/generation.ts'
import type { Suite } from '../../suites/suite.ts'
import type { Suites } from '../../suites/suites.ts'
import type { Updates } from '../../suites/updates/updates.ts'
import type { TimesOfDay } from './settings.ts'

/** The result of a refresh: the origin has the same Release file, or a new one that clients get now, or the refresh has failed. */
export type RefreshResult = 'confirmed' | 'updated' | 'failed'

export interface RefreshParts {
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'get' | 'lastUsed' | 'touch'>
  readonly suites: Pick<Suites, 'all' | 'live'>
  readonly updates: Pick<Updates, 'governs' | 'refresh'>
  /** The settings of the refresh; undefined while no origin may be asked. */
  readonly settings: () => RefreshSettings | undefined
  readonly random: () => number
  /** Called once for each Release file. */
  readonly onEnd: (result: RefreshResult) => void
}

type RefreshSettings = Pick<Config['suites'], 'refresh' | 'refreshFor' | 'refreshBetween'>

/** The time between two looks for refreshes that are due. */
const betweenLooks: Milliseconds = 60_000

/** The longest time for which the next refresh waits for one. The slow one continues. */
const longestWait: Milliseconds = 30_000

/** The greatest random part of an interval, as a share of it. */
const spread = 0.1

export class RefreshSchedule {
  readonly #parts: RefreshParts
  /** The moments when the next refreshes of the Release files of a suite are due, by their keys and by `elapsed`. */
  readonly #due = new WeakMap<Suite, Map<string, Milliseconds>>()
  readonly #stopLooking: () => void
  readonly #closing = new AbortController()
  #working: Promise<void> | undefined

  constructor(parts: RefreshParts) {
    this.#parts = parts
    this.#stopLooking = repeat(parts.clock, betweenLooks, () => this.#look())
  }

  /** Begins no further refreshes. Resolves without waiting for the end of the current one. */
  async close(): Promise<void> {
    this.#closing.abort()
    this.#stopLooking()
    await this.#working
  }

  #look(): Promise<void> | undefined {
    if (this.#wanted() === undefined) return undefined
    this.#working = this.#refreshAll()
    return this.#working
  }

  /** The settings; undefined when origins may not be asked now. */
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
    const late = pause(clock, longestWait, this.#closing.signal).then(() => undefined)
    const result = wordOf(await Promise.race([updates.refresh(entry), late]))
    store.touch(key, used)
    log.debug('refreshed a suite', { key, result })
    onEnd(result)
  }

  /** Whether the interval since the last question to the origin has passed. If so, the next interval begins. */
  #isDue(key: string, validated: Milliseconds, interval: Milliseconds): boolean {
    const { clock, random } = this.#parts
    const elapsed = clock.elapsed()
    const suite = this.#parts.suites.live.of(parentOf(key))
    const dueOf = this.#due.get(suite) ?? new Map<string, Milliseconds>()
    this.#due.set(suite, dueOf)
    const age = validated === neverConfirmed ? interval : clock.now() - validated
    // The age is negative after the clock was set back.
    const left = age < 0 ? interval : Math.max(0, interval - age)
    const due = dueOf.get(key)
    const longer = random() * spread * interval
    // The first look after a start begins an interval, and so does an answer of the origin to the request of a client.
    if (due === undefined || (elapsed >= due && age >= 0 && left > 0)) {
      dueOf.set(key, elapsed + left + longer)
      return false
    }
    // A moment that is further away belongs to a longer interval from before a reload.
    if (elapsed < due && due - elapsed <= interval * (1 + spread)) return false
    dueOf.set(key, elapsed + interval + longer)
    return true
  }
}

/** The word for the result of an update. An update that takes too long has none. */
function wordOf(result: RevalidationResult | undefined): RefreshResult {
  if (result?.use !== 'store') return 'failed'
  return result.because === 'changed' ? 'updated' : 'confirmed'
}

/** Whether a moment lies between two times of the day, by the local time of the machine. The times can span midnight. */
export function isWithin(moment: Milliseconds, { from, until }: TimesOfDay): boolean {
  const date = new Date(moment)
  const minute = date.getHours() * 60 + date.getMinutes()
  return from < until ? minute >= from && minute < until : minute >= from || minute < until
}
