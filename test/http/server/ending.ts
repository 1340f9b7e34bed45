/**
 * How connections end: a client loses neither a request that it has sent nor the tail of a response.
 */
import t, { type Test } from 'tap'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { get, pathOf, text } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const authority = makeAuthority()
const identity = authority.issue({ names: ['127.0.0.1'] })
const secure = {
  server: { tls: { identity, contextFor: async () => undefined } },
  client: { tls: { ca: authority.cert, host: '127.0.0.1' } },
}

t.test('a client that ends its side after its requests gets their answers', async t => {
  const gate = new Gate()
  const { port } = await serveForTest(t, async request => {
    const path = pathOf(request)
    if (path === '/late') await gate.pass()
    return text(path === '/large' ? 'x'.repeat(1 << 22) : path)
  })
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}${get('/large')}${get('/late')}`)
  client.end()
  t.equal((await client.response()).text, '/1')
  t.equal((await client.response()).content.length, 1 << 22)
  gate.open()
  t.equal((await client.response()).text, '/late')
  t.equal(await client.ended, 'fin')
})

t.test('a client that has ended its side is waited for no longer than some seconds', async t => {
  const clock = new ManualClock(0)
  const gate = new Gate()
  const { port, server } = await serveForTest(
    t,
    async request => {
      if (pathOf(request) === '/late') await gate.pass()
      return text(pathOf(request))
    },
    { clock },
  )
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}${get('/late')}`)
  await gate.reached
  client.end()
  t.equal((await client.response()).text, '/1')
  for (let n = 0; n < 20; n += 1) await new Promise(resolve => setImmediate(resolve))
  clock.advance(5000)
  t.equal(await client.ended, 'fin')
  t.ok(await eventually(() => server.connections === 0))
  gate.open()
})

const kinds = {
  'the fast path': { server: {}, client: {} },
  "Node's server": { server: { fastPath: false }, client: {} },
  TLS: secure,
}

for (const [kind, { server: how, client: over }] of Object.entries(kinds)) {
  const bench = async (t: Test, clock?: ManualClock) => {
    const served = await serveForTest(t, async request => text(pathOf(request)), {
      ...how,
      ...(clock && { clock }),
    })
    const connect = async () => {
      const before = served.server.connections
      const client = await RawClient.connect(t, served.port, over)
      t.ok(await eventually(() => served.server.connections > before))
      return client
    }
    const close = () => served.server.close(AbortSignal.timeout(20_000))
    return { ...served, connect, close }
  }

  t.test(`${kind}: what a client has sent when the server stops is answered`, async t => {
    const { connect, close, exchanges } = await bench(t)
    const fresh = await connect()
    const used = await connect()
    t.equal((await used.get('/first')).text, '/first')
    // The kernel has both; the server has read neither.
    const sent = [fresh.write(get('/fresh')), used.write(get('/used'))]
    const closed = close()
    await Promise.all(sent)
    for (const [client, path] of [
      [fresh, '/fresh'],
      [used, '/used'],
    ] as const) {
      const answer = await client.response()
      t.equal(answer.text, path)
      t.equal(answer.fields.get('Connection'), 'close')
      t.equal(await client.ended, 'fin')
      client.end()
    }
    await closed
    t.equal(exchanges.length, 3)
  })

  t.test(`${kind}: a new connection has a moment for its first request`, async t => {
    const clock = new ManualClock(0)
    const { connect, close } = await bench(t, clock)
    const [late, silent] = [await connect(), await connect()]
    const closed = close()
    t.equal((await late.get('/late')).text, '/late')
    t.equal(await late.ended, 'fin')
    late.end()
    clock.advance(1000)
    t.equal(await silent.ended, 'fin')
    silent.end()
    await closed
  })

  t.test(`${kind}: an answer says that the server is about to stop`, async t => {
    const { connect, close, server } = await bench(t)
    const client = await connect()
    t.equal((await client.get('/1')).fields.get('Connection'), 'keep-alive')
    server.announceEnd()
    t.equal((await client.get('/2')).fields.get('Connection'), 'close')
    t.equal(await client.ended, 'fin')
    client.end()
    t.ok(await eventually(() => server.connections === 0))
    const another = await connect()
    t.equal((await another.get('/3')).text, '/3')
    another.end()
    await close()
  })

  t.test(`${kind}: a client that asks while its connection ends sees an end, no reset`, async t => {
    const { connect, close, exchanges } = await bench(t)
    const client = await connect()
    await client.get('/1')
    const closed = close()
    await client.ended
    await client.write(get('/2'))
    await new Promise(resolve => setImmediate(resolve))
    client.end()
    await closed
    t.equal(client.socket.errored, null)
    t.equal(exchanges.length, 1)
  })

  t.test(`${kind}: what follows the last answer is not processed`, async t => {
    const gate = new Gate()
    const begun: string[] = []
    const { port, server } = await serveForTest(
      t,
      async request => {
        begun.push(pathOf(request))
        await gate.pass()
        return text('x'.repeat(1 << 22))
      },
      how,
    )
    const client = await RawClient.connect(t, port, over)
    await client.write(get('/1'))
    await gate.reached
    server.announceEnd()
    gate.open()
    t.equal((await client.head()).fields.get('Connection'), 'close')
    for (let i = 2; i < 50; i += 1) await client.write(get(`/${i}`))
    t.equal((await client.bytes(1 << 22)).length, 1 << 22, 'nothing of it is lost')
    t.equal(await client.ended, 'fin')
    t.strictSame(begun, ['/1'])
    client.end()
  })

  t.test(`${kind}: a client that never ends its side is closed after a while`, async t => {
    const clock = new ManualClock(0)
    const { connect, server } = await bench(t, clock)
    const client = await connect()
    await client.write(get('/', 'Connection: close\r\n'))
    t.equal((await client.response()).text, '/')
    t.equal(await client.ended, 'fin')
    t.equal(server.connections, 1)
    clock.advance(2001)
    t.ok(await eventually(() => server.connections === 0))
  })
}
