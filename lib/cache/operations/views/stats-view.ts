/**
 * The values of the statistics page: the report in words, figures and charts. This file is pure.
 */

import { count, countOf, percent, shortCount, shortSize, size, sizeView } from '../../../figures.ts'
import type { View } from '../../../template.ts'
import {
  type HistoryReport,
  type HoursOfDay,
  hitRate,
  type StatisticsReport,
  trafficSaved,
} from '../../stats/report.ts'
import type { Counters, outcomeNames } from '../../stats/statistics.ts'
import {
  binaryTicks,
  type ChartData,
  type ChartView,
  chart,
  dayPlaces,
  decimalTicks,
  hourPlaces,
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
        refused: count(refused),
        failed: count(failed),
      }
    }),
    charts: [...(hours === undefined ? [] : [hoursChart(hours)]), ...dayCharts(days)],
  }
}

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

/** A chart with a bar of requests for each `unit`. The parts of a bar are the outcomes. */
function outcomesChart(
  about: Pick<ChartData, 'id' | 'title' | 'places'> & {
    readonly of: string
    readonly unit: string
  },
  of: (name: (typeof outcomeNames)[number]) => readonly number[],
): ChartView {
  const series = [
    { name: 'hits', colour: 'hits', values: of('hits') },
    { name: 'misses', colour: 'misses', values: of('misses') },
    { name: 'tunnels', colour: 'tunnel', values: of('tunnel') },
    { name: 'refused', colour: 'refused', values: of('refused') },
    { name: 'failed', colour: 'failed', values: of('failed') },
  ] as const
  const sums = series[0].values.map((_, i) =>
    series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0),
  )
  const highest = Math.max(0, ...sums)
  const description = `Bars for ${about.of}, each made of hits, misses, tunnels, refused and failed requests. The busiest ${about.unit} had ${countOf(highest, 'request')}.`
  const data = { ...about, description, words: count, axis: shortCount, series }
  return chart('stacked', data, decimalTicks(highest))
}

function hoursChart(hours: HoursOfDay): ChartView {
  const about = { id: 'hours-chart', title: 'Requests today, by hour', places: hourPlaces() }
  const unit = 'hour'
  return outcomesChart({ ...about, of: 'the 24 hours of today', unit }, name => hours[name])
}

function dayCharts(days: HistoryReport['days']): readonly ChartView[] {
  if (!days.some(({ requests }) => requests > 0)) return []
  const places = dayPlaces(days.map(day => day.date))
  const all = countOf(days.length, 'day')
  const rates = days.map(day => (day.requests === 0 ? undefined : hitRate(day)))
  const known = rates.filter(rate => rate !== undefined)
  const range = `from ${percent(Math.min(...known))} to ${percent(Math.max(...known))}`
  const up = days.map(day => day.traffic_up)
  const down = days.map(day => day.traffic_down)
  const highest = Math.max(...up, ...down)
  const rate = {
    id: 'rate-chart',
    title: 'Hit rate a day',
    description: `A line over ${all}, ${range}. Days without requests are gaps.`,
    places,
    words: percent,
    axis: percent,
    series: [{ name: 'hit rate', colour: 'hits', values: rates }],
  } as const
  const requests = { id: 'requests-chart', title: 'Requests a day', places, of: all, unit: 'day' }
  const traffic = {
    id: 'traffic-chart',
    title: 'Traffic a day',
    description: `Two bars for each of ${all}: what clients got, and what had to be fetched for them. The highest is ${size(highest)}.`,
    places,
    words: size,
    axis: shortSize,
    series: [
      { name: 'to clients', colour: 'hits', values: up },
      { name: 'from origins', colour: 'misses', values: down },
    ],
  } as const
  return [
    chart('line', rate, [0, 0.25, 0.5, 0.75, 1]),
    outcomesChart(requests, name => days.map(day => day[name])),
    chart('grouped', traffic, binaryTicks(highest)),
  ]
}
