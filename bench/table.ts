/**
 * Figures as a Markdown table: median of the repeats with the least and the most, and what the first proxy is to the best of
 * the others.
 */
import type { ProxyName } from '../test/fixtures/proxy-process.ts'
import type { Figures, Scenario } from './scenarios.ts'

export interface Measured {
  readonly scenario: string
  readonly proxy: ProxyName
  /** Empty when the measurement failed. */
  readonly figures: Figures
}

/** One table for one scenario; a proxy a column. */
export function table(
  scenario: Scenario,
  proxies: readonly ProxyName[],
  measured: readonly Measured[],
): string {
  const rows = Object.entries(scenario.units).map(([unit, better]) => {
    const columns = proxies.map(proxy =>
      measured
        .filter(one => one.proxy === proxy)
        .map(one => one.figures[unit])
        .filter(value => value !== undefined)
        .sort((a, b) => a - b),
    )
    return [unit, ...columns.map(cell), ratio(columns, better)]
  })
  const head = ['', ...proxies, `${proxies[0]} : best other`]
  const all = [head, head.map(() => '---'), ...rows]
  const widths = head.map((_, i) => Math.max(...all.map(row => row[i]?.length ?? 0)))
  const lines = all.map(
    row => `| ${row.map((text, i) => text.padEnd(widths[i] ?? 0)).join(' | ')} |`,
  )
  return `\n### ${scenario.title}\n\n${lines.join('\n')}\n`
}

function cell(values: readonly number[]): string {
  if (values.length === 0) return 'failed'
  return `${short(median(values))} (${short(values[0] ?? 0)} to ${short(values.at(-1) ?? 0)})`
}

/** Above 1 the first is better than the best of the others. */
function ratio(columns: readonly (readonly number[])[], better: 'more' | 'less'): string {
  const [own, ...others] = columns.map(values => (values.length === 0 ? undefined : median(values)))
  const rivals = others.filter(value => value !== undefined)
  if (own === undefined || rivals.length === 0) return ''
  if (better === 'more') return (own / Math.max(...rivals)).toFixed(2)
  return own === 0 ? '' : (Math.min(...rivals) / own).toFixed(2)
}

/** Of sorted values: the one in the middle, or half-way between the two. */
function median(values: readonly number[]): number {
  const middle = (values.length - 1) / 2
  return ((values[Math.floor(middle)] ?? 0) + (values[Math.ceil(middle)] ?? 0)) / 2
}

function short(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toPrecision(2)
}
