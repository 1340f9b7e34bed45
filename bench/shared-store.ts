/**
 * What a bucket costs hits and misses, when it works and when it does not: `node dist/bench/shared-store.js [ROUNDS [SECONDS]]` (3 and 8).
 *
 * A node of its own for each state of the bucket, all with the same files, and one without a bucket. They take turns in each round.
 *
 * - faults: a steady load of hits, 250 a second, and the same at one more node without a bucket at the same time: what the machine
 *   does to hits, it does to both. After a second the bucket fails, and files are asked for that are not stored: one after the other, a
 *   quarter of a second apart. Prints median and p99 of the hits, and what the first, the second and the slowest of the further
 *   misses took.
 * - rate: as many hits as one core gives, with the bucket and without, and the processor time of a hit.
 * - start: 100,000 files in the bucket and on the node's disk: time until the node is ready, processor time and memory three seconds
 *   later, and the time of two pages, with the bucket and without.
 *
 * The nodes share core 0, the load, the bucket and the origin share core 1.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { packageRoot } from '../lib/package.ts'
import { fetchThrough } from '../test/fixtures/cache/lab.ts'
import { Undone } from '../test/fixtures/features/shared/balanced-nodes.ts'
import { ObjectStore, storeCredentials } from '../test/fixtures/features/shared/object-store.ts'
import { freePort } from '../test/fixtures/process/ports.ts'
import { pathOf } from './bare/content.ts'
import { LoadClient } from './load.ts'
import { entries } from './rows/memory.ts'
import { Program, serverCore } from './subject.ts'

const states = ['no bucket', 'works', 'stopped', '503', 'refuses', 'full', 'quota'] as const
type State = (typeof states)[number]

/** What is said to the process of a bucket. */
type Order = { readonly fault: State } | { readonly fill: number }

const stored = 100_000
const files = 200
const size = 10_000
const betweenMisses = 250

/** A bucket in a process of its own, so that it can be stopped. */
class BucketProcess {
  readonly url: string
  readonly region: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, { url, region }: Pick<ObjectStore, 'url' | 'region'>) {
    this.#child = child
    this.url = url
    this.region = region
  }

  static async start(undone: Undone): Promise<BucketProcess> {
    const child = fork(import.meta.filename, ['bucket'])
    undone.teardown(() => child.kill('SIGKILL'))
    const [told] = await once(child, 'message')
    return new BucketProcess(child, told as Pick<ObjectStore, 'url' | 'region'>)
  }

  /** Makes it fail so, or work again. */
  async become(state: State): Promise<void> {
    if (state === 'stopped') return void this.#child.kill('SIGSTOP')
    this.#child.kill('SIGCONT')
    await this.tell({ fault: state })
  }

  async tell(order: Order): Promise<void> {
    this.#child.send(order)
    await once(this.#child, 'message')
  }
}

/** The process of a bucket. */
async function beBucket(): Promise<void> {
  const store = await ObjectStore.listen({ teardown: () => undefined })
  let listening = true
  process.on('message', async (order: Order) => {
    if ('fill' in order) {
      for (let i = 0; i < order.fill; i += 1) {
        const digest = createHash('sha256').update(String(i)).digest('hex')
        store.set(`blobs/${digest.slice(0, 2)}/${digest}`, 'x')
        store.set(`entries/${digest}.json`, '{}')
      }
    } else {
      const { fault } = order
      if (fault === 'refuses' && listening) await store.stop()
      else if (fault !== 'refuses' && !listening) await store.start()
      listening = fault !== 'refuses'
      store.fault = fault === '503' ? 'unavailable' : undefined
      if (fault === 'full' || fault === 'quota') store.fault = fault
      store.requests.length = 0
    }
    process.send?.('done')
  })
  process.on('disconnect', () => process.exit())
  process.send?.({ url: store.url, region: store.region })
}

/** An origin whose files are made when they are asked for; those by hash have to be made before. */
class Origin {
  readonly port: number
  readonly #byHash: Map<string, Buffer>

  private constructor(port: number, byHash: Map<string, Buffer>) {
    this.port = port
    this.#byHash = byHash
  }

