/**
 * Counters, gauges and histograms in the Prometheus text format, version 0.0.4.
 *
 * Label values come from closed unions: a label that outsiders can fill (a host, a path) grows without limit.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics } from 'node:v8'
import { isRecord } from './json.ts'

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

/** A metric as it stands in the list of metrics. */
export interface MetricFacts {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
}

/** The observations with the same labels. */
interface Series {
  readonly labels: Readonly<Record<string, string>>
  sum: number
  count: number
  /** The count of each bucket of a histogram, without the buckets before it. */
  readonly counts: number[]
}

/** Upper bounds of buckets in seconds, for durations from a millisecond to a minute. */
const secondsBuckets: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** The metrics of one service. Two services or two tests in one process share nothing. */
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

  /** A gauge without labels whose value is read at each look. `read` must be quick and must not throw. */
  reading(options: MetricOptions, read: () => number): void {
    this.#add('gauge', options, () => [sample(options.name, [], read())])
  }

  /** A counter without labels whose value is read at each look. */
  total(options: MetricOptions, read: () => number): void {
    this.#add('counter', options, () => [sample(options.name, [], read())])
  }

  /** A gauge with labels whose values are read at each look. They must be few, because labels may come from outside. */
  readings<L extends string>(
    options: Described & { readonly labels: readonly L[]; readonly type?: 'gauge' | 'counter' },
    read: () => ReadonlyArray<{ readonly labels: Labels<L>; readonly value: number }>,
  ): void {
    this.#add(options.type ?? 'gauge', options, () =>
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

  /** All measured values, in the text exposition format. */
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

/** Makes a series for each combination of at most two labels. Without labels there is one series, from the start. */
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

/**
 * Adds figures of this process to the metrics of a service: processor time, memory, open files, the event loop and garbage collection.
 * Dashboards for Node.js expect these names. Figures from /proc exist on Linux only.
 */
export function measureProcess(metrics: Metrics): void {
  measureProcessor(metrics)
  if (process.platform === 'linux') measureByLinux(metrics)
  measureHeap(metrics)
  measureEventLoop(metrics)
  measureCollections(metrics)
  const [major = '', minor = '', patch = ''] = process.versions.node.split('.')
  const version = { version: process.version, major, minor, patch }
  metrics.readings(
    {
      name: 'nodejs_version_info',
      help: 'The version of Node.js; the value is 1.',
      labels: ['version', 'major', 'minor', 'patch'],
    },
    () => [{ labels: version, value: 1 }],
  )
}

/** Reads a source of several figures only once at each look. */
function oncePerLook<T>(read: () => T): () => T {
  let kept: { readonly value: T } | undefined
  return () => {
    if (kept === undefined) {
      kept = { value: read() }
      // All metrics are written in one synchronous run.
      queueMicrotask(() => {
        kept = undefined
      })
    }
    return kept.value
  }
}

function measureProcessor(metrics: Metrics): void {
  const usage = oncePerLook(() => process.cpuUsage())
  const started = Math.floor(Date.now() / 1000 - process.uptime())
  for (const [name, help, read] of [
    ['user_seconds', 'Processor time in user mode.', () => usage().user],
    ['system_seconds', 'Processor time in the kernel.', () => usage().system],
    ['seconds', 'Processor time.', () => usage().user + usage().system],
  ] as const) {
    metrics.total({ name: `process_cpu_${name}_total`, help }, () => read() / 1e6)
  }
  const start = {
    name: 'process_start_time_seconds',
    help: 'Start of the process since the epoch.',
  }
  metrics.reading(start, () => started)
}

/** Figures of proc(5). To read them asks the kernel and no disk. */
function measureByLinux(metrics: Metrics): void {
  const status = oncePerLook(() => readFileSync('/proc/self/status', 'utf8'))
  for (const [name, help, field] of [
    ['resident_memory', 'Memory of the process that is in the machine.', 'VmRSS'],
    ['virtual_memory', 'Address space of the process.', 'VmSize'],
    ['heap', 'Data of the process, including what is not in the machine.', 'VmData'],
  ] as const) {
    const line = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm')
    metrics.reading({ name: `process_${name}_bytes`, help }, () => {
      const [, kibibytes] = line.exec(status()) ?? []
      return Number(kibibytes) * 1024
    })
  }
  metrics.reading(
    { name: 'process_open_fds', help: 'Open files and connections.' },
    // One of the descriptors is the directory that is being read.
    () => readdirSync('/proc/self/fd').length - 1,
  )
  const [, limit] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  const most = limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit)
  const bound = { name: 'process_max_fds', help: 'Files and connections that may be open.' }
  metrics.reading(bound, () => most)
}

