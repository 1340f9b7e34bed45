/** Clients that read slowly and steadily: what moves is not stalled, however large one write is and whatever the kernel holds of it. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import {
  bytesTaken,
  confirmedMovement,
  connectionPorts,
  longestPause,
  movementSince,
  readUnconfirmed,
  unobservedMovement,
} from '../../../lib/http/server/movement.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { RawClient, type Teardown } from '../../fixtures/http/raw-client.ts'
import { serveForTest, type TestServer } from '../../fixtures/http/server.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const minute = 60_000
/** As often as connections are looked at. */
const step = 5000
/** The client reads as often. */
const pause = 15_000
/** Of the one write: more than the buffers of the kernel take at once. */
const size = 24 * 1024 * 1024
const authority = makeAuthority()

t.setTimeout(600_000)

type Way = 'fast path' | 'Node' | 'TLS'

interface Slow extends TestServer {
  readonly client: RawClient
  readonly clock: ManualClock
}

/** A client of a large response in memory, whose head it has read. */
async function slowClient(t: Teardown, way: Way, slowest?: number): Promise<Slow> {
  const clock = new ManualClock(0)
  const identity = authority.issue({ names: ['localhost'] })
  const content = { kind: 'bytes', bytes: Buffer.alloc(size) } as const
  const answer: Response = { status: 200, fields: Fields.empty, content }
  const times = { taking: minute, stalled: minute, idle: minute, headTime: minute }
  const limits = slowest === undefined ? times : { ...times, slowest }
  const served = await serveForTest(t, async () => answer, {
    ...{ clock, limits, fastPath: way !== 'Node' },
    ...(way === 'TLS' ? { tls: { identity, contextFor: async () => undefined } } : {}),
  })
  const tls = { ca: [authority.cert], servername: 'localhost' }
  const client = await RawClient.connect(t, served.port, way === 'TLS' ? { tls } : {})
  await client.request('GET', '/')
  await client.head()
  return { ...served, client, clock }
}

/** Lets the client read so many bytes in each pause, for so many minutes. */
async function readFor({ client, clock, exchanges }: Slow, bytes: number, minutes: number) {
  for (let passed = 0; passed < minutes * minute && exchanges.length === 0; passed += pause) {
    await client.bytes(bytes)
    clock.advance(pause)
  }
}

// In these tests the client reads what it reads of a minute in a moment, so the kernel's buffers grow as for a fast one, and move in pieces
// of a megabyte or two.
const steadily = 1024 * 1024

for (const way of ['fast path', 'Node', 'TLS'] as const) {
  t.test(`a client is not cut that needs minutes for one write: ${way}`, async t => {
    const slow = await slowClient(t, way)
    await readFor(slow, steadily, 3)
    t.equal(slow.exchanges.length, 0)
    t.equal(slow.server.connections, 1)
  })

  t.test(`a client that reads and then stops is cut in the end: ${way}`, async t => {
    const slow = await slowClient(t, way)
    await readFor(slow, steadily, 2)
    t.equal(slow.exchanges.length, 0)
    // Whether the kernel has moved anything is asked for between two looks, and takes a turn.
    for (let passed = 0; passed < 14 * minute && slow.exchanges.length === 0; passed += step) {
      slow.clock.advance(step)
      await new Promise(setImmediate)
    }
    t.match(slow.exchanges, [{ complete: false }])
  })

  t.test(`a client that reads a few bytes a minute is cut: ${way}`, async t => {
    const slow = await slowClient(t, way)
    await readFor(slow, 100, 4)
    t.match(slow.exchanges, [{ complete: false, request: { slowClient: true } }])
  })
}

t.test('how much a client has to read is a limit', async t => {
  const demanding = await slowClient(t, 'fast path', 1024 * 1024)
  await readFor(demanding, steadily, 4)
  t.match(demanding.exchanges, [{ complete: false }])
  const when = { now: minute, taking: minute, slowest: 0 }
  const before = movementSince(
    unobservedMovement,
    { taken: 10, read: 5, waits: true },
    { ...when, now: 0 },
  )
  t.match(movementSince(before, { taken: 11, read: 5, waits: true }, when), { takenSince: minute })
  t.match(movementSince(before, { taken: 10, read: 5, waits: true }, when), { takenSince: 0 })
})