  static async start(undone: Undone): Promise<Origin> {
    const byHash = new Map<string, Buffer>()
    const server = createServer(({ url = '' }, response) => {
      const content = byHash.get(url) ?? packageAt(url)
      response.writeHead(200, { 'Content-Length': content.length, ETag: '"1"' }).end(content)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    undone.teardown(() => server.close())
    return new Origin((server.address() as AddressInfo).port, byHash)
  }

  /** The URL of a file that was never asked for; those with an even number have a name that gives their digest. */
  newFile(name: string, number: number): string {
    if (number % 2 === 1) return this.url(pathOf(size, `${name}-${number}`))
    const content = packageAt(`${name}-${number}`)
    const digest = createHash('sha256').update(content).digest('hex')
    const path = `/debian/dists/stable/main/binary-all/by-hash/SHA256/${digest}`
    this.#byHash.set(path, content)
    return this.url(path)
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`
  }
}

function packageAt(path: string): Buffer {
  return Buffer.alloc(size, `!<arch>\n${path} `)
}

interface Place {
  readonly directory: string
  readonly origin: Origin
  readonly bucket: BucketProcess | undefined
}

/** A node that is ready, and the seconds until it was. */
async function startNode({ directory, origin, bucket }: Place) {
  await mkdir(directory, { recursive: true })
  const port = await freePort()
  const credentials = join(directory, 'bucket-credentials')
  const { keyId, secret } = storeCredentials
  const text = `aws_access_key_id = ${keyId}\naws_secret_access_key = ${secret}\n`
  await writeFile(credentials, text, { mode: 0o600 })
  const config = {
    cache_directory: join(directory, 'cache'),
    listen: [`127.0.0.1:${port}`],
    domains: [`127.0.0.1:${origin.port}`],
    ...(bucket && {
      shared_store: { url: bucket.url, region: bucket.region, credentials },
    }),
  }
  const file = join(directory, 'cachesvc.yaml')
  // JSON is YAML.
  await writeFile(file, JSON.stringify(config))
  const began = performance.now()
  const command = [join(packageRoot(), 'bin/cachesvc'), '--config', file]
  const options = { port, core: serverCore, output: join(directory, 'output') }
  const node = await Program.start(command, options)
  const { status } = await fetchThrough(port, '/_cachesvc/healthz')
  if (status !== 200) throw new Error(`healthz says ${status}`)
  return { node, seconds: (performance.now() - began) / 1000 }
}

/** Milliseconds until a node has answered with 200. */
async function timeOf(node: Program, url: string): Promise<number> {
  const began = performance.now()
  const { status } = await fetchThrough(node.port, url)
  if (status !== 200) throw new Error(`${url} was answered ${status}`)
  return performance.now() - began
}

/** Waits until a node uses its bucket for everything; a rest is a minute at most. */
async function untilUsed(node: Program): Promise<void> {
  const rests = /^cachesvc_shared_store_(resting 1|uploads_waiting [1-9])/m
  for (let i = 0; i < 700; i += 1) {
    const { content } = await fetchThrough(node.port, '/_cachesvc/metrics')
    if (!rests.test(content.toString())) return
    await pause(100)
  }
  throw new Error('the bucket works, and the node does not use it')
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

function print(...cells: readonly (string | number)[]): void {
  const texts = cells.map(cell => (typeof cell === 'string' ? cell : cell.toFixed(1)))
  process.stdout.write(`| ${texts.join(' | ')} |\n`)
}

interface Stand {
  readonly directory: string
  readonly load: LoadClient
  readonly origin: Origin
  readonly rounds: number
  readonly seconds: number
}

interface Subject {
  readonly state: State
  readonly node: Program
  readonly bucket: BucketProcess | undefined
}

/** `beside` is a node without a bucket that has the same load at the same time. */
async function faults(
  stand: Stand,
  { subjects, beside }: { readonly subjects: readonly Subject[]; readonly beside: Program },
  targets: readonly string[],
) {
  const { load, origin, rounds, seconds } = stand
  const figures = new Map(states.map(state => [state, [] as number[][]]))
  for (let round = 0; round < rounds; round += 1) {
    const turn = (round * 3) % subjects.length
    for (const { state, node, bucket } of [...subjects.slice(turn), ...subjects.slice(0, turn)]) {
      if (bucket !== undefined) await untilUsed(node)
      const before = node.cpu()
      const plan = { targets, connections: 4, interval: 16, requests: 1e6, seconds }
      const hits = load.run(node.port, plan)
      const besides = load.run(beside.port, plan)
      await pause(1000)
      await bucket?.become(state)
      const misses: number[] = []
      const end = performance.now() + (seconds - 1.5) * 1000
      while (performance.now() < end) {
        const url = origin.newFile(`${state.replace(' ', '-')}-${round}`, misses.length)
        misses.push(await timeOf(node, url))
        await pause(betweenMisses)
      }
      const { whole, responses } = await hits
      const { whole: other } = await besides
      const cpu = ((node.cpu() - before) / responses) * 1e6
      await bucket?.become('works')
      const [first = Number.NaN, second = Number.NaN, ...further] = misses
      const { median: middle, p99, max } = whole
      const ofHits = [middle, p99, other.p99, max, other.max]
      figures.get(state)?.push([...ofHits, first, second, Math.max(...further), cpu])
    }
  }
  process.stdout.write('\nHits at 250 a second, and misses; ms, medians of the rounds\n\n')
  const ofHits = ['p50', 'p99', 'p99 beside', 'slowest hit', 'slowest beside']
  const heads = [...ofHits, '1st miss', '2nd miss', 'slowest further miss']
  print('Bucket', ...heads, 'CPU µs a hit, with the misses')
  print('---', ...heads.map(() => '---:'), '---:')
  for (const [state, rows] of figures) {
    print(state, ...(rows[0] ?? []).map((_, i) => median(rows.map(row => row[i] ?? Number.NaN))))
  }
  for (const [state, rows] of figures) {
    const all = rows.map(row => row.map(value => value.toFixed(1)).join(' '))
    process.stdout.write(`${state}: ${all.join('; ')}\n`)
  }
}

async function rate(stand: Stand, subjects: readonly Subject[], targets: readonly string[]) {
  const { load, rounds, seconds } = stand
  const two = subjects.filter(({ state }) => state === 'no bucket' || state === 'works')
  const figures = new Map(two.map(({ state }) => [state, [] as number[][]]))
  const plan = { targets, connections: 32, requests: 1e6, seconds: seconds / 2 }
  for (const { node } of two) await load.run(node.port, plan)
  for (let round = 0; round < 2 * rounds; round += 1) {
    for (const { state, node } of round % 2 === 0 ? two : [...two].reverse()) {
      const before = node.cpu()
      const { responses, seconds: took } = await load.run(node.port, plan)
      const cpu = ((node.cpu() - before) / responses) * 1e6
      figures.get(state)?.push([responses / took, cpu])
    }
  }
  process.stdout.write(`\nHits of ${size} bytes over 32 connections; medians of ${2 * rounds}\n\n`)
  print('Bucket', 'hits/s', 'CPU µs a hit')
  print('---', '---:', '---:')
  for (const [state, rows] of figures) {
    print(state, median(rows.map(([hits = 0]) => hits)), median(rows.map(([, cpu = 0]) => cpu)))
  }
  for (const [state, rows] of figures) {
    const all = rows.map(row => row.map(value => value.toFixed(1)).join(' '))
    process.stdout.write(`${state}: ${all.join('; ')}\n`)
  }
}

async function start(stand: Stand, undone: Undone) {
  const { directory, origin, rounds } = stand
  const bucket = await BucketProcess.start(undone)
  await bucket.tell({ fill: stored })
  const figures = new Map<State, number[][]>()
  for (let round = 0; round <= rounds; round += 1) {
    for (const state of ['no bucket', 'works'] as const) {
      const own = join(directory, `start-${state.replace(' ', '-')}`)
      if (round === 0) {
        const store = join(own, 'cache/v2')
        await mkdir(store, { recursive: true })
        const log = createWriteStream(join(store, 'entries.log'))
        await pipeline(Readable.from(entries(stored)), log)
      }
      const place = { directory: own, origin, bucket: state === 'works' ? bucket : undefined }
      const { node, seconds } = await startNode(place)
      await pause(3000)
      const [cpu, rss] = [node.cpu(), node.rss()]
      const pages: number[] = []
      for (const path of ['/_cachesvc/', '/_cachesvc/cache']) {
        const times: number[] = []
        for (let i = 0; i < 5; i += 1) times.push(await timeOf(node, path))
        pages.push(median(times))
      }
      await node.stop()
      // The first start reads what no stop has left in order.
      if (round > 0) {
        const rows = figures.get(state) ?? []
        figures.set(state, [...rows, [seconds * 1000, cpu * 1000, rss, ...pages]])
      }
    }
  }
  process.stdout.write(`\n${stored} files in the bucket and on the disk; medians of ${rounds}\n\n`)
  const heads = ['ready, ms', 'CPU ms until 3 s after', 'memory, MB', 'overview, ms', 'cache, ms']
  print('Bucket', ...heads)
  print('---', ...heads.map(() => '---:'))
  for (const [state, rows] of figures) {
    print(state, ...(rows[0] ?? []).map((_, i) => median(rows.map(row => row[i] ?? Number.NaN))))
  }
}

async function main(): Promise<void> {
  const [rounds = 3, seconds = 8] = process.argv.slice(2).map(Number)
  const undone = new Undone()
  const directory = await mkdtemp(join(tmpdir(), 'shared-store-'))
  undone.teardown(() => rm(directory, { recursive: true, force: true }))
  try {
    const load = await LoadClient.compile(directory)
    const origin = await Origin.start(undone)
    const stand = { directory, load, origin, rounds, seconds }
    const targets = Array.from({ length: files }, (_, i) => origin.url(pathOf(size, `hit-${i}`)))
    const warmNode = async (name: string, bucket?: BucketProcess) => {
      const own = join(directory, name.replace(' ', '-'))
      const { node } = await startNode({ directory: own, origin, bucket })
      undone.teardown(() => node.stop())
      for (let round = 0; round < 2; round += 1) await load.run(node.port, { targets })
      // Until the program is compiled.
      await load.run(node.port, { targets, connections: 8, requests: 1e6, seconds: 2 })
      return node
    }
    const subjects: Subject[] = []
    for (const state of states) {
      const bucket = state === 'no bucket' ? undefined : await BucketProcess.start(undone)
      subjects.push({ state, node: await warmNode(state, bucket), bucket })
    }
    const beside = await warmNode('beside')
    await faults(stand, { subjects, beside }, targets)
    await rate(stand, subjects, targets)
    await start(stand, undone)
  } finally {
    await undone.undo()
  }
}

if (process.argv[2] === 'bucket') await beBucket()
else await main()
