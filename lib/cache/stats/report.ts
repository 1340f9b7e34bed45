/**
 * The statistics response, and the figures the pages derive from it. Pure: recorded days in, values out.
 */
import { type Counters, type Days, noCounters, sum } from './counters.ts'

/** The most days `daily` ever lists. */
export const dailyLimit = 14

/** One recorded day; its date is written `YYYY-MM-DD`. */
export type DayRecord = Counters & { readonly date: string }

/** The JSON of the statistics interface, name for name. */
export interface StatisticsReport {
  /** Over all recorded days, listed or not. */
  readonly totals: Counters
  /** The most recent recorded days, newest first, at most `dailyLimit`. */
  readonly daily: readonly DayRecord[]
  /** The oldest recorded day; today when nothing has been recorded yet. */
  readonly oldest_day: string
}

/** The report over `days`; `today` is the oldest day as long as none is recorded. */
export function report(days: Days, today: string): StatisticsReport {
  const dates = [...days.keys()].sort().reverse()
  return {
    totals: [...days.values()].reduce(sum, noCounters),
    daily: dates.slice(0, dailyLimit).map(date => ({ date, ...(days.get(date) ?? noCounters) })),
    oldest_day: dates.at(-1) ?? today,
  }
}

/** Hits per request, 0 to 1; 0 when there were no requests. */
export function hitRate(counters: Counters): number {
  return counters.requests === 0 ? 0 : counters.hits / counters.requests
}

/** Bytes clients got that no origin had to send, estimated: never less than 0. */
export function trafficSaved(counters: Counters): number {
  return Math.max(0, counters.traffic_up - counters.traffic_down)
}
