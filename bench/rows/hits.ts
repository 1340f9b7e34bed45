/**
 * Rates of what is stored already: small, middle-sized and large files, and how soon a small one comes beside them.
 */
import { writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathOf } from '../bare/content.ts'
import {
  costOf,
  proxies,
  type Row,
  type Stage,
  series,
  throughputFigures,
  throughputOf,
  urlOf,
} from './row.ts'

interface Kind {
  readonly name: string
  readonly bytes: number
  readonly count: number
  readonly connections: number
}

const small: Kind = { name: 'small', bytes: 10_000, count: 200, connections: 32 }
const middle: Kind = { name: 'middle', bytes: 1_000_000, count: 50, connections: 8 }
const large: Kind = { name: 'large', bytes: 100_000_000, count: 2, connections: 4 }

const columns: Row['subjects'] = [...proxies, 'bare server']

export const smallHits: Row = {
  title: 'Hits of 10 KB',
  note: '200 files, 32 connections',
  figures: {
    rate: { title: 'requests/s', better: 'more' },
    cpu: { title: 'CPU s for 100,000 requests', better: 'less' },
  },
  subjects: columns,
  async run(stage) {
    const { result, cpu } = await hits(stage, small)
    const { responses, seconds } = result
    return { rate: responses / seconds, cpu: (cpu / responses) * 1e5 }
  },
}

export const middleHits: Row = throughput('Hits of 1 MB', middle)
export const largeHits: Row = throughput('Hits of 100 MB', large)

/** A request every 20 ms beside hits of all sizes and downloads: longer than this no client waits for its turn. */
export const delay: Row = {
  title: 'Waiting beside other work',
  note: 'a hit of 10 KB every 20 ms, beside 32 connections with hits of 10 KB, 2 with hits of 100 MB and a download',
  figures: {
    median: { title: 'median, ms', better: 'less' },
    p99: { title: 'p99, ms', better: 'less' },
    loop: { title: 'p99 of the delay of the event loop, ms', better: 'less' },
  },
  subjects: proxies,
  async run(stage) {
    const { load, program, effort, subject } = stage
    const seconds = effort.seconds
    const stored = { small: await warm(stage, small), large: await warm(stage, large) }
    const cold = series(`beside-${stage.label}`, 100).map(name =>
      urlOf(stage, pathOf(large.bytes, name)),
    )
    if (subject === 'cachesvc') await metricsOf(program.port)
    const plans = [
      { targets: stored.small, connections: 1, interval: 20 },
      { targets: stored.small, connections: small.connections },
      { targets: stored.large, connections: 2 },
      { targets: cold, connections: 1 },
    ]
    const [probe] = await Promise.all(
      plans.map(plan => load.run(program.port, { ...plan, requests: 1e6, seconds })),
    )
    const { median = Number.NaN, p99 = Number.NaN } = probe?.whole ?? {}
    if (subject !== 'cachesvc') return { median, p99 }
    return { median, p99, loop: (await metricsOf(program.port)).loopDelay }
  },
}

function throughput(title: string, kind: Kind): Row {
  return {
    title,
    note: `${kind.count} files, ${kind.connections} connections`,
    figures: throughputFigures,
    subjects: columns,
    async run(stage) {
      return throughputOf(await hits(stage, kind))
    },
  }
}

async function hits(stage: Stage, kind: Kind) {
  const targets = await warm(stage, kind)
  const { seconds } = stage.effort
  const plan = { targets, connections: kind.connections, requests: 1e6, seconds }
  // A Node.js program needs some seconds of the same work until it is compiled.
  await stage.load.run(stage.program.port, { ...plan, seconds: Math.max(2, seconds / 2) })
  return costOf(stage, () => stage.load.run(stage.program.port, plan))
}

/** Asks for each file twice, so that what the second use costs is paid too, and compares all bytes of one. */
async function warm(stage: Stage, kind: Kind): Promise<readonly string[]> {
  const { load, program, contents, directory } = stage
  const paths = series(kind.name, kind.count).map(name => pathOf(kind.bytes, name))
  const targets = paths.map(path => urlOf(stage, path))
  for (let round = 0; round < 2; round += 1) await load.run(program.port, { targets })
  const expected = join(directory, kind.name)
  await writeFile(expected, contents.of(paths[0] ?? '') ?? [])
  await load.run(program.port, { targets: targets.slice(0, 1), expected })
  return targets
}

/** The daemon's own figures; the delay of its event loop is of the time since it was last read, milliseconds. */
export function metricsOf(
  port: number,
): Promise<{ readonly loopDelay: number; readonly adopting: number; readonly adopted: number }> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', path: '/_cachesvc/metrics', agent: false }
    const request = get(options, async response => {
      const metrics = await text(response)
      const figure = (name: string): number =>
        Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1])
      resolve({
        // Its timer has 50 ms (lib/metrics.ts), which it counts as delay.
        loopDelay: Math.max(0, figure('nodejs_eventloop_lag_p99_seconds') * 1000 - 50),
        adopting: figure('cachesvc_suites_being_adopted'),
        adopted: figure('cachesvc_adopted_suites'),
      })
    })
    request.on('error', reject)
  })
}
