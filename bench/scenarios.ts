/**
 * What is measured, and in which units. Each scenario warms what it needs, takes one measurement and answers named figures.
 */
import { link } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArchiveOrigin } from '../test/fixtures/archive-origin.ts'
import { eventually } from '../test/fixtures/ports.ts'
import type { ProxyProcess } from '../test/fixtures/proxy-process.ts'
import type { LoadClient, LoadResult } from './load.ts'

export interface Stage {
  readonly load: LoadClient
  readonly origin: ArchiveOrigin
  /** What the origin serves; `small-N`, `large` and `huge` are there. */
  readonly root: string
  readonly proxy: ProxyProcess
  /** Different for every measurement, for names nobody has cached. */
  readonly serial: string
}

export type Figures = Readonly<Record<string, number>>

export interface Scenario {
  readonly title: string
  /** Units of the figures, in the order of the table, and whether less is better. */
  readonly units: Readonly<Record<string, 'more' | 'less'>>
  run(stage: Stage): Promise<Figures>
}

/** Sizes in MiB. */
export const largeSize = 100
export const hugeSize = 200
/** Small objects: how many, and their sizes in bytes. */
export const smallCount = 200
export const smallSizes = { least: 4 << 10, most: 30 << 10 }

const stampedeClients = 50
/** Bytes per second the origin gives in the stampede: a fast line, so that the fill takes longer than a moment. */
const stampedeRate = 50 << 20

export const scenarios: Readonly<Record<string, Scenario>> = {
  small: {
    title: `warm small hits: ${smallCount} objects of 4 to 30 KiB, 32 connections kept open`,
    units: { 'requests/s': 'more', 'CPU s/1000 requests': 'less', 'p99 ms': 'less' },
    async run(stage) {
      const targets = Array.from({ length: smallCount }, (_, i) => pool(stage, `small-${i}`))
      await warm(stage, targets)
      const plan = { targets, connections: 32, requests: 200_000, seconds: 3 }
      const { result, cpu } = await measure(stage, plan)
      return {
        'requests/s': result.responses / result.seconds,
        'CPU s/1000 requests': (cpu / result.responses) * 1000,
        'p99 ms': result.whole.p99,
      }
    },
  },

  large: {
    title: `warm large hits: one object of ${largeSize} MiB, 4 connections`,
    units: { 'MB/s': 'more', 'CPU s/GB': 'less' },
    async run(stage) {
      const targets = [pool(stage, 'large')]
      await warm(stage, targets)
      const { result, cpu } = await measure(stage, {
        targets,
        connections: 4,
        requests: 60,
        seconds: 3,
      })
      return throughput(result, cpu)
    },
  },

  cold: {
    title: `cold streaming: one miss of ${hugeSize} MiB`,
    units: { 'first byte ms': 'less', 'MB/s': 'more', 'CPU s/GB': 'less' },
    async run(stage) {
      const name = await fresh(stage, 'huge')
      const plan = { targets: [pool(stage, name)], connections: 1, requests: 1, seconds: 20 }
      const { result, cpu } = await measure(stage, plan)
      return { 'first byte ms': result.first.max, ...throughput(result, cpu) }
    },
  },

  stampede: {
    title: `stampede: ${stampedeClients} clients on one cold object of ${largeSize} MiB, origin at 50 MiB/s, every byte compared`,
    units: {
      'origin fetches': 'less',
      'last first byte ms': 'less',
      'after the origin’s ms': 'less',
      'all done s': 'less',
      'CPU s/GB': 'less',
    },
    async run(stage) {
      const name = await fresh(stage, 'large')
      stage.origin.forget()
      stage.origin.rate = stampedeRate
      try {
        const { result, cpu } = await measure(stage, {
          targets: [pool(stage, name)],
          connections: stampedeClients,
          requests: stampedeClients,
          seconds: 20,
          expected: join(stage.root, 'pool/large'),
        })
        const fetches = stage.origin.seen(new RegExp(name))
        return {
          'origin fetches': fetches.length,
          'last first byte ms': result.first.max,
          'after the origin’s ms': result.lastFirst - (fetches[0]?.firstByte ?? Number.NaN),
          'all done s': result.seconds,
          'CPU s/GB': throughput(result, cpu)['CPU s/GB'],
        }
      } finally {
        stage.origin.rate = undefined
      }
    },
  },
}

/** Named like packages, so that every proxy takes them for what never changes. */
function pool(stage: Stage, name: string): string {
  return `${stage.origin.url}/pool/${name}_1.0_all.deb`
}

/** A new name for the same bytes. */
async function fresh(stage: Stage, name: string): Promise<string> {
  const other = `${name}-${stage.serial}`
  await link(join(stage.root, 'pool', name), join(stage.root, 'pool', `${other}_1.0_all.deb`))
  return other
}

/** Asks for every target, then once more, so that the second look-up's costs are paid too. */
async function warm(stage: Stage, targets: readonly string[]): Promise<void> {
  const { load, proxy } = stage
  for (let round = 0; round < 2; round += 1) {
    const plan = { targets, connections: 4, requests: targets.length, seconds: 30 }
    expectGood(proxy, await load.run({ port: proxy.port, ...plan }))
  }
}

type Plan = Omit<Parameters<LoadClient['run']>[0], 'port'>

/** Runs the plan and takes the processor time the proxy used until it is idle again: writing may go on after the answer. */
async function measure({ load, proxy }: Stage, plan: Plan) {
  const before = await proxy.cpu()
  const result = await load.run({ port: proxy.port, ...plan })
  let last = await proxy.cpu()
  await eventually(async () => {
    await new Promise(resolve => setTimeout(resolve, 100))
    const now = await proxy.cpu()
    const idle = now - last < 0.02
    last = now
    return idle
  }, 3000)
  expectGood(proxy, result)
  return { result, cpu: last - before }
}

function expectGood(proxy: ProxyProcess, { failed, wrong, responses }: LoadResult): void {
  if (failed + wrong === 0 && responses > 0) return
  throw new Error(`${proxy.name}: ${responses} answers, ${wrong} of them wrong, ${failed} failed`)
}

function throughput(result: LoadResult, cpu: number) {
  return { 'MB/s': result.bytes / 1e6 / result.seconds, 'CPU s/GB': (cpu / result.bytes) * 1e9 }
}
