import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { BlockPool, socketBlock } from '../../../lib/bytes/block-pool.ts'
import { Transport } from '../../../lib/http/client/connection.ts'
import { join, type TunnelOptions } from '../../../lib/http/proxy/tunnel.ts'
import { shareReadMemory } from '../../../lib/http/server/connections.ts'
import { listener } from '../../fixtures/http/listener.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { RawClient, type Teardown } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const never = new AbortController().signal

interface JoinedOptions extends Partial<TunnelOptions> {
  readonly farHead?: Buffer
  /** Sent by the client, and read into its stream, before the tunnel stands. */
  readonly early?: string
  /** Whether the client's connection is as Node accepts it, as those with TLS are. */
  readonly asAccepted?: boolean
}

/** A client and a far side, each joined through a socket of ours. */
async function joined(t: Teardown, given: JoinedOptions = {}) {
  const { farHead = Buffer.alloc(0), early, asAccepted = false, ...options } = given
  const near = await listener(t)
  const distant = await listener(t)
  const [client, accepted] = await Promise.all([RawClient.connect(t, near.port), near.accepted()])
  const clientSide = asAccepted ? accepted : shareReadMemory(accepted)
  t.teardown(() => clientSide.destroy())
  const blocks = new BlockPool({ limit: 8 * socketBlock })
  const far = Transport.connect({ port: distant.port, host: '127.0.0.1' }, blocks)
  const [farEnd] = await Promise.all([distant.accepted(), once(far.socket, 'connect')])
  const farClient = RawClient.over(farEnd)
  far.give(farHead)
  if (early !== undefined) {
    await Promise.all([client.write(early), once(clientSide, 'readable')])
    clientSide.removeAllListeners('readable').pause()
  }
  const tunnel = join({
    client: clientSide,
    far,
    idle: 1000,
    clock: systemClock,
    signal: never,
    ...options,
  })
  t.teardown(() => until(() => blocks.used === 0))
  return { client, far: farClient, tunnel, blocks, sockets: [clientSide, far.socket] }
}

t.test('bytes pass both ways and are counted, the head goes first', async t => {
  for (const asAccepted of [false, true]) {
    const told: number[] = []
    const { client, far, tunnel } = await joined(t, {
      head: Buffer.from('head '),
      farHead: Buffer.from('hi '),
      early: 'early ',
      onBytes: count => told.push(count),
      asAccepted,
    })
    t.equal((await far.bytes(11)).toString(), 'head early ')
    await client.write('up')
    t.equal((await far.bytes(2)).toString(), 'up')
    await far.write('down')
    t.equal((await client.bytes(7)).toString(), 'hi down')
    client.end()
    far.end()
    t.strictSame(await tunnel, { up: 13, down: 7, because: 'ended' })
    t.strictSame(told.sort(), [2, 3, 4, 5, 6])
  }
})

t.test('small and large writes of a side stay in order', async t => {
  const { client, far, tunnel } = await joined(t, { idle: 60_000 })
  const parts = Array.from({ length: 300 }, (_, n) => Buffer.alloc(1 + ((n * 977) % 9000), n))
  const all = Buffer.concat(parts)
  for (const [from, to] of [
    [client, far],
    [far, client],
  ] as const) {
    const arrived = to.bytes(all.length)
    for (const part of parts) await from.write(part)
    t.ok((await arrived).equals(all))
  }
  client.end()
  far.end()
  t.match(await tunnel, { up: all.length, down: all.length, because: 'ended' })
})

t.test('the end of one side is passed on while the other goes on', async t => {
  for (const first of ['client', 'far'] as const) {
    const pair = await joined(t)
    const one = pair[first]
    const other = pair[first === 'client' ? 'far' : 'client']
    await one.write('question')
    one.end()
    t.equal((await other.rest()).toString(), 'question')
    t.equal(await other.ended, 'fin')
    await other.write('a late answer')
    other.end()
    t.equal((await one.rest()).toString(), 'a late answer', first)
    t.match(await pair.tunnel, { because: 'ended' })
  }
})