const kernelMoves = 1_300_000
const confirms = 95_000

/** The longest time for which a client seems to take nothing: it reads so many bytes a second, and the kernel tells of them in pieces. */
function longestStill(rate: number, { asksKernel }: { readonly asksKernel: boolean }): number {
  let [moved, longest] = [unobservedMovement, 0]
  for (let now = 0; now < 20 * minute; now += step) {
    const read = (rate * now) / 1000
    const when = { now, taking: minute }
    const taken = Math.floor(read / kernelMoves) * kernelMoves
    moved = movementSince(moved, { taken, read: 0, waits: true }, when)
    if (asksKernel && now - moved.takenSince >= minute / 2) {
      moved = confirmedMovement(moved, Math.floor(read / confirms) * confirms, when)
    }
    longest = Math.max(longest, now - moved.takenSince)
  }
  return longest
}

t.test('what the client confirms counts while the kernel takes no more', async t => {
  for (const kilobytes of [150, 60, 20, 10, 6]) {
    t.ok(longestStill(kilobytes * 1000, { asksKernel: true }) < minute, `${kilobytes} KB/s`)
  }
  t.ok(longestStill(20_000, { asksKernel: false }) >= minute, 'where the kernel does not tell')
  t.ok(longestStill(500, { asksKernel: true }) >= minute, 'slower than 1 KiB a second')
  t.ok(longestStill(0, { asksKernel: true }) >= minute)
})

t.test('a client that reads megabytes at once may pause for minutes, and not for ever', async t => {
  const cutAfter = (read: number): number => {
    const taken = read + 4_000_000
    // By the first look the kernel has taken all that it can; the second one finds the process between two blocks.
    const when = { now: 0, taking: minute }
    let moved = movementSince(unobservedMovement, { taken: taken - 1, read: 0, waits: true }, when)
    moved = movementSince(moved, { taken, read: 0, waits: false }, { now: 1, taking: minute })
    for (let now = step; ; now += step) {
      const when = { now, taking: minute }
      moved = movementSince(moved, { taken, read: 0, waits: true }, when)
      if (now - moved.takenSince >= minute / 2) moved = confirmedMovement(moved, read, when)
      const still = now - moved.takenSince
      if (still >= minute * (moved.fastBefore ? longestPause : 1)) return now
    }
  }
  t.ok(cutAfter(128 * 1024) <= minute + step, 'what the kernel takes without a reader')
  t.ok(cutAfter(1_000_000) <= 2 * minute)
  t.ok(cutAfter(6_200_000) > 5 * minute)
  t.ok(cutAfter(1e9) <= 6 * minute + step)
})

t.test('a client that waits for a slow handler moves nothing, and all of it counts', async t => {
  const when = { now: 0, taking: minute }
  const first = movementSince(unobservedMovement, { taken: 10, read: 5, waits: false }, when)
  const later = movementSince(first, { taken: 10, read: 5, waits: false }, { ...when, now: 9000 })
  t.match(later, { takenSince: 9000, allSince: 0 }, 'nothing waits to be taken')
  const told = movementSince(later, { taken: 10, read: 6, waits: false }, { ...when, now: 9500 })
  t.match(told, { allSince: 9500 })
})

const linux = process.platform === 'linux' ? false : 'only Linux tells'

t.test('the kernel tells what a client has not confirmed', { skip: linux }, async t => {
  const accepted = new Promise<{ socket: Socket; port: number }>(resolve => {
    const server = createServer(socket => resolve({ socket, port })).listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    let port = 0
    server.once('listening', () => {
      port = (server.address() as AddressInfo).port
      const client = connect(port, '127.0.0.1')
      client.pause()
      t.teardown(() => client.destroy())
    })
  })
  const { socket } = await accepted
  t.teardown(() => socket.destroy())
  socket.write(Buffer.alloc(size))
  const held = () => readUnconfirmed().get(connectionPorts(socket)) ?? 0
  await until(() => held() > 0)
  const taken = bytesTaken(socket)
  t.ok(taken > 0)
  t.ok(taken < size, 'of one write a part is taken')
  t.ok(held() <= bytesTaken(socket))
})
