/**
 * The values of the statistics page: the report in words, figures and two charts. Pure.
 */
import type { View } from '../../template.ts'
import type { Counters } from '../stats/counters.ts'
import { type DayRecord, hitRate, type StatisticsReport, trafficSaved } from '../stats/report.ts'
import { binaryTicks, type ChartView, decimalTicks, groupedChart, stackedChart } from './chart.ts'
import { count, countOf, percent, shortCount, shortSize, size, sizeView } from './figures.ts'

export function statsView({ totals, daily, oldest_day: since }: StatisticsReport): View {
  const saved = trafficSaved(totals)
  const days = [...daily].reverse()
  return {
    since,
    period:
      days.length === 1
        ? 'The only day with traffic so far'
        : `The last ${countOf(days.length, 'day')} with traffic`,
    ...countersView(totals),
    saved: sizeView(saved),
    savedShare: percent(totals.traffic_up === 0 ? 0 : saved / totals.traffic_up),
    rows: daily.map(day => ({ date: day.date, ...countersView(day) })),
    charts: days.length > 0 ? [requestsChart(days), trafficChart(days)] : [],
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

function requestsChart(days: readonly DayRecord[]): ChartView {
  const of = (counter: keyof Counters) => days.map(day => day[counter])
  const highest = Math.max(...of('requests'))
  const data = {
    id: 'requests-chart',
    title: 'Requests a day',
    description: `Bars for ${countOf(days.length, 'day')}, each made of hits, misses and tunnels. The busiest day had ${countOf(highest, 'request')}. The table below has every figure.`,
    dates: days.map(day => day.date),
    words: count,
    axis: shortCount,
    series: [
      { name: 'hits', colour: 'hits', values: of('hits') },
      { name: 'misses', colour: 'misses', values: of('misses') },
      { name: 'tunnels', colour: 'tunnel', values: of('tunnel') },
    ],
  } as const
  return stackedChart(data, decimalTicks(highest))
}

function trafficChart(days: readonly DayRecord[]): ChartView {
  const up = days.map(day => day.traffic_up)
  const down = days.map(day => day.traffic_down)
  const highest = Math.max(...up, ...down)
  const data = {
    id: 'traffic-chart',
    title: 'Traffic a day',
    description: `Two bars for each of ${countOf(days.length, 'day')}: what clients got, and what had to be fetched for them. The highest is ${size(highest)}. The table below has every figure.`,
    dates: days.map(day => day.date),
    words: size,
    axis: shortSize,
    series: [
      { name: 'to clients', colour: 'hits', values: up },
      { name: 'from origins', colour: 'misses', values: down },
    ],
  } as const
  return groupedChart(data, binaryTicks(highest))
}