t.test('a side that does not read stops the other', async t => {
  const { client, far, tunnel } = await joined(t, { idle: 60_000 })
  const block = Buffer.alloc(1 << 20, 'x')
  const total = 64
  let written = 0
  const writing = (async () => {
    for (let i = 0; i < total; i += 1) {
      await client.write(block)
      written += 1
    }
    client.end()
  })()
  // The far side takes a byte at a time: had nobody stopped the client, it would be done long before.
  for (let i = 0; i < 300; i += 1) {
    await far.bytes(1)
    await nextTurn()
  }
  t.ok(written < total / 2, `${written} MiB of ${total} are under way`)
  t.equal((await far.rest()).length, total * block.length - 300)
  await writing
  far.end()
  t.match(await tunnel, { up: total * block.length, because: 'ended' })
})

t.test('a client that does not read holds little, and less when blocks are scarce', async t => {
  for (const [scarce, most] of [
    [false, 3 * socketBlock],
    [true, 512 * 1024],
  ] as const) {
    const { client, far, tunnel, blocks, sockets } = await joined(t, { idle: 60_000 })
    const taken = scarce ? Array.from({ length: 8 }, () => blocks.take(socketBlock)) : []
    const block = Buffer.alloc(1 << 20, 'x')
    const writing = (async () => {
      for (let i = 0; i < 64; i += 1) await far.write(block)
      far.end()
    })()
    let held = 0
    for (let i = 0; i < 300; i += 1) {
      await client.bytes(1)
      await nextTurn()
      held = Math.max(held, sockets[0]?.writableLength ?? 0)
    }
    t.ok(held > 0 && held <= most, `${held} bytes wait`)
    t.equal((await client.rest()).length, 64 * block.length - 300)
    await writing
    client.end()
    t.match(await tunnel, { down: 64 * block.length, because: 'ended' })
    for (const one of taken) one?.release()
  }
})

t.test('silence in both directions ends the tunnel, and a byte in either puts it off', async t => {
  const clock = new ManualClock(0)
  const { client, far, tunnel, sockets } = await joined(t, { clock, idle: 1000 })
  clock.advance(900)
  await client.write('x')
  await far.bytes(1)
  await nextTurn()
  clock.advance(900)
  await far.write('y')
  await client.bytes(1)
  await nextTurn()
  clock.advance(999)
  t.notOk(sockets.some(socket => socket.destroyed))
  clock.advance(1)
  t.strictSame(await tunnel, { up: 1, down: 1, because: 'idle' })
  t.ok(sockets.every(socket => socket.destroyed))
})

t.test('a side that has ended is not held open for one that stays silent', async t => {
  for (const first of ['client', 'far'] as const) {
    const clock = new ManualClock(0)
    const pair = await joined(t, { clock, idle: 150_000 })
    const one = pair[first]
    const other = pair[first === 'client' ? 'far' : 'client']
    clock.advance(135_000)
    one.end()
    t.equal(await other.ended, 'fin')
    clock.advance(14_999)
    await other.write('still there')
    await one.bytes(11)
    await nextTurn()
    clock.advance(14_999)
    t.notOk(pair.sockets.some(socket => socket.destroyed))
    clock.advance(1)
    t.match(await pair.tunnel, { because: 'idle' })
    t.ok(pair.sockets.every(socket => socket.destroyed))
  }
})

t.test('a side that takes slowly what it is sent has its time, though it has ended', async t => {
  const clock = new ManualClock(0)
  const { client, far, tunnel, sockets } = await joined(t, { clock, idle: 150_000 })
  client.end()
  t.equal(await far.ended, 'fin')
  void far.write(Buffer.alloc(64 << 20)).catch(() => {})
  while (sockets[0]?.writableLength === 0) await nextTurn()
  for (let i = 0; i < 50; i += 1) await nextTurn()
  clock.advance(149_999)
  t.notOk(sockets.some(socket => socket.destroyed))
  clock.advance(1)
  t.match(await tunnel, { because: 'idle' })
})

t.test('a broken connection takes the other with it', async t => {
  for (const [which, because] of [
    ['client', 'client-broke'],
    ['far', 'far-broke'],
  ] as const) {
    const pair = await joined(t)
    await pair[which].reset()
    t.match(await pair.tunnel, { because })
    t.ok(pair.sockets.every(socket => socket.destroyed))
  }
})

t.test('the signal ends the tunnel', async t => {
  const control = new AbortController()
  const { client, tunnel } = await joined(t, { signal: control.signal })
  control.abort()
  t.match(await tunnel, { because: 'aborted' })
  t.equal((await client.rest()).length, 0)
})
