/**
 * Counters, gauges and histograms in the Prometheus text format, version 0.0.4.
 *
 * Label values come from closed unions: a label that strangers can fill (a host, a path) grows without end.
 */
/** A value for every label name; none when there are none. */
type Labels<L extends string> = Readonly<Record<L, string>>

export type LabelNames<L extends string> = readonly [] | readonly [L] | readonly [L, L]

interface Described {
  /** Name with its unit at the end: `cachesvc_traffic_down_bytes_total`. */
  readonly name: string
  readonly help: string
}

interface MetricOptions<L extends string = never> extends Described {
  readonly labels?: LabelNames<L>
}

/** What a metric is, for the list of metrics. */
export interface MetricFacts {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
}

/** What was seen with the same labels. */
interface Series {
  readonly labels: Readonly<Record<string, string>>
  sum: number
  count: number
  /** The count of each bucket of a histogram, without the buckets before it. */
  readonly counts: number[]
}

/** Upper bounds of buckets in seconds, for what takes from a millisecond to a minute. */
const secondsBuckets: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** The metrics of one service; two services or two tests in one process do not meet. */
export class Metrics {
  readonly #texts: Array<() => string> = []
  readonly #facts: MetricFacts[] = []

  /** Media type of `text`. */
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'

  /** A counter, which adds one when no number is given. A negative number throws. */
  counter<L extends string = never>(options: MetricOptions<L>) {
    const { all, seriesOf } = seriesBy(options.labels)
    this.#add('counter', options, () =>
      all().map(({ labels, sum }) => sample(options.name, textsOf(labels), sum)),
    )
    return {
      add(labels: Labels<L>, by = 1): void {
        if (!(by >= 0)) throw new RangeError('a counter only grows')
        seriesOf(labels).sum += by
      },
    }
  }

  /** A gauge without labels that is asked at each look. `read` must be quick and must not throw. */
  reading(options: MetricOptions, read: () => number): void {
    this.#add('gauge', options, () => [sample(options.name, [], read())])
  }

  /** The same for a counter that something else keeps. */
  total(options: MetricOptions, read: () => number): void {
    this.#add('counter', options, () => [sample(options.name, [], read())])
  }

  /** A gauge that is asked at each look for all its values. There must be few: labels may come from outside. */
  readings<L extends string>(
    options: Described & { readonly labels: readonly L[] },
    read: () => ReadonlyArray<{ readonly labels: Labels<L>; readonly value: number }>,
  ): void {
    this.#add('gauge', options, () =>
      read().map(({ labels, value }) => sample(options.name, textsOf(labels), value)),
    )
  }

  /** A histogram with these upper bounds of its buckets. */
  histogram<L extends string = never>(
    options: MetricOptions<L> & { readonly buckets?: readonly number[] },
  ) {
    const { name, buckets = secondsBuckets } = options
    const { all, seriesOf } = seriesBy(options.labels, buckets.length)
    this.#add('histogram', options, () =>
      all().flatMap(series => histogramSamples(name, buckets, series)),
    )
    return {
      observe(labels: Labels<L>, value: number): void {
        const series = seriesOf(labels)
        series.count += 1
        series.sum += value
        let bucket = 0
        while (value > (buckets[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
        if (bucket < buckets.length) series.counts[bucket] = (series.counts[bucket] ?? 0) + 1
      },
    }
  }

  /** All metrics that `text` may write, in their order. */
  list(): readonly MetricFacts[] {
    return this.#facts
  }

  /** Everything measured, in the text exposition format. */
  text(): string {
    return this.#texts.map(text => `${text()}\n`).join('\n')
  }

  #add(
    type: string,
    { name, help, labels = [] }: Described & { readonly labels?: readonly string[] },
    samples: () => readonly string[],
  ): void {
    this.#facts.push({ name, type, help, labels })
    const head = [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
    this.#texts.push(() => [...head, ...samples()].join('\n'))
  }
}

/** A series for each combination of labels, of which there are two at most; without labels there is one, from the start. */
function seriesBy<L extends string>([first, second]: LabelNames<L> = [], buckets = 0) {
  const known = new Map<string, Map<string, Series>>()
  const seriesOf = (labels: Labels<L>): Series => {
    const value = first === undefined ? '' : labels[first]
    const group = known.get(value) ?? new Map<string, Series>()
    const key = second === undefined ? '' : labels[second]
    let series = group.get(key)
    if (series === undefined) {
      series = { labels, sum: 0, count: 0, counts: Array<number>(buckets).fill(0) }
      known.set(value, group.set(key, series))
    }
    return series
  }
  if (first === undefined) seriesOf({} as Labels<L>)
  return { all: () => [...known.values()].flatMap(group => [...group.values()]), seriesOf }
}

function histogramSamples(name: string, buckets: readonly number[], series: Series) {
  const labels = textsOf(series.labels)
  let below = 0
  const inBuckets = buckets.map((bound, at) => {
    below += series.counts[at] ?? 0
    return sample(`${name}_bucket`, [`le="${bound}"`, ...labels], below)
  })
  return [
    ...inBuckets,
    sample(`${name}_bucket`, ['le="+Inf"', ...labels], series.count),
    sample(`${name}_sum`, labels, series.sum),
    sample(`${name}_count`, labels, series.count),
  ]
}

function textsOf(labels: Series['labels']): readonly string[] {
  return Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
}

function sample(name: string, labels: readonly string[], value: number): string {
  return `${name}${labels.length === 0 ? '' : `{${labels.join(',')}}`} ${value}`
}
