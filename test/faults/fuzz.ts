/**
 * Ten thousand hostile requests from a seed: no crash, memory comes back, hits are still right.
 * FUZZ_SEED repeats a run, FUZZ_REQUESTS changes its length.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { type Lab, noLab, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { Noise } from '../fixtures/chance/noise.ts'
import { hostileRequest } from '../fixtures/http/hostile-requests.ts'

const { FUZZ_SEED: seed = '1', FUZZ_REQUESTS: count = '10000' } = process.env
const requests = Number(count)
/** Connections at once. */
const width = 40
/** Milliseconds a connection may stay silent before we leave: a server may wait for the rest of a head. */
const silence = 300
/** Milliseconds for each half, so that a slow machine sends fewer requests instead of failing. */
const budget = 25_000

t.setTimeout(600_000)

t.test(`${count} hostile requests, seed ${seed}`, { skip: noLab }, async t => {
  const lab = await setUp(t)
  const hit = '/debian/pool/main/a/alpha/alpha_1.0_amd64.deb'
  const paths: readonly [string, ...string[]] = [
    hit,
    '/debian/dists/test/InRelease',
    '/debian/pool/main/b/beta++/beta%2b%2b_1.0%2bb%7e2_amd64.deb',
    '/debian/dists/test/main/binary-amd64/by-hash/SHA256/00ff',
    '/flat/./Packages.xz',
    '/nothing/here',
  ]
  const targets = { origin: lab.origin.authority, paths }

  // Memory is compared between two halves: the first brings code, caches and heap to their size, the second must not add.
  const noise = new Noise(seed)
  const half = { targets, count: requests / 2 }
  const first = await bombard(lab.proxy.port, noise, half)
  t.ok(await isRight(lab, hit), 'after the first half a hit is served right')
  const before = await settledMemory(lab)
  const second = await bombard(lab.proxy.port, noise, half)
  t.comment(`${first + second} requests sent`)

  t.ok(lab.proxy.running, 'it still runs', { output: lab.proxy.output.slice(-2000) })
  t.ok(await isRight(lab, hit), 'a hit is still served right')
  if (peerUnderTest === false) {
    const operations = await lab.fetch('/_cachesvc/api/stats', { Host: 'localhost' })
    t.equal(operations.status, 200, 'and so are the operations')
  }
  const after = await settledMemory(lab, before * 1.2)
  const [was, is] = [before, after].map(bytes => `${(bytes / 2 ** 20).toFixed(0)} MiB`)
  t.ok(after <= before * 1.2, `memory: ${was} before, ${is} after`)
  t.equal(await lab.proxy.stop(), 0, 'it stops in order', { skip: peerUnderTest })
})

async function isRight(lab: Lab, path: string): Promise<boolean> {
  const answer = await lab.fetch(lab.origin.url + path)
  const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  return digest(answer.content) === digest(await readFile(join(lab.archive.root, path)))
}

/** Resident memory once it no longer falls, or is below `enough`; at most 15 s. */
async function settledMemory(lab: Lab, enough = 0): Promise<number> {
  let least = await lab.proxy.memory()
  for (let round = 0; round < 15; round += 1) {
    // A few requests give the collector an occasion.
    for (let i = 0; i < 20; i += 1) await lab.fetch(`${lab.origin.url}/flat/InRelease`)
    await pause(enough === 0 ? 100 : 1000)
    least = Math.min(least, await lab.proxy.memory())
    if (least <= enough || (enough === 0 && round === 3)) break
  }
  return least
}

interface Plan {
  readonly targets: Parameters<typeof hostileRequest>[1]
  readonly count: number
}

/** Sends the plan's requests over `width` connections at a time; answers how many were sent in the budget. */
async function bombard(port: number, noise: Noise, { targets, count }: Plan): Promise<number> {
  const end = performance.now() + budget
  let sent = 0
  const one = async () => {
    while (sent < count && performance.now() < end) {
      sent += 1
      await sendAndLeave(port, hostileRequest(noise, targets), noise.below(10))
    }
  }
  await Promise.all(Array.from({ length: width }, one))
  return sent
}

/** Writes the bytes and leaves in one of several ways: after the answer, politely at once, rudely at once. */
function sendAndLeave(port: number, bytes: Buffer, manner: number): Promise<void> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.setTimeout(silence, () => socket.destroy())
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    socket.on('connect', () => {
      if (manner < 6) socket.end(bytes)
      else socket.write(bytes, () => manner === 6 && socket.resetAndDestroy())
      if (manner === 7) socket.destroy()
    })
    socket.on('data', () => {
      if (manner === 8) socket.resetAndDestroy()
      if (manner === 9) socket.destroy()
    })
  })
}
