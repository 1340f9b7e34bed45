/**
 * Which requests of a pipeline are answered beside others on the fast path, which wait, and which are not begun at all.
 */
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Handler } from '../../../lib/http/message/message.ts'
import type { HttpServer } from '../../../lib/http/server/server.ts'
import { contentOf, get, pathOf, post, text } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'
import { atRest } from '../../fixtures/time/until.ts'

// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

t.test('a connection holds the content of one request', async t => {
  const gate = new Gate()
  let begun = 0
  const { port } = await serveForTest(t, async request => {
    begun += 1
    await gate.pass()
    return text(String((await contentOf(request)).length))
  })
  const client = await RawClient.connect(t, port)
  const content = 'x'.repeat(60_000)
  const one = `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: ${content.length}\r\n\r\n${content}`
  const written = client.write(one.repeat(10))
  await gate.reached
  await atRest(() => begun)
  t.equal(begun, 1)
  gate.open()
  for (let i = 0; i < 10; i += 1) t.equal((await client.response()).text, '60000')
  await written
})

t.test('a request that can have no answer is not begun', async t => {
  const ends = {
    'the server stops': async (server: HttpServer) => void server.close(AbortSignal.timeout(5000)),
    'the client ends its side': async (
      _: HttpServer,
      { client, another }: Readonly<Record<'client' | 'another', RawClient>>,
    ) => {
      client.end()
      // The server has read the end when it answers what came after it.
      for (let n = 0; n < 3; n += 1) await another.get('/later', { Host: 'a' })
    },
  }
  for (const [name, end] of Object.entries(ends)) {
    const begun: string[] = []
    const gate = new Gate()
    const handler: Handler = async request => {
      if (pathOf(request) === '/later') return text('x')
      begun.push(pathOf(request))
      await gate.pass()
      return text('x')
    }
    const { port, server, exchanges } = await serveForTest(t, handler)
    const another = await RawClient.connect(t, port)
    const client = await RawClient.connect(t, port)
    await client.write(`${get('/1')}${post('/2', 'two')}`)
    await gate.reached
    await end(server, { client, another })
    gate.open()
    await client.rest()
    const own = () => exchanges.filter(({ request }) => pathOf(request) !== '/later')
    t.ok(await eventually(() => own().length === 1))
    t.strictSame(begun, ['/1'], name)
  }
})

t.test('a request that is not safe waits for those before, and those behind for it', async t => {
  const gates = new Map(['/1', '/2', '/3', '/4', '/5'].map(path => [path, new Gate()]))
  const begun: string[] = []
  const { port } = await serveForTest(t, async request => {
    begun.push(pathOf(request))
    await gates.get(pathOf(request))?.pass()
    return text(await contentOf(request))
  })
  const client = await RawClient.connect(t, port)
  await client.write(
    `${get('/1')}${get('/2')}${post('/3', 'three')}${post('/4', 'four')}${get('/5')}`,
  )
  t.ok(await eventually(() => begun.length === 2))
  gates.get('/2')?.open()
  gates.get('/1')?.open()
  for (const _ of [1, 2]) await client.response()
  await gates.get('/3')?.reached
  t.strictSame(begun, ['/1', '/2', '/3'])
  gates.get('/3')?.open()
  t.equal((await client.response()).text, 'three')
  await gates.get('/4')?.reached
  t.strictSame(begun, ['/1', '/2', '/3', '/4'])
  gates.get('/4')?.open()
  t.equal((await client.response()).text, 'four')
  gates.get('/5')?.open()
  t.equal((await client.response()).text, '')
  t.equal((await client.finish()).length, 0)
})

t.test('a request that has to wait is not called slow', async t => {
  const clock = new ManualClock(0)
  const gate = new Gate()
  const handler: Handler = async request => {
    await gate.pass()
    return text(await contentOf(request))
  }
  const limits = { headTime: 1000, requestTime: 1000, idle: 0, taking: 0, stalled: 0 }
  const { port, malformed } = await serveForTest(t, handler, { clock, limits })
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}${post('/2', 'two')}`)
  await gate.reached
  for (let passed = 0; passed < 5000; passed += 250) clock.advance(250)
  gate.open()
  t.equal((await client.response()).text, '')
  t.equal((await client.response()).text, 'two')
  t.strictSame(malformed, [])
})

t.test('a pipeline of thousands is answered one by one', async t => {
  const { port, exchanges } = await serveForTest(t, () => text('x'))
  const client = await RawClient.connect(t, port)
  const many = 20_000
  const sent = client.write(post('/', '').repeat(many))
  for (let i = 0; i < many; i += 1) {
    const { status } = await client.response()
    if (status !== 200) t.equal(status, 200)
  }
  await sent
  t.equal(exchanges.length, many)
  t.equal((await client.finish()).length, 0)
})

t.test('early hints of a later request never lie within the answer before it', async t => {
  for (const fastPath of [true, false]) {
    const gate = new Gate()
    const handler: Handler = async request => {
      if (pathOf(request) === '/1') await gate.pass()
      else {
        request.interim?.(103, Fields.of(['Link', '</style.css>; rel=preload']))
        gate.open()
      }
      return text(pathOf(request))
    }
    const { port } = await serveForTest(t, handler, { fastPath })
    const client = await RawClient.connect(t, port)
    await client.write('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await client.response()).text, '/1')
    t.equal((await client.response()).text, '/2')
    t.equal((await client.finish()).length, 0)
  }
})
