/**
 * Memory: idle, with many connections, after much work; and a start with a million entries.
 */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { encodeRecord } from '../../lib/cache/store/catalogue/entry-log.ts'
import { pathOf } from '../bare/content.ts'
import type { Program } from '../subject.ts'
import { proxies, type Row, type Stage, series, urlOf } from './row.ts'

/** Each proxy is started anew, so that what other rows left in memory does not count. */
export const memory: Row = {
  title: 'Memory',
  note: 'proportional set size of all processes, each proxy started anew',
  figures: {
    idle: { title: 'idle, MB', better: 'less' },
    connections: { title: 'most with 500 connections, MB', better: 'less' },
    half: { title: 'after half of the work, MB', better: 'less' },
    work: { title: 'after 100,000 requests and 20 GB, MB', better: 'less' },
    growth: { title: 'growth in the second half, MB', better: 'less' },
  },
  subjects: proxies,
  once: true,
  async run(stage) {
    const program = await stage.start(join(stage.directory, 'memory'))
    try {
      await pause(stage.effort.rest)
      const idle = program.pss()
      const connections = await mostWithConnections(stage, program)
      const half = await afterWork(stage, program)
      const work = await afterWork(stage, program)
      return { idle, connections, half, work, growth: work - half }
    } finally {
      await program.stop()
    }
  },
}

export const million: Row = {
  title: 'A start with a million entries',
  note: 'from starting the process until /_cachesvc/healthz answers; no contents, which a start does not read',
  figures: {
    first: { title: 'ready after a stop that wrote no snapshot, s', better: 'less' },
    ready: { title: 'ready, s', better: 'less' },
    rss: { title: 'resident memory, MB', better: 'less' },
  },
  subjects: ['cachesvc'],
  once: true,
  async run(stage) {
    const directory = join(stage.directory, 'million')
    const store = join(directory, 'cache/v2')
    await mkdir(store, { recursive: true })
    const lines = Readable.from(entries(stage.effort.entries))
    await pipeline(lines, createWriteStream(join(store, 'entries.log')))
    const first = await start(stage, directory)
    await first.program.stop()
    const second = await start(stage, directory)
    await pause(1000)
    const rss = second.program.rss()
    await second.program.stop()
    return { first: first.seconds, ready: second.seconds, rss }
  },
}

async function start(stage: Stage, directory: string) {
  const began = performance.now()
  const program = await stage.start(directory)
  const response = await fetch(`http://127.0.0.1:${program.port}/_cachesvc/healthz`)
  if (!response.ok) throw new Error(`healthz says ${response.status}`)
  return { program, seconds: (performance.now() - began) / 1000 }
}

async function mostWithConnections(stage: Stage, program: Program): Promise<number> {
  const targets = series('small', 200).map(name => urlOf(stage, pathOf(10_000, name)))
  const { seconds } = stage.effort
  await stage.load.run(program.port, { targets })
  let most = 0
  let over = false
  const run = stage.load
    .run(program.port, { targets, connections: 500, requests: 1e6, seconds })
    .finally(() => {
      over = true
    })
  while (!over) {
    await Promise.race([run, pause(100)])
    most = Math.max(most, program.pss())
  }
  await run
  return most
}

/** Half of the requests and of the bytes. */
async function afterWork(stage: Stage, program: Program): Promise<number> {
  const { requests, gigabytes } = stage.effort
  const small = series('small', 200).map(name => urlOf(stage, pathOf(10_000, name)))
  const large = [urlOf(stage, pathOf(100_000_000, 'large-0'))]
  const plans = [
    { targets: small, connections: 32, requests: requests / 2 },
    { targets: large, connections: 4, requests: (gigabytes / 2) * 10 },
  ]
  for (const plan of plans) await stage.load.run(program.port, { ...plan, seconds: 120 })
  await pause(stage.effort.rest)
  return program.pss()
}

/** A log of entries as the daemon leaves it. Contents are not there: a start reads none. */
export function* entries(count: number): Generator<Buffer> {
  const header = encodeRecord({ is: 'header', generation: '0123456789abcdef' })
  let position = header.length
  yield header
  const now = Date.now()
  const used = Math.floor(now / 1000)
  const lastModified = new Date(now).toUTCString()
  for (let i = 0; i < count; i += 1) {
    const path = `/debian/pool/main/libe/libexample${i % 1000}/libexample${i}-dev_1.2.3-${i}_amd64.deb`
    const digest = createHash('sha256').update(path).digest('hex')
    const fields = [
      ['Content-Type', 'application/vnd.debian.binary-package'],
      ['Last-Modified', lastModified],
      ['ETag', `"${digest.slice(0, 16)}"`],
    ] as const
    const moments = { stored: now, validated: now, initialAge: 0 }
    const key = `http://archive.example.org${path}`
    const entry = { key, fields, digest, size: 10_000 + i, lastModified, ...moments }
    const line = encodeRecord({ is: 'entry', entry, used })
    position += line.length
    yield line
  }
  yield encodeRecord({ is: 'durable', durable: position, unproven: [], clean: true })
}
