/**
 * Counts requests and traffic by calendar day, and the requests of today by hour. Knows the clock, not files or responses.
 *
 * # Facts
 * - requests = hits + misses + tunnel, always. Refused and failed requests are counted apart, pages of the operations interface
 *   not at all.
 * - A hit is a request answered with stored content: fresh, revalidated (a 304 from the origin) or stale.
 * - traffic_up is what clients really got, traffic_down what origins really sent: what is fetched once for several clients
 *   counts once in traffic_down, and for each of them in traffic_up.
 * - Bytes of tunnels, both ways together, are in tunnel_transfer alone: the cache has no part in them, and the estimate of
 *   traffic saved must not count them.
 * - A day is a calendar day of the server's time zone (TZ). A transfer counts on the day on which it ends.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** The names are those of the statistics interface; the byte counters are plain bytes. */
export const counterNames = [
  'requests',
  'hits',
  'misses',
  'tunnel',
  'traffic_down',
  'traffic_up',
  'tunnel_transfer',
] as const

export type Counters = Readonly<Record<(typeof counterNames)[number], number>>

/** Counters by date, `YYYY-MM-DD`, in no order. */
export type Days = ReadonlyMap<string, Counters>

/** Requests that were not answered as asked: those the policy refused, and those that failed here or at an origin. */
export interface Unanswered {
  readonly refused: number
  readonly failed: number
}

export const noneUnanswered: Unanswered = { refused: 0, failed: 0 }

/** What can become of a request, as the hours count it. */
export const outcomeNames = ['hits', 'misses', 'tunnel', 'refused', 'failed'] as const

/** Requests of one day, by outcome and hour of the server's time zone. */
export interface Hours {
  readonly date: string
  readonly counts: Readonly<Record<(typeof outcomeNames)[number], readonly number[]>>
}

/** What is kept beside the counters of the statistics interface. */
export interface History {
  readonly unanswered: ReadonlyMap<string, Unanswered>
  /** Of the last day with requests; undefined before the first. */
  readonly hours: Hours | undefined
}

export const noHistory: History = { unanswered: new Map(), hours: undefined }

export const noCounters: Counters = {
  requests: 0,
  hits: 0,
  misses: 0,
  tunnel: 0,
  traffic_down: 0,
  traffic_up: 0,
  tunnel_transfer: 0,
}

export class Statistics {
  readonly #clock: Clock
  readonly #days: Map<string, Counters>
  /** The counters of the day of the last count. */
  #day: { readonly date: string; readonly counters: Mutable } = { date: '', counters: noCounters }
  readonly #unanswered: Map<string, Unanswered>
  #hours: { readonly date: string; readonly counts: Record<Outcome, number[]> } | undefined
  #changes = 0
  /** The hour of the last count, kept because it is asked for with every request. */
  #now = { date: '', hour: 0, from: 0, until: 0 }

  constructor(clock: Clock, recorded: Days = new Map(), history: History = noHistory) {
    this.#clock = clock
    this.#days = new Map(recorded)
    this.#unanswered = new Map(history.unanswered)
    const { date = '', counts } = history.hours ?? {}
    this.#hours = counts && { date, counts: mapOutcomes(name => [...counts[name]]) }
  }

  /** A request answered from the store, with the bytes of content its client got. */
  hit(up: number): void {
    const day = this.#changed()
    day.requests += 1
    day.hits += 1
    day.traffic_up += up
    this.#count('hits')
  }

  /** A request answered from the origin: the bytes its client got, and those fetched for it that `fetched` is not told of. */
  miss(bytes: { readonly down: number; readonly up: number }): void {
    const day = this.#changed()
    day.requests += 1
    day.misses += 1
    day.traffic_down += bytes.down
    day.traffic_up += bytes.up
    this.#count('misses')
  }

  /** Bytes fetched from an origin, for one client, several or none. */
  fetched(down: number): void {
    this.#changed().traffic_down += down
  }

  tunnel(): void {
    const day = this.#changed()
    day.requests += 1
    day.tunnel += 1
    this.#count('tunnel')
  }

  /** Bytes a tunnel carried since the last call, both ways together. */
  tunnelBytes(bytes: number): void {
    this.#changed().tunnel_transfer += bytes
  }

  /** A request that was refused or failed. It is in none of the other counters. */
  unanswered(how: keyof Unanswered): void {
    const { today } = this
    const before = this.#unanswered.get(today) ?? noneUnanswered
    this.#unanswered.set(today, { ...before, [how]: before[how] + 1 })
    this.#changes += 1
    this.#count(how)
  }

  get days(): Days {
    return this.#days
  }

  get history(): History {
    return { unanswered: this.#unanswered, hours: this.#hours }
  }

  get today(): string {
    return this.#current().date
  }

  #current() {
    const now = this.#clock.now()
    // A clock that was set anew falls outside of the hour.
    if (now < this.#now.from || now >= this.#now.until) {
      const hour = new Date(now).getHours()
      const until = new Date(now).setHours(hour + 1, 0, 0, 0)
      this.#now = { date: calendarDate(now), hour, from: now, until }
    }
    return this.#now
  }

  /** Counts it for the hour that `#current` has found. */
  #count(outcome: Outcome): void {
    const { date, hour } = this.#now
    if (this.#hours?.date !== date) {
      this.#hours = { date, counts: mapOutcomes(() => new Array<number>(24).fill(0)) }
    }
    const counts = this.#hours.counts[outcome]
    counts[hour] = (counts[hour] ?? 0) + 1
  }

  /** Grows with every change, so that a writer sees whether it has written the latest. */
  get changes(): number {
    return this.#changes
  }

  /** The counters of today, which the caller changes. */
  #changed(): Mutable {
    const { today } = this
    if (this.#day.date !== today) {
      const counters = { ...(this.#days.get(today) ?? noCounters) }
      this.#day = { date: today, counters }
      this.#days.set(today, counters)
    }
    this.#changes += 1
    return this.#day.counters
  }
}

type Mutable = Record<keyof Counters, number>

type Outcome = (typeof outcomeNames)[number]

function mapOutcomes<T>(of: (name: Outcome) => T): Record<Outcome, T> {
  return {
    ...{ hits: of('hits'), misses: of('misses'), tunnel: of('tunnel') },
    ...{ refused: of('refused'), failed: of('failed') },
  }
}

/** Both together. */
export function sum(a: Counters, b: Counters): Counters {
  const total = { ...a }
  for (const name of counterNames) total[name] += b[name]
  return total
}

/** The calendar day of a moment in the server's time zone, `YYYY-MM-DD`. */
export function calendarDate(moment: Milliseconds): string {
  const date = new Date(moment)
  const year = String(date.getFullYear()).padStart(4, '0')
  const month = String(date.getMonth() + 1).padStart(2, '0')
  const day = String(date.getDate()).padStart(2, '0')
  return `${year}-${month}-${day}`
}
