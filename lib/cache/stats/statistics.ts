/**
 * Counts requests and traffic by calendar day, and those of the last 24 hours by hour. It knows the clock, not files or responses.
 *
 * # Facts
 * - The number of requests is always hits + misses + tunnel. Refused and failed requests are counted separately. Requests for pages of
 *   the operations interface are not counted.
 * - A hit is a request answered with stored content: fresh, revalidated (a 304 from the origin) or stale.
 * - traffic_up has the bytes that clients got, traffic_down those that origins sent. Content that is fetched once for several clients
 *   counts once in traffic_down, and for each of them in traffic_up.
 * - Bytes of tunnels, in both directions together, are in tunnel_transfer only. The cache cannot save them, so the estimate of saved
 *   traffic must not count them.
 * - A day is a calendar day of the server's time zone (TZ). A transfer counts on the day on which it ends.
 */
import { type Clock, hour, type Milliseconds } from '../../async/clock.ts'

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

/** Counters by date, `YYYY-MM-DD`, in no particular order. */
export type Days = ReadonlyMap<string, Counters>

/** The requests that the policy refused, and those that failed here or at an origin. */
export interface UnansweredCounts {
  readonly refused: number
  readonly failed: number
}

export const noneUnanswered: UnansweredCounts = { refused: 0, failed: 0 }

/** The outcomes of requests that the hours count. */
export const outcomeNames = ['hits', 'misses', 'tunnel', 'refused', 'failed'] as const

/** The counters of an hour: requests by outcome, bytes as a day counts them, and problems as the overview shows them. */
export const hourNames = [...outcomeNames, 'traffic_down', 'traffic_up', 'problems'] as const

export type HourCounters = Readonly<Record<(typeof hourNames)[number], number>>

/** An hour of the server's time zone. `from` is the moment at which it began. */
export interface Hour extends HourCounters {
  readonly from: Milliseconds
}

/** The counts that the statistics interface does not have. */
export interface History {
  readonly unanswered: ReadonlyMap<string, UnansweredCounts>
  /** The hours with requests among the last 25, with the oldest first. A day on which clocks are set back has 25 hours. */
  readonly hours: readonly Hour[]
}

export const noHistory: History = { unanswered: new Map(), hours: [] }

export const noHour: HourCounters = zeros(hourNames)

export const noCounters: Counters = zeros(counterNames)

function zeros<Name extends string>(names: readonly Name[]) {
  return Object.fromEntries(names.map(name => [name, 0])) as Record<Name, number>
}

export class Statistics {
  readonly #clock: Clock
  readonly #days: Map<string, Counters>
  #day: { readonly date: string; readonly counters: Mutable } = { date: '', counters: noCounters }
  readonly #unanswered: Map<string, UnansweredCounts>
  #hours: readonly MutableHour[]
  #hour: MutableHour | undefined
  #changes = 0
  /** The date and the hour of the last count. They are kept because every request needs them. */
  #now = { date: '', from: 0, until: 0 }

  constructor(clock: Clock, recorded: Days = new Map(), history: History = noHistory) {
    this.#clock = clock
    this.#days = new Map(recorded)
    this.#unanswered = new Map(history.unanswered)
    this.#hours = history.hours.map(one => ({ ...one }))
  }

  /** Counts a request that was answered from the store. `up` is the number of bytes of content that its client got. */
  hit(up: number): void {
    this.#count('hits', up)
  }

  /** Counts a request that was answered from the origin. `fetched` counts the bytes that the origin sent. */
  miss(up: number): void {
    this.#count('misses', up)
  }

  tunnel(): void {
    this.#count('tunnel', 0)
  }

  /** Counts bytes that were fetched from an origin, for any number of clients. */
  fetched(down: number): void {
    this.#changed().traffic_down += down
    this.#changedHour().traffic_down += down
  }

  /** Counts the bytes that a tunnel carried since the last call, in both directions together. */
  tunnelBytes(bytes: number): void {
    this.#changed().tunnel_transfer += bytes
  }

  /** Counts a request that was refused or failed. No other counter counts it, except `problem`. */
  unanswered(how: keyof UnansweredCounts): void {
    const { today } = this
    const before = this.#unanswered.get(today) ?? noneUnanswered
    this.#unanswered.set(today, { ...before, [how]: before[how] + 1 })
    this.#changes += 1
    this.#changedHour()[how] += 1
  }

  /** Counts a request that is among the problems of the overview. Another counter counts it as well. */
  problem(): void {
    this.#current()
    this.#changes += 1
    this.#changedHour().problems += 1
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

  #count(outcome: 'hits' | 'misses' | 'tunnel', up: number): void {
    const day = this.#changed()
    const hour = this.#changedHour()
    day.requests += 1
    day[outcome] += 1
    day.traffic_up += up
    hour[outcome] += 1
    hour.traffic_up += up
  }

  #current() {
    const now = this.#clock.now()
    // The moment is outside of the hour when the hour has ended or the clock was set.
    if (now < this.#now.from || now >= this.#now.until) {
      const from = startOfHour(now)
      this.#now = { date: calendarDate(now), from, until: from + hour }
    }
    return this.#now
  }

  /** The counters of the hour that `#current` has found, which the caller changes. */
  #changedHour(): MutableHour {
    const { from } = this.#now
    if (this.#hour?.from === from) return this.#hour
    // Hours in the future were counted before the clock was set back.
    const earlier = this.#hours.filter(one => one.from > from - keptHours && one.from < from)
    this.#hour = this.#hours.find(one => one.from === from) ?? { from, ...noHour }
    this.#hours = [...earlier, this.#hour]
    return this.#hour
  }

  /** The number of changes so far, by which a writer sees whether it has written the latest. */
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

type MutableHour = Record<keyof HourCounters, number> & Pick<Hour, 'from'>

const keptHours: Milliseconds = 25 * hour

/** The sums of two records of counters. */
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

/** The moment at which the hour of a moment began in the server's time zone, which can differ from UTC by half an hour. */
export function startOfHour(moment: Milliseconds): Milliseconds {
  const local = moment - new Date(moment).getTimezoneOffset() * 60_000
  return moment - (((local % hour) + hour) % hour)
}
