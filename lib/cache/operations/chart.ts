/**
 * Bar charts over days as geometry: rectangles, lines and words with their places, which a template turns into SVG.
 * Pure. Lengths are units of the drawing, whose height is 220 and width 400.
 */

/** One kind of bar. */
export interface Series {
  /** In the legend and in the words on each bar. */
  readonly name: string
  /** The style sheet's name for its colour. */
  readonly colour: 'hits' | 'misses' | 'tunnel'
  /** One value for each day. */
  readonly values: readonly number[]
}

export interface ChartData {
  /** Makes the drawing's ids unique on its page. */
  readonly id: string
  readonly title: string
  readonly description: string
  /** `YYYY-MM-DD`, oldest first. */
  readonly dates: readonly string[]
  readonly series: readonly Series[]
  /** A value in words. */
  readonly words: (value: number) => string
  /** A value in as few characters as an axis has room for: seven. */
  readonly axis: (value: number) => string
}

/** What templates/operations/chart.mustache is filled with. */
export type ChartView = ReturnType<typeof chart>

const left = 58
const right = 396
const top = 10
const bottom = 178
/** The part of a day's place its bars take. */
const fill = 0.72
/** The widest place one day gets, when there are few. */
const widest = 44

/** Bars of one day stand on one another: the parts of a whole. */
export function stackedChart(data: ChartData, ticks: readonly number[]): ChartView {
  return chart(data, ticks, 1)
}

/** Bars of one day stand side by side: things to compare. */
export function groupedChart(data: ChartData, ticks: readonly number[]): ChartView {
  return chart(data, ticks, data.series.length)
}

/** `columns`: in how many bars side by side the series of a day are drawn, one or as many as there are series. */
function chart(data: ChartData, ticks: readonly number[], columns: number) {
  const { id, title, description, dates, series } = data
  const highest = ticks.at(-1) ?? 1
  const height = (value: number) => (value / highest) * (bottom - top)
  const step = (right - left) / Math.max(1, dates.length)
  const width = Math.min(widest, step * fill)
  const barsOf = (date: string, day: number) => {
    let below = 0
    return series.map(({ name, colour, values }, i) => {
      const value = values[day] ?? 0
      below = columns === 1 ? below + value : value
      const column = columns === 1 ? 0 : i
      return {
        value,
        colour,
        x: round(left + (day + 0.5) * step - width / 2 + column * (width / columns)),
        y: round(bottom - height(below)),
        width: round(width / columns),
        height: round(Math.max(0.75, height(value))),
        words: `${date}, ${name}: ${data.words(value)}`,
      }
    })
  }
  return {
    id,
    title,
    description,
    legend: series.map(({ name, colour }) => ({ name, colour })),
    lines: ticks.map(tick => {
      const y = bottom - height(tick)
      return { y: round(y), textY: round(y + 4), label: data.axis(tick) }
    }),
    days: dates.map((date, i) => ({
      x: round(left + (i + 0.5) * step),
      day: String(Number(date.slice(8))),
      month: date.slice(0, 7) === dates[i - 1]?.slice(0, 7) ? '' : monthOf(date),
    })),
    bars: dates.flatMap(barsOf).filter(({ value }) => value > 0),
  }
}

/** Even steps from 0 to at least `highest`, at 1, 2 or 5 times a power of ten. */
export function decimalTicks(highest: number): readonly number[] {
  const rough = Math.max(1, highest / 4)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough) ?? rough
  return steps(step, highest)
}

/** Even steps from 0 to at least `highest`, at powers of two, so that sizes come out in whole binary units. */
export function binaryTicks(highest: number): readonly number[] {
  return steps(2 ** Math.ceil(Math.log2(Math.max(256, highest / 4))), highest)
}

function steps(step: number, highest: number): readonly number[] {
  const amount = Math.max(1, Math.ceil(highest / step))
  return Array.from({ length: amount + 1 }, (_, i) => i * step)
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

function monthOf(date: string): string {
  return months[Number(date.slice(5, 7)) - 1] ?? ''
}

function round(length: number): string {
  return String(Math.round(length * 100) / 100)
}
