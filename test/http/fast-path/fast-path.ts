import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { HttpServerLimits } from '../../../lib/http/server/options.ts'
import { answers, echo, get, post, streamed, text } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'
import { atRest } from '../../fixtures/time/until.ts'

// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

t.test('a connection may be cut between any two bytes', async t => {
  const { port } = await serveForTest(t, echo)
  const whole = `${get('/1')}HEAD /2 HTTP/1.1\r\nHost: a\r\n\r\n${post('/3', 'five!')}${get('/4', 'Connection: close\r\n')}`
  const expected = await answers(t, port, [whole])
  t.equal(expected.split('HTTP/1.1 200').length - 1, 4)
  t.match(expected, 'five!')
  for (let at = 1; at < whole.length; at += 1) {
    const got = await answers(t, port, [whole.slice(0, at), whole.slice(at)])
    if (got !== expected) t.equal(got, expected, `cut at ${at}`)
  }
  const single = await answers(t, port, [...whole])
  t.equal(single, expected, 'a byte at a time')
})

t.test(
  'answers leave in the order of the requests, on whichever side of the fast path',
  async t => {
    const gates = new Map(['/1', '/2', '/3', '/4'].map(path => [path, new Gate()]))
    const begun: string[] = []
    const { port } = await serveForTest(t, async request => {
      const path = request.target.form === 'origin' ? request.target.path : ''
      begun.push(path)
      await gates.get(path)?.pass()
      return path === '/1' ? streamed(undefined, 'one', ' more') : text(path)
    })
    const client = await RawClient.connect(t, port)
    await client.write(`${get('/1')}${get('/2')}${post('/3', 'x')}${get('/4')}`)
    gates.get('/2')?.open()
    gates.get('/4')?.open()
    t.ok(await eventually(() => begun.length === 2))
    t.strictSame(begun, ['/1', '/2'], 'what leaves the fast path waits for the answers before it')
    gates.get('/1')?.open()
    t.equal((await client.response()).text, 'one more')
    t.equal((await client.response()).text, '/2')
    gates.get('/3')?.open()
    t.equal((await client.response()).text, '/3')
    t.equal((await client.response()).text, '/4')
    t.equal((await client.finish()).length, 0)
  },
)

t.test('slow heads are told so, idle connections end, whatever came before', async t => {
  const limits: Partial<HttpServerLimits> = { headTime: 60, idle: 120 }
  const { port, malformed } = await serveForTest(t, async () => text('fine'), { limits })
  const behind = await RawClient.connect(t, port)
  await behind.write(`${get('/')}GET /`)
  t.equal((await behind.response()).text, 'fine')
  t.equal((await behind.response()).status, 408)
  t.ok(await behind.ended)
  const silent = await RawClient.connect(t, port)
  t.equal((await silent.response()).status, 408)
  const idle = await RawClient.connect(t, port)
  t.equal((await idle.get('/')).text, 'fine')
  t.ok(await idle.ended)
  t.strictSame(
    malformed.map(({ status }) => status),
    [408, 408],
  )
})

t.test('nobody is asked for ever: a handler may take its time, a silence may not', async t => {
  const gate = new Gate()
  const handler = async () => {
    await gate.pass()
    return text('x')
  }
  const { port, exchanges } = await serveForTest(t, handler, { limits: { idle: 50, stalled: 300 } })
  const client = await RawClient.connect(t, port)
  await client.write(get('/'))
  t.ok(await client.ended)
  gate.open()
  t.ok(await eventually(() => exchanges.length === 1))
  t.equal(exchanges[0]?.complete, false)
})

t.test('a head that ends too early is malformed, behind good requests too', async t => {
  const { port, malformed } = await serveForTest(t, async () => text('fine'))
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/')}GET / HTTP/1.1\r\nHo`)
  t.equal((await client.response()).text, 'fine')
  client.end()
  t.equal((await client.response()).status, 400)
  t.match(malformed, [{ status: 400 }])
})

t.test('what follows a request with close is not looked at', async t => {
  const { port, exchanges } = await serveForTest(t, async () => text('fine'))
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/', 'Connection: close\r\n')}${get('/')}`)
  t.equal((await client.response()).text, 'fine')
  t.equal((await client.rest()).length, 0)
  t.equal(exchanges.length, 1)
})

t.test('the last answer of a pipeline says that the server closes', async t => {
  const gate = new Gate()
  const { port, server } = await serveForTest(t, async () => {
    await gate.pass()
    return text('fine')
  })
  const client = await RawClient.connect(t, port)
  await client.write(get('/').repeat(2))
  // Both requests have come in one piece.
  await gate.reached
  const closed = server.close(AbortSignal.timeout(5000))
  gate.open()
  t.equal((await client.response()).fields.get('Connection'), 'keep-alive')
  t.equal((await client.response()).fields.get('Connection'), 'close')
  await closed
})

