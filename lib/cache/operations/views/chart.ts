/**
 * Bar charts and line charts over days or hours as geometry: rectangles, lines and words with their places. A template turns them into
 * SVG. Lengths are units of the drawing, whose height is 220 and width 400.
 */

/** One kind of bar. */
interface Series {
  readonly name: string
  /** The name of its colour in the style sheet. */
  readonly colour: 'hits' | 'misses' | 'tunnel' | 'refused' | 'failed'
  /** One value for each place. It is undefined where a line has a gap. */
  readonly values: ReadonlyArray<number | undefined>
}

/** The data and the texts of a chart. */
export interface ChartData {
  /** A text that makes the ids of the drawing unique on its page. */
  readonly id: string
  readonly title: string
  readonly description: string
  readonly places: readonly Place[]
  readonly series: readonly Series[]
  readonly words: (value: number) => string
  /** A value in at most seven characters, which fit beside an axis. */
  readonly axis: (value: number) => string
}

/** A day or an hour on the axis. */
interface Place {
  readonly name: string
  readonly label: string
  readonly below: string
}

/**
 * The places of days on the axis, from dates `YYYY-MM-DD` with the oldest first. The first label of a month has its name below. When
 * there are many days, only some have a label.
 */
export function dayPlaces(dates: readonly string[]): readonly Place[] {
  const step = Math.ceil(dates.length / mostLabels)
  let month = ''
  return dates.map((date, i) => {
    // Labels are counted from today, so that today has one.
    const labelled = (dates.length - 1 - i) % step === 0
    const changed = labelled && date.slice(0, 7) !== month
    if (changed) month = date.slice(0, 7)
    const label = labelled ? String(Number(date.slice(8))) : ''
    return { name: date, label, below: changed ? monthOf(date) : '' }
  })
}

/** The places of the hours of a day on the axis. */
export function hourPlaces(): readonly Place[] {
  return Array.from({ length: 24 }, (_, hour) => {
    const two = (value: number) => String(value).padStart(2, '0')
    const label = hour % 3 === 0 ? two(hour) : ''
    return { name: `${two(hour)}:00 to ${two(hour + 1)}:00`, label, below: '' }
  })
}

/** The values of templates/operations/chart.mustache. */
export type ChartView = ReturnType<typeof chart>

const left = 58
const right = 396
const top = 10
const bottom = 178
/** The share of a place that its bars take. */
const fill = 0.72
/** The most labels; more would touch each other. */
const mostLabels = 16
/** The greatest width of the bars at one place, when there are few places. */
const widest = 44

/**
 * A chart of one of three kinds. The bars of one place are on top of each other when `stacked`, as parts of a whole, and side by side
 * when `grouped`, to be compared. A chart of kind `line` has a line for each series, with gaps at places without a value.
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

const small = { width: 480, height: 84, margin: 6 }

/** The values of templates/operations/spark.mustache: a small line without an axis, of shares from 0 to 1 at even distances. A value is undefined where the line has a gap. */
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

/** The parts of a list between its gaps that have more than one member. */
function runsOf<T>(list: ReadonlyArray<T | undefined>): ReadonlyArray<readonly T[]> {
  const runs: T[][] = [[]]
  for (const one of list) one === undefined ? runs.push([]) : runs.at(-1)?.push(one)
  return runs.filter(run => run.length > 1)
}

/** Even steps from 0 to at least `highest`. A step is 1, 2 or 5 times a power of ten. */
export function decimalTicks(highest: number): readonly number[] {
  const rough = Math.max(1, highest / 4)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough) ?? rough
  return steps(step, highest)
}

/** Even steps from 0 to at least `highest`. A step is a power of two, so that sizes are whole binary units. */
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
