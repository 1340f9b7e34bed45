/**
 * The statistics page: the report in words, figures and two charts. Pure.
 */
import type { View } from '../../template.ts'
import type { Counters } from '../stats/counters.ts'
import { type DayRecord, hitRate, type StatisticsReport, trafficSaved } from '../stats/report.ts'
import { binaryTicks, type ChartView, decimalTicks, groupedChart, stackedChart } from './chart.ts'
import { count, countOf, percent, shortCount, shortSize, size } from './figures.ts'

export function statsView(report: StatisticsReport): View {
  const { totals, daily } = report
  const saved = trafficSaved(totals)
  return {
    since: report.oldest_day,
    recorded: daily.length > 0,
    period:
      daily.length === 1
        ? 'The only day with traffic so far'
        : `The last ${countOf(daily.length, 'day')} with traffic`,
    hitRate: percent(hitRate(totals)),
    requests: count(totals.requests),
    hits: count(totals.hits),
    misses: count(totals.misses),
    tunnels: count(totals.tunnel),
    up: sizeView(totals.traffic_up),
    down: sizeView(totals.traffic_down),
    tunnelled: sizeView(totals.tunnel_transfer),
    saved: sizeView(saved),
    savedShare: percent(totals.traffic_up === 0 ? 0 : saved / totals.traffic_up),
    rows: daily.map(rowView),
    charts: daily.length > 0 ? [requestsChart(daily), trafficChart(daily)] : [],
  }
}

function rowView(day: DayRecord): View {
  return {
    date: day.date,
    requests: count(day.requests),
    hits: count(day.hits),
    misses: count(day.misses),
    tunnels: count(day.tunnel),
    rate: percent(hitRate(day)),
    up: sizeView(day.traffic_up),
    down: sizeView(day.traffic_down),
    tunnelled: sizeView(day.tunnel_transfer),
  }
}

function sizeView(bytes: number): View {
  return { size: size(bytes), bytes: count(bytes), plain: bytes.toFixed(0) }
}

function requestsChart(daily: readonly DayRecord[]): ChartView {
  const days = [...daily].reverse()
  const highest = Math.max(...days.map(day => day.requests))
  const data = {
    id: 'requests-chart',
    title: 'Requests a day',
    description: `Bars for ${countOf(days.length, 'day')}, each made of hits, misses and tunnels. The busiest day had ${countOf(highest, 'request')}. The table below has every figure.`,
    dates: days.map(day => day.date),
    words: count,
    axis: shortCount,
    series: [
      { name: 'hits', colour: 'hits', values: of(days, 'hits') },
      { name: 'misses', colour: 'misses', values: of(days, 'misses') },
      { name: 'tunnels', colour: 'tunnel', values: of(days, 'tunnel') },
    ],
  } as const
  return stackedChart(data, decimalTicks(highest))
}

function trafficChart(daily: readonly DayRecord[]): ChartView {
  const days = [...daily].reverse()
  const up = of(days, 'traffic_up')
  const down = of(days, 'traffic_down')
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

function of(days: readonly DayRecord[], counter: keyof Counters): readonly number[] {
  return days.map(day => day[counter])
}
