/**
 * Figures of this process for Prometheus: processor time, memory, open files, the event loop and the collection of garbage. Their
 * names are those that dashboards for Node.js ask for. What Linux tells in /proc is measured on Linux alone.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics } from 'node:v8'
import { isRecord } from './json.ts'
import type { Metrics } from './metrics.ts'

/** Adds the figures of the process to the metrics of a service. */
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
      ...{ name: 'nodejs_version_info', help: 'The version of Node.js; the value is 1.' },
      labels: ['version', 'major', 'minor', 'patch'],
    },
    () => [{ labels: version, value: 1 }],
  )
}

/** What one look at the metrics has read once, for all figures that it is the source of. */
function oncePerLook<T>(read: () => T): () => T {
  let kept: { readonly value: T } | undefined
  return () => {
    if (kept === undefined) {
      kept = { value: read() }
      // The metrics are written without a pause.
      queueMicrotask(() => {
        kept = undefined
      })
    }
    return kept.value
  }
}

function measureProcessor(metrics: Metrics): void {
  const usage = oncePerLook(() => process.cpuUsage())
  const started = Math.round(Date.now() / 1000 - process.uptime())
  for (const [name, help, read] of [
    ['user_seconds', 'Processor time in user mode.', () => usage().user],
    ['system_seconds', 'Processor time in the kernel.', () => usage().system],
    [
      'seconds',
      'Processor time.',
      () => {
        const { user, system } = usage()
        return user + system
      },
    ],
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
    // One is the directory that is being read.
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
 * The delay of the event loop is measured with a timer of so many milliseconds, and its figures count from there. With 10, an idle
 * daemon wakes a hundred times a second, which is half of the processor time it uses.
 */
const resolution = 50

function measureEventLoop(metrics: Metrics): void {
  let lag = 0
  metrics.reading(
    {
      name: 'nodejs_eventloop_lag_seconds',
      help: 'Delay of the event loop, measured once after the look before this one.',
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
    const help = `The ${which} delay of the event loop since the look before.`
    metrics.reading({ name: `nodejs_eventloop_lag_${name}_seconds`, help }, () => {
      const value = delays.count === 0 ? 0 : read() / 1e9
      // It is the last one that is asked at a look.
      if (name === 'p99') delays.reset()
      return value
    })
  }
  metrics.readings(
    {
      ...{ name: 'nodejs_active_resources', labels: ['type'] },
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
