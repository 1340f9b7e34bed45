/**
 * Counters, gauges and histograms in the Prometheus text format. The only importer of prom-client; no global registry, so two
 * services or two tests in one process do not meet.
 *
 * Label values come from closed unions: a label that strangers can fill (a host, a path) grows without end.
 */
// biome-ignore lint/style/noRestrictedImports: the one importer
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** A value for every label name; none when there are none. */
type Labels<L extends string> = Readonly<Record<L, string>>

interface CounterMetric<L extends string = never> {
  /** Adds `by`, one when not given. A negative number throws. */
  add(labels: Labels<L>, by?: number): void
}

interface HistogramMetric<L extends string = never> {
  observe(labels: Labels<L>, value: number): void
}

interface MetricOptions<L extends string> {
  /** Name with its unit at the end: `cachesvc_traffic_down_bytes_total`. */
  readonly name: string
  readonly help: string
  readonly labels?: readonly L[]
}

/** Upper bounds of buckets in seconds, for what takes from a millisecond to a minute. */
export const secondsBuckets: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** Gauges with the ending of counters, which tools take for counters. The same figures by type are kept. */
const misnamed = ['handles', 'requests', 'resources'].map(of => `nodejs_active_${of}_total`)

export class Metrics {
  readonly #registry = new Registry()
  readonly #histograms: Array<() => string> = []

  /** What is measured of the process: memory, CPU, open files and delay of its event loop. */
  constructor() {
    collectDefaultMetrics({ register: this.#registry })
    for (const name of misnamed) this.#registry.removeSingleMetric(name)
  }

  /** Media type of `text`. */
  get contentType(): string {
    return this.#registry.contentType
  }

  counter<L extends string = never>(options: MetricOptions<L>): CounterMetric<L> {
    const { labels: names = [] } = options
    // Looking a child up costs more than adding: what is added gathers here until the next look.
    const gathered = new Map<string, { readonly labels: Labels<L>; sum: number }>()
    const counter: Counter = new Counter({
      ...this.#settings(options),
      collect() {
        for (const { labels, sum } of gathered.values()) counter.inc(labels, sum)
        gathered.clear()
      },
    })
    return {
      add(labels, by = 1) {
        if (!(by >= 0)) throw new RangeError('a counter only grows')
        const key = keyOf(names, labels)
        const known = gathered.get(key)
        if (known === undefined) gathered.set(key, { labels, sum: by })
        else known.sum += by
      },
    }
  }

  /** A gauge without labels that is asked at each look. `read` must be quick and must not throw. */
  reading(options: Omit<MetricOptions<never>, 'labels'>, read: () => number): void {
    const gauge: Gauge = new Gauge({
      ...this.#settings(options),
      collect: () => gauge.set(read()),
    })
  }

  histogram<L extends string = never>(
    options: MetricOptions<L> & { readonly buckets?: readonly number[] },
  ): HistogramMetric<L> {
    const { name, help, labels: names = [], buckets = secondsBuckets } = options
    const series = new Map<string, Series>()
    const seriesOf = (labels: Labels<L>): Series => {
      const key = keyOf(names, labels)
      const known = series.get(key) ?? { labels, counts: buckets.map(() => 0), count: 0, sum: 0 }
      if (known.count === 0) series.set(key, known)
      return known
    }
    // Without labels there is one, from the start.
    if (names.length === 0) seriesOf({} as Labels<L>)
    this.#histograms.push(() => histogramText({ name, help, buckets, series: series.values() }))
    return {
      observe(labels, value) {
        const known = seriesOf(labels)
        known.count += 1
        known.sum += value
        let bucket = 0
        while (value > (buckets[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
        if (bucket < buckets.length) known.counts[bucket] = (known.counts[bucket] ?? 0) + 1
      },
    }
  }

  /** Everything measured, in the text exposition format. */
  async text(): Promise<string> {
    const histograms = this.#histograms.map(text => `\n${text()}`)
    return (await this.#registry.metrics()) + histograms.join('')
  }

  #settings<L extends string>({ name, help, labels = [] }: MetricOptions<L>) {
    return { name, help, labelNames: [...labels], registers: [this.#registry] }
  }
}

/** Values are words and hosts: none of them has a line feed. */
function keyOf<L extends string>(names: readonly L[], labels: Labels<L>): string {
  let key = ''
  for (const name of names) key += key === '' ? labels[name] : `\n${labels[name]}`
  return key
}

/** What a histogram has seen with the same labels. */
interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** For each bucket, without those before it. */
  readonly counts: number[]
  count: number
  sum: number
}

/** A histogram of our own: that of prom-client looks labels up for each value, which cost more than the rest of an exchange's figures. */
function histogramText(of: {
  readonly name: string
  readonly help: string
  readonly buckets: readonly number[]
  readonly series: Iterable<Series>
}): string {
  const { name, help, buckets, series } = of
  const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`]
  for (const { labels, counts, count, sum } of series) {
    const own = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`)
    let below = 0
    buckets.forEach((bound, at) => {
      below += counts[at] ?? 0
      lines.push(`${name}_bucket{${[`le="${bound}"`, ...own].join(',')}} ${below}`)
    })
    lines.push(`${name}_bucket{${['le="+Inf"', ...own].join(',')}} ${count}`)
    const among = own.length === 0 ? '' : `{${own.join(',')}}`
    lines.push(`${name}_sum${among} ${sum}`, `${name}_count${among} ${count}`)
  }
  return `${lines.join('\n')}\n`
}