t.test('a client that does not read makes its content wait', async t => {
  let yielded = 0
  const { port } = await serveForTest(t, async () => ({
    status: 200,
    fields: Fields.empty,
    content: {
      kind: 'stream',
      length: undefined,
      open: () =>
        sourceOf(async function* () {
          for (;;) {
            yielded += 1
            yield Buffer.alloc(1 << 20)
          }
        }),
    },
  }))
  const client = await RawClient.connect(t, port)
  await client.write(get('/'))
  await client.head()
  await atRest(() => yielded)
  t.ok(yielded < 20, `${yielded} MiB`)
  await client.reset()
})

t.test('a CONNECT behind a request waits for its answer', async t => {
  const gate = new Gate()
  const { port } = await serveForTest(
    t,
    async () => {
      await gate.pass()
      return text('first')
    },
    {
      connect: async (_request, socket, head) => {
        socket.end(`HTTP/1.1 200 OK\r\n\r\n${head}`)
        return { status: 200, sent: 0, facts: {} }
      },
    },
  )
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/')}CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nearly`)
  gate.open()
  t.equal((await client.response()).text, 'first')
  t.equal((await client.head()).status, 200)
  t.equal((await client.rest()).toString(), 'early')
})

t.test('who pipelines without reading is not read any further', async t => {
  let begun = 0
  const block = Buffer.alloc(4 << 20)
  const { port } = await serveForTest(t, async () => {
    begun += 1
    return { status: 200, fields: Fields.empty, content: { kind: 'bytes', bytes: block } }
  })
  const client = await RawClient.connect(t, port)
  for (let i = 0; i < 40; i += 1) {
    await client.write(get('/'))
    await turn()
  }
  await atRest(() => begun)
  t.ok(begun < 10, `${begun} of 40 were read`)
  for (let i = 0; i < 40; i += 1) t.equal((await client.response()).content.length, block.length)
  t.equal((await client.finish()).length, 0)
})

t.test('a client says its last during an answer, with a head behind it: nothing fails', async t => {
  const clock = new ManualClock(0)
  const endless = async function* () {
    for (;;) yield Buffer.alloc(300_000)
  }
  const { port, exchanges } = await serveForTest(
    t,
    async () => ({
      status: 200,
      fields: Fields.empty,
      content: { kind: 'stream', length: 2 ** 40, open: () => sourceOf(endless) },
    }),
    { clock, limits: { headTime: 0, idle: 0, taking: 0, stalled: 0 } },
  )
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}${post('/2', 'x')}`)
  await client.head()
  client.end()
  // Reading lets the server write on, on the connection it has ended, until it has waited long enough.
  const reading = t.rejects(client.bytes(2 ** 40))
  const passed = async () => {
    clock.advance(1000)
    return exchanges.length === 1
  }
  t.ok(await eventually(passed))
  await reading
  t.match(exchanges, [{ complete: false }])
})

t.test('a head has its time only while it is read', async t => {
  const clock = new ManualClock(0)
  const block = Buffer.alloc(16 << 20)
  const { port, malformed } = await serveForTest(
    t,
    () => ({ status: 200, fields: Fields.empty, content: { kind: 'bytes', bytes: block } }),
    { clock, limits: { headTime: 1000, idle: 0, taking: 0, stalled: 0 } },
  )
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}GET /2 HTTP/1.1\r\nHo`)
  await client.head()
  for (let passed = 0; passed < 3000; passed += 250) clock.advance(250)
  await client.write('st: a\r\n\r\n')
  t.equal((await client.bytes(block.length)).length, block.length)
  t.equal((await client.response()).status, 200)
  t.strictSame(malformed, [])
})

t.test('what follows a response that failed is not refused in its place', async t => {
  const clock = new ManualClock(0)
  const gate = new Gate()
  const failing = async function* () {
    await Promise.resolve()
    yield* []
    throw new Error('it broke')
  }
  const { port, exchanges, malformed } = await serveForTest(
    t,
    async ({ target }) => {
      if (target.form === 'origin' && target.path === '/1') {
        await gate.pass()
        return text('one')
      }
      const open = () => sourceOf(failing)
      return { status: 200, fields: Fields.empty, content: { kind: 'stream', length: 5, open } }
    },
    { clock, limits: { headTime: 1000, idle: 0, taking: 0, stalled: 0 } },
  )
  const client = await RawClient.connect(t, port)
  await client.write(`${get('/1')}${get('/2')}GET /3 HTT`)
  t.ok(await eventually(() => exchanges.length === 1))
  for (let passed = 0; passed < 3000; passed += 250) clock.advance(250)
  gate.open()
  t.equal((await client.response()).text, 'one')
  t.equal((await client.rest()).length, 0)
  t.strictSame(malformed, [])
})
