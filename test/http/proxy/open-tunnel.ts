import { once } from 'node:events'
import { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { BlockPool, socketBlock } from '../../../lib/bytes/block-pool.ts'
import { Transport } from '../../../lib/http/client/connection.ts'
import { openTunnel } from '../../../lib/http/proxy/tunnel.ts'
import { shareReadMemory } from '../../../lib/http/server/connections.ts'
import { listener } from '../../fixtures/http/listener.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

const never = new AbortController().signal

t.test('a client that has ended before the tunnel stands gets its answer', async t => {
  for (const said of ['', 'question']) {
    const near = await listener(t)
    const distant = await listener(t)
    const [client, accepted] = await Promise.all([RawClient.connect(t, near.port), near.accepted()])
    const clientSide = shareReadMemory(accepted)
    client.end()
    clientSide.resume()
    await once(clientSide, 'end')
    const blocks = new BlockPool({ limit: 8 * socketBlock })
    const tunnel = openTunnel({
      ...{ client: clientSide, head: Buffer.from(said), idle: 1000 },
      ...{ clock: systemClock, signal: never },
      dial: async () => {
        const far = Transport.connect({ port: distant.port, host: '127.0.0.1' }, blocks)
        await once(far.socket, 'connect')
        return far
      },
    })
    const far = RawClient.over(await distant.accepted())
    t.equal((await far.rest()).toString(), said)
    await far.write('answer')
    far.end()
    t.match((await client.rest()).toString(), /200 .*answer$/s)
    t.match(await tunnel, { up: said.length, down: 6, because: 'ended' })
  }
})

t.test('200 is said only when the far side is connected', async t => {
  const near = await listener(t)
  const distant = await listener(t)
  const [client, clientSide] = await Promise.all([RawClient.connect(t, near.port), near.accepted()])
  let connected: (far: Transport) => void = () => {}
  const blocks = new BlockPool({ limit: 0 })
  const far = Transport.connect({ port: distant.port, host: '127.0.0.1' }, blocks)
  const farEnd = RawClient.over(await distant.accepted())
  const tunnel = openTunnel({
    client: clientSide,
    head: Buffer.from('early'),
    dial: () => new Promise(resolve => (connected = resolve)),
    idle: 1000,
    clock: systemClock,
    signal: never,
  })
  await nextTurn()
  t.equal(clientSide.bytesWritten, 0)
  connected(far)
  t.match(await client.response({ to: 'CONNECT' }), {
    status: 200,
    reason: 'Connection Established',
  })
  t.equal((await farEnd.bytes(5)).toString(), 'early')
  client.end()
  farEnd.end()
  t.strictSame(await tunnel, { up: 5, down: 0, because: 'ended' })
})

t.test('a failed attempt is thrown and leaves the client to be told', async t => {
  const near = await listener(t)
  const [, clientSide] = await Promise.all([RawClient.connect(t, near.port), near.accepted()])
  const options = { client: clientSide, idle: 1000, clock: systemClock, signal: never }
  const dial = () => Promise.reject(new Error('no way'))
  await t.rejects(openTunnel({ ...options, dial }), { message: 'no way' })
  t.equal(clientSide.bytesWritten, 0)
  t.ok(clientSide.writable)
})

t.test('a client that leaves ends the attempt', async t => {
  const client = new Socket()
  const tunnel = openTunnel({
    client,
    dial: signal =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('gone')))),
    idle: 1000,
    clock: systemClock,
    signal: never,
  })
  client.destroy()
  await t.rejects(tunnel, { message: 'gone' })
})
