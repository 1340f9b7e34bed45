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

interface Bar {
  readonly colour: string
  readonly x: string
  readonly y: string
  readonly width: string
  readonly height: string
  readonly words: string
}

/** What templates/operations/chart.mustache is filled with. */
export interface ChartView {
  readonly id: string
  readonly title: string
  readonly description: string
  readonly legend: ReadonlyArray<{ readonly name: string; readonly colour: string }>
  readonly lines: ReadonlyArray<{
    readonly y: string
    readonly textY: string
    readonly label: string
  }>
  readonly days: ReadonlyArray<{ readonly x: string; readonly day: string; readonly month: string }>
  readonly bars: readonly Bar[]
}

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
  return chart(data, ticks, (day, place) => {
    let below = 0
    return data.series.map(series => {
      const value = series.values[day] ?? 0
      below += value
      return { series, value, top: below, x: place.x, width: place.width }
    })
  })
}

/** Bars of one day stand side by side: things to compare. */
export function groupedChart(data: ChartData, ticks: readonly number[]): ChartView {
  return chart(data, ticks, (day, place) => {
    const width = place.width / data.series.length
    return data.series.map((series, i) => {
      const value = series.values[day] ?? 0
      return { series, value, top: value, x: place.x + i * width, width }
    })
  })
}

interface Placed {
  readonly series: Series
  readonly value: number
  /** Value at which the bar ends. */
  readonly top: number
  readonly x: number
  readonly width: number
}

function chart(
  data: ChartData,
  ticks: readonly number[],
  place: (day: number, room: { readonly x: number; readonly width: number }) => readonly Placed[],
): ChartView {
  const highest = ticks.at(-1) ?? 1
  const height = (value: number) => (value / highest) * (bottom - top)
  const step = (right - left) / Math.max(1, data.dates.length)
  const bars = data.dates.flatMap((date, day) => {
    const width = Math.min(widest, step * fill)
    const room = { x: left + (day + 0.5) * step - width / 2, width }
    return place(day, room)
      .filter(bar => bar.value > 0)
      .map(bar => ({
        colour: bar.series.colour,
        x: round(bar.x),
        y: round(bottom - height(bar.top)),
        width: round(bar.width),
        height: round(Math.max(0.75, height(bar.value))),
        words: `${date}, ${bar.series.name}: ${data.words(bar.value)}`,
      }))
  })
  return {
    id: data.id,
    title: data.title,
    description: data.description,
    legend: data.series.map(({ name, colour }) => ({ name, colour })),
    lines: ticks.map(tick => {
      const y = bottom - height(tick)
      return { y: round(y), textY: round(y + 4), label: data.axis(tick) }
    }),
    days: data.dates.map((date, i) => ({
      x: round(left + (i + 0.5) * step),
      day: String(Number(date.slice(8))),
      month: i === 0 || date.slice(0, 7) !== data.dates[i - 1]?.slice(0, 7) ? monthOf(date) : '',
    })),
    bars,
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
