/**
 * The values of the statistics page: the report in words, figures and charts. Pure.
 */
import type { View } from '../../../template.ts'
import { count, countOf, percent, shortCount, shortSize, size, sizeView } from '../../figures.ts'
import {
  type HistoryReport,
  hitRate,
  type StatisticsReport,
  trafficSaved,
} from '../../stats/report.ts'
import type { Counters, Hours, outcomeNames } from '../../stats/statistics.ts'
import {
  binaryTicks,
  type ChartView,
  dayPlaces,
  decimalTicks,
  groupedChart,
  hourPlaces,
  lineChart,
  stackedChart,
} from './chart.ts'

export function statsView(
  { totals, daily, oldest_day: since }: StatisticsReport,
  { days, hours, unanswered }: HistoryReport,
): View {
  const saved = trafficSaved(totals)
  return {
    since,
    period:
      daily.length === 1
        ? 'The only day with traffic so far'
        : `The last ${countOf(daily.length, 'day')} with traffic`,
    ...countersView(totals),
    refused: count(unanswered.refused),
    failed: count(unanswered.failed),
    saved: sizeView(saved),
    savedShare: percent(totals.traffic_up === 0 ? 0 : saved / totals.traffic_up),
    rows: daily.map(day => {
      const { refused = 0, failed = 0 } = days.find(({ date }) => date === day.date) ?? {}
      return {
        date: day.date,
        ...countersView(day),
        ...{ refused: count(refused), failed: count(failed) },
      }
    }),
    charts: [
      ...(hours === undefined ? [] : [hoursChart(hours)]),
      ...(days.some(({ requests }) => requests > 0)
        ? [hitRateChart(days), requestsChart(days), trafficChart(days)]
        : []),
    ],
  }
}

type Day = HistoryReport['days'][number]

function countersView(counters: Counters): View {
  return {
    rate: percent(hitRate(counters)),
    requests: count(counters.requests),
    hits: count(counters.hits),
    misses: count(counters.misses),
    tunnels: count(counters.tunnel),
    up: sizeView(counters.traffic_up),
    down: sizeView(counters.traffic_down),
    tunnelled: sizeView(counters.tunnel_transfer),
  }
}

/** Requests by what became of them, each with its colour: the parts of a stacked bar. */
function outcomes(of: (name: (typeof outcomeNames)[number]) => readonly number[]) {
  return [
    { name: 'hits', colour: 'hits', values: of('hits') },
    { name: 'misses', colour: 'misses', values: of('misses') },
    { name: 'tunnels', colour: 'tunnel', values: of('tunnel') },
    { name: 'refused', colour: 'refused', values: of('refused') },
    { name: 'failed', colour: 'failed', values: of('failed') },
  ] as const
}

/** The highest bar. */
function highestOf(series: ReturnType<typeof outcomes>): number {
  const bars = series[0].values.map((_, i) =>
    series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0),
  )
  return Math.max(0, ...bars)
}

function hoursChart(hours: Hours['counts']): ChartView {
  const series = outcomes(name => hours[name])
  const highest = highestOf(series)
  const data = {
    id: 'hours-chart',
    title: 'Requests today, by hour',
    description: `Bars for the 24 hours of today, each made of hits, misses, tunnels, refused and failed requests. The busiest hour had ${countOf(highest, 'request')}.`,
    places: hourPlaces(),
    ...{ words: count, axis: shortCount, series },
  }
  return stackedChart(data, decimalTicks(highest))
}

function hitRateChart(days: readonly Day[]): ChartView {
  const rates = days.map(day => (day.requests === 0 ? undefined : hitRate(day)))
  const known = rates.filter(rate => rate !== undefined)
  const range = `from ${percent(Math.min(...known))} to ${percent(Math.max(...known))}`
  const data = {
    id: 'rate-chart',
    title: 'Hit rate a day',
    description: `A line over ${countOf(days.length, 'day')}, ${range}. Days without requests are gaps.`,
    places: dayPlaces(days.map(day => day.date)),
    words: percent,
    axis: percent,
    series: [{ name: 'hit rate', colour: 'hits', values: rates }],
  } as const
  return lineChart(data, [0, 0.25, 0.5, 0.75, 1])
}

function requestsChart(days: readonly Day[]): ChartView {
  const series = outcomes(name => days.map(day => day[name]))
  const highest = highestOf(series)
  const data = {
    id: 'requests-chart',
    title: 'Requests a day',
    description: `Bars for ${countOf(days.length, 'day')}, each made of hits, misses, tunnels, refused and failed requests. The busiest day had ${countOf(highest, 'request')}.`,
    places: dayPlaces(days.map(day => day.date)),
    ...{ words: count, axis: shortCount, series },
  }
  return stackedChart(data, decimalTicks(highest))
}

function trafficChart(days: readonly Day[]): ChartView {
  const up = days.map(day => day.traffic_up)
  const down = days.map(day => day.traffic_down)
  const highest = Math.max(...up, ...down)
  const data = {
    id: 'traffic-chart',
    title: 'Traffic a day',
    description: `Two bars for each of ${countOf(days.length, 'day')}: what clients got, and what had to be fetched for them. The highest is ${size(highest)}.`,
    places: dayPlaces(days.map(day => day.date)),
    words: size,
    axis: shortSize,
    series: [
      { name: 'to clients', colour: 'hits', values: up },
      { name: 'from origins', colour: 'misses', values: down },
    ],
  } as const
  return groupedChart(data, binaryTicks(highest))
}
