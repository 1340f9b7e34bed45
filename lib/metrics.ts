/**
 * Counters, gauges and histograms in the Prometheus text format. The only importer of prom-client; no global registry, so two
 * services or two tests in one process do not meet.
 *
 * Label values come from closed unions: a label that strangers can fill (a host, a path) grows without end.
 */
// biome-ignore lint/style/noRestrictedImports: the one importer
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

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

  /** With `process`, also memory, CPU, open files and delay of the event loop of this process. */
  constructor(options: { readonly process?: boolean } = {}) {
    if (options.process !== true) return
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
        // Values are words and hosts: none of them has a line feed.
        let key = ''
        for (const name of names) key += key === '' ? labels[name] : `\n${labels[name]}`
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
    const buckets = [...(options.buckets ?? secondsBuckets)]
    const histogram = new Histogram({ ...this.#settings(options), buckets })
    return { observe: (labels, value) => histogram.observe(labels, value) }
  }

  /** Everything measured, in the text exposition format. */
  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #settings<L extends string>({ name, help, labels = [] }: MetricOptions<L>) {
    return { name, help, labelNames: [...labels], registers: [this.#registry] }
  }
}
