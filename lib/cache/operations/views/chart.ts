/**
 * Bar charts and line charts over days or hours as geometry: rectangles, lines and words with their places, which a template turns into SVG.
 * Pure. Lengths are units of the drawing, whose height is 220 and width 400.
 */

/** One kind of bar. */
interface Series {
  readonly name: string
  /** The style sheet's name for its colour. */
  readonly colour: 'hits' | 'misses' | 'tunnel' | 'refused' | 'failed'
  /** One value for each place; undefined where a line has a gap. */
  readonly values: ReadonlyArray<number | undefined>
}

/** What a chart shows. */
export interface ChartData {
  /** Makes the drawing's ids unique on its page. */
  readonly id: string
  readonly title: string
  readonly description: string
  readonly places: readonly Place[]
  readonly series: readonly Series[]
  readonly words: (value: number) => string
  /** A value in as few characters as an axis has room for: seven. */
  readonly axis: (value: number) => string
}

/** A day or an hour on the axis. */
interface Place {
  readonly name: string
  readonly label: string
  readonly below: string
}

/** Days on the axis, of `YYYY-MM-DD`, oldest first: the month stands where it begins. Of many days only some have a label. */
export function dayPlaces(dates: readonly string[]): readonly Place[] {
  const step = Math.ceil(dates.length / mostLabels)
  let month = ''
  return dates.map((date, i) => {
    // Counted from today, so that today has a label.
    const labelled = (dates.length - 1 - i) % step === 0
    const changed = labelled && date.slice(0, 7) !== month
    if (changed) month = date.slice(0, 7)
    const label = labelled ? String(Number(date.slice(8))) : ''
    return { name: date, label, below: changed ? monthOf(date) : '' }
  })
}

/** The hours of a day on the axis. */
export function hourPlaces(): readonly Place[] {
  return Array.from({ length: 24 }, (_, hour) => {
    const two = (value: number) => String(value).padStart(2, '0')
    const label = hour % 3 === 0 ? two(hour) : ''
    return { name: `${two(hour)}:00 to ${two(hour + 1)}:00`, label, below: '' }
  })
}

/** What templates/operations/chart.mustache is filled with. */
export type ChartView = ReturnType<typeof chart>

const left = 58
const right = 396
const top = 10
const bottom = 178
/** The part of a day's place its bars take. */
const fill = 0.72
/** More labels than these would touch. */
const mostLabels = 16
/** The widest place one day gets, when there are few. */
const widest = 44

/**
 * A chart of one of three kinds: `stacked` bars of one place stand on one another, the parts of a whole; `grouped` ones stand side
 * by side, to be compared; a `line` for each series shows values that change, and places without a value are gaps.
 */
export function chart(
  kind: 'stacked' | 'grouped' | 'line',
  data: ChartData,
  ticks: readonly number[],
) {
  const { id, title, description, places, series } = data
  const highest = ticks.at(-1) ?? 1
  const height = (value: number) => (value / highest) * (bottom - top)
  const step = (right - left) / Math.max(1, places.length)
  const middle = (at: number) => left + (at + 0.5) * step
  const words = (place: Place, name: string, value: number) =>
    `${place.name}, ${name}: ${data.words(value)}`
  const columns = kind === 'grouped' ? series.length : 1
  const width = Math.min(widest, step * fill)
  const barsOf = (place: Place, at: number) => {
    let below = 0
    return series.map(({ name, colour, values }, i) => {
      const value = values[at] ?? 0
      below = columns === 1 ? below + value : value
      const column = columns === 1 ? 0 : i
      return {
        value,
        colour,
        x: round(middle(at) - width / 2 + column * (width / columns)),
        y: round(bottom - height(below)),
        width: round(width / columns),
        height: round(Math.max(0.75, height(value))),
        words: words(place, name, value),
      }
    })
  }
  const dots = series.flatMap(({ name, colour, values }) =>
    places.map((place, at) => {
      const value = values[at]
      if (value === undefined) return undefined
      const [x, y] = [round(middle(at)), round(bottom - height(value))]
      return { colour, x, y, words: words(place, name, value) }
    }),
  )
  const line = kind === 'line'
  return {
    id,
    title,
    description,
    legend: series.map(({ name, colour }) => ({ name, colour })),
    lines: ticks.map(tick => {
      const y = bottom - height(tick)
      return { y: round(y), textY: round(y + 4), label: data.axis(tick) }
    }),
    places: places
      .map(({ label, below }, at) => ({ x: round(middle(at)), label, below }))
      .filter(({ label }) => label !== ''),
    bars: line ? [] : places.flatMap(barsOf).filter(({ value }) => value > 0),
    curves: runsOf(line ? dots : []).map(run => ({
      colour: run[0]?.colour,
      points: run.map(({ x, y }) => `${x},${y}`).join(' '),
    })),
    dots: line ? dots.filter(dot => dot !== undefined) : [],
  }
}

/** Width and height of a small line. */
const small = { width: 480, height: 84, margin: 6 }

/** What templates/operations/spark.mustache is filled with. */
export type SparkView = ReturnType<typeof spark>

/** A small line without an axis, of shares from 0 to 1 at even distances; undefined where it has a gap. */
export function spark(
  values: ReadonlyArray<number | undefined>,
  words: (at: number, value: number) => string,
) {
  const { width, height, margin } = small
  const step = (width - 2 * margin) / Math.max(1, values.length - 1)
  const dots = values.map((value, at) => {
    if (value === undefined) return undefined
    const y = round(height - margin - value * (height - 2 * margin))
    return { x: round(margin + at * step), y, words: words(at, value) }
  })
  return {
    curves: runsOf(dots).map(run => ({ points: run.map(({ x, y }) => `${x},${y}`).join(' ') })),
    dots: dots.filter(dot => dot !== undefined),
  }
}

/** Neighbours without a gap between them. */
function runsOf<T>(list: ReadonlyArray<T | undefined>): ReadonlyArray<readonly T[]> {
  const runs: T[][] = [[]]
  for (const one of list) one === undefined ? runs.push([]) : runs.at(-1)?.push(one)
  return runs.filter(run => run.length > 1)
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
