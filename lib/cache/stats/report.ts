/**
 * The response of the statistics interface, and the figures that the pages derive from recorded days. This file is pure.
 */
import { day, hour, type Milliseconds } from '../../async/clock.ts'
import {
  type Counters,
  calendarDate,
  type Days,
  type History,
  type Hour,
  noCounters,
  noHour,
  noneUnanswered,
  outcomeNames,
  startOfHour,
  sum,
  type UnansweredCounts,
} from './statistics.ts'

/** The most days that `daily` lists. */
export const dailyLimit = 14

/** One recorded day; its date is written `YYYY-MM-DD`. */
type DayRecord = Counters & { readonly date: string }

/** The JSON of the statistics interface, with the same names. */
export interface StatisticsReport {
  /** The sums over all recorded days, listed or not. */
  readonly totals: Counters
  /** The most recent recorded days, newest first, at most `dailyLimit`. */
  readonly daily: readonly DayRecord[]
  /** The oldest recorded day; today when nothing has been recorded yet. */
  readonly oldest_day: string
}

/** The report over `days`. `today` is the oldest day while none is recorded. */
export function report(days: Days, today: string): StatisticsReport {
  const dates = [...days.keys()].sort().reverse()
  return {
    totals: [...days.values()].reduce(sum, noCounters),
    daily: dates.slice(0, dailyLimit).map(date => ({ date, ...(days.get(date) ?? noCounters) })),
    oldest_day: dates.at(-1) ?? today,
  }
}

const chartedDays = 75

/** The figures of the pages that the JSON does not have. */
export interface HistoryReport {
  /** Every day of the calendar up to today, at most `chartedDays`, with the oldest first. A day without traffic has figures of 0. */
  readonly days: ReadonlyArray<DayRecord & UnansweredCounts>
  /** The requests of today by hour; undefined when there were none. */
  readonly hours: HoursOfDay | undefined
  /** The current hour and the 23 before it, with the oldest first. An hour without traffic has figures of 0. */
  readonly lastDay: readonly Hour[]
  readonly problemsToday: number
  readonly unanswered: UnansweredCounts
}

/** The requests of one day, by outcome and by hour of the server's time zone. */
export type HoursOfDay = Readonly<Record<(typeof outcomeNames)[number], readonly number[]>>

export function historyReport(days: Days, history: History, now: Milliseconds): HistoryReport {
  const today = calendarDate(now)
  const { unanswered, hours } = history
  const [first = today] = [...days.keys(), ...unanswered.keys()].sort()
  const shown: Array<DayRecord & UnansweredCounts> = []
  for (let date = today; date >= first && shown.length < chartedDays; date = dayBefore(date)) {
    shown.unshift({
      date,
      ...(days.get(date) ?? noCounters),
      ...(unanswered.get(date) ?? noneUnanswered),
    })
  }
  return {
    days: shown,
    hours: hoursOfDay(hours, today),
    lastDay: lastDay(hours, now),
    problemsToday: hours
      .filter(({ from }) => calendarDate(from) === today)
      .reduce((all, { problems }) => all + problems, 0),
    unanswered: [...unanswered.values()].reduce(
      (all, one) => ({ refused: all.refused + one.refused, failed: all.failed + one.failed }),
      noneUnanswered,
    ),
  }
}

/** The requests of one day by hour; undefined when no request was counted on that day. */
export function hoursOfDay(hours: readonly Hour[], date: string): HoursOfDay | undefined {
  const those = hours.filter(
    one => calendarDate(one.from) === date && outcomeNames.some(name => one[name] > 0),
  )
  if (those.length === 0) return undefined
  const of = (name: (typeof outcomeNames)[number]): readonly number[] => {
    const counts = new Array<number>(24).fill(0)
    for (const one of those) {
      const at = new Date(one.from).getHours()
      counts[at] = (counts[at] ?? 0) + one[name]
    }
    return counts
  }
  const [hits, misses, tunnel] = [of('hits'), of('misses'), of('tunnel')]
  return { hits, misses, tunnel, refused: of('refused'), failed: of('failed') }
}

function lastDay(hours: readonly Hour[], now: Milliseconds): readonly Hour[] {
  const running = startOfHour(now)
  return Array.from({ length: 24 }, (_, i) => {
    const from = running - (23 - i) * hour
    return hours.find(one => one.from >= from && one.from < from + hour) ?? { from, ...noHour }
  })
}

function dayBefore(date: string): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) - day).toISOString().slice(0, 10)
}

/** The hits per request, from 0 to 1; 0 when there were no requests. */
export function hitRate(counters: Pick<Counters, 'requests' | 'hits'>): number {
  return counters.requests === 0 ? 0 : counters.hits / counters.requests
}

/** An estimate of the bytes that clients got and no origin had to send. It is never negative. */
export function trafficSaved(counters: Pick<Counters, 'traffic_up' | 'traffic_down'>): number {
  return Math.max(0, counters.traffic_up - counters.traffic_down)
}