function measureHeap(metrics: Metrics): void {
  const memory = oncePerLook(() => process.memoryUsage())
  const spaces = oncePerLook(getHeapSpaceStatistics)
  for (const [name, help, of] of [
    ['heap_size_total', 'Memory that V8 has taken for its heap.', 'heapTotal'],
    ['heap_size_used', 'Memory of the heap that is in use.', 'heapUsed'],
    ['external_memory', 'Memory of objects outside the heap.', 'external'],
  ] as const) {
    metrics.reading({ name: `nodejs_${name}_bytes`, help }, () => memory()[of])
  }
  for (const [name, help, of] of [
    ['total', 'Memory of each space of the heap.', 'space_size'],
    ['used', 'Memory of each space of the heap that is in use.', 'space_used_size'],
    ['available', 'Memory of each space of the heap that is free.', 'space_available_size'],
  ] as const) {
    metrics.readings(
      { name: `nodejs_heap_space_size_${name}_bytes`, help, labels: ['space'] },
      () =>
        spaces().map(space => ({
          labels: { space: space.space_name.replace(/_space$/, '') },
          value: space[of],
        })),
    )
  }
}

/**
 * Milliseconds of the timer that measures the delay of the event loop. The figures include them. With 10, an idle daemon would wake a
 * hundred times a second, which is half of the processor time it uses.
 */
const resolution = 50

function measureEventLoop(metrics: Metrics): void {
  let lag = 0
  metrics.reading(
    {
      name: 'nodejs_eventloop_lag_seconds',
      help: 'Delay of the event loop, measured once after the previous scrape.',
    },
    () => {
      const asked = process.hrtime.bigint()
      setImmediate(() => {
        lag = Number(process.hrtime.bigint() - asked) / 1e9
      })
      return lag
    },
  )
  const delays = monitorEventLoopDelay({ resolution })
  delays.enable()
  for (const [name, which, read] of [
    ['min', 'smallest', () => delays.min],
    ['max', 'largest', () => delays.max],
    ['mean', 'mean', () => delays.mean],
    ['stddev', 'standard deviation of the', () => delays.stddev],
    ['p50', '50th percentile of the', () => delays.percentile(50)],
    ['p90', '90th percentile of the', () => delays.percentile(90)],
    ['p99', '99th percentile of the', () => delays.percentile(99)],
  ] as const) {
    const help = `The ${which} delay of the event loop since the previous scrape.`
    metrics.reading({ name: `nodejs_eventloop_lag_${name}_seconds`, help }, () => {
      const value = delays.count === 0 ? 0 : read() / 1e9
      // This figure is the last one that a look reads.
      if (name === 'p99') delays.reset()
      return value
    })
  }
  metrics.readings(
    {
      name: 'nodejs_active_resources',
      labels: ['type'],
      help: 'Resources that keep the event loop alive, by their type in Node.js.',
    },
    () => {
      const counts = new Map<string, number>()
      for (const type of process.getActiveResourcesInfo()) {
        counts.set(type, (counts.get(type) ?? 0) + 1)
      }
      return [...counts].map(([type, value]) => ({ labels: { type }, value }))
    },
  )
}

const kinds: Readonly<Record<number, string>> = {
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weakcb',
}

function measureCollections(metrics: Metrics): void {
  const durations = metrics.histogram({
    name: 'nodejs_gc_duration_seconds',
    help: 'Duration of collections of garbage: major, minor, incremental or weakcb.',
    labels: ['kind'],
    buckets: [0.001, 0.01, 0.1, 1, 2, 5],
  })
  const observer = new PerformanceObserver(list => {
    for (const entry of list.getEntries()) {
      const detail: unknown = Reflect.get(entry, 'detail')
      const kind = isRecord(detail) ? kinds[Number(detail['kind'])] : undefined
      if (kind !== undefined) durations.observe({ kind }, entry.duration / 1000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
}
