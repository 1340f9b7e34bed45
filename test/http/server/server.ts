import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Content, Request, Response } from '../../../lib/http/message/message.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

function text(words: string): Response {
  return {
    status: 200,
    fields: Fields.of(['Content-Type', 'text/plain']),
    content: { kind: 'bytes', bytes: Buffer.from(words) },
  }
}

function streamed(length: number | undefined, blocks: () => AsyncGenerator<Buffer>): Response {
  const content: Content = { kind: 'stream', length, open: () => sourceOf(blocks) }
  return { status: 200, fields: Fields.empty, content }
}

function pathOf(request: Request): string {
  return request.target.form === 'origin' ? request.target.path : request.target.form
}

t.test('a handler sees the request as values and answers with values', async t => {
  const { port, exchanges } = await serveForTest(t, async request => {
    t.strictSame(request.target, { form: 'origin', path: '/a', query: 'b=c' })
    t.equal(request.fields.get('x-one'), '1, 2')
    t.equal(request.client.address, '127.0.0.1')
    t.equal(request.local.port, port)
    t.equal(request.secure, false)
    return { ...text('hello'), reason: 'Quite Fine' }
  })
  const client = await RawClient.connect(t, port)
  const answer = await client.get('/a?b=c', { Host: 'h', 'X-One': '1', 'x-ONE': '2' })
  t.equal(answer.reason, 'Quite Fine')
  t.equal(answer.text, 'hello')
  t.equal(answer.framing, 'length')
  t.equal((await client.finish()).length, 0)
  t.match(exchanges, [{ sent: 5, complete: true, request: { id: 'r1' } }])
})

t.test('ten pipelined requests are answered in their order, however long each takes', async t => {
  const gates: Array<() => void> = []
  const { port } = await serveForTest(t, async request => {
    const path = pathOf(request)
    await new Promise<void>(resolve => {
      gates.push(resolve)
      // The last to arrive opens all gates, the last first.
      if (gates.length === 10) for (const open of gates.toReversed()) open()
    })
    return path === '/3'
      ? streamed(undefined, async function* () {
          yield Buffer.from('/')
          yield Buffer.from('3')
        })
      : text(path)
  })
  const client = await RawClient.connect(t, port)
  const wanted = Array.from({ length: 10 }, (_, n) => `/${n}`)
  await client.write(wanted.map(path => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
  const answers: string[] = []
  for (const _ of wanted) answers.push((await client.response()).text)
  t.strictSame(answers, wanted)
  t.equal((await client.finish()).length, 0)
})

t.test('HEAD has the length of the answer and nothing behind it', async t => {
  const { port } = await serveForTest(t, async () => ({
    ...text('ignored'),
    content: { kind: 'none' as const },
    announcedLength: 1234,
  }))
  const client = await RawClient.connect(t, port)
  await client.write('HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n')
  for (let i = 0; i < 2; i += 1) {
    const answer = await client.response({ to: 'HEAD' })
    t.equal(answer.fields.get('Content-Length'), '1234')
  }
  t.equal((await client.finish()).length, 0)
})

t.test(
  'content that breaks off, or has another length than announced, cuts the connection',
  async t => {
    const responses: Record<string, Response> = {
      '/throws': streamed(10, async function* () {
        yield Buffer.from('123')
        throw new Error('disk gone')
      }),
      '/short': streamed(10, async function* () {
        yield Buffer.from('123')
      }),
      '/long': streamed(3, async function* () {
        yield Buffer.from('123')
        yield Buffer.from('4')
      }),
      '/chunked': streamed(undefined, async function* () {
        yield Buffer.from('123')
        throw new Error('disk gone')
      }),
    }
    const { port, contentErrors, exchanges } = await serveForTest(t, async request => {
      return responses[pathOf(request)] ?? text('?')
    })
    for (const path of Object.keys(responses)) {
      const client = await RawClient.connect(t, port)
      await client.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
      const rest = await client.rest().catch(() => Buffer.alloc(0))
      t.notMatch(rest.toString(), /\r\n0\r\n/, `${path} has no proper end`)
      t.notMatch(rest.toString(), /1234/, `${path} stays inside its length`)
    }
    t.equal(contentErrors.length, 4)
    t.equal(exchanges.length, 4)
    t.ok(exchanges.every(exchange => !exchange.complete))
  },
)

t.test('a client that leaves ends the content and is reported once', async t => {
  let released = false
  let told: () => void = () => undefined
  const over = new Promise<void>(resolve => {
    told = resolve
  })
  const { port, exchanges } = await serveForTest(t, async request => {
    return streamed(undefined, async function* () {
      try {
        while (!request.lifetime.signal.aborted) yield Buffer.alloc(64 * 1024)
      } finally {
        released = true
        told()
      }
    })
  })
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await client.head()
  await client.reset()
  await over
  t.ok(released)
  await new Promise(resolve => setImmediate(resolve))
  t.equal(exchanges.length, 1)
  t.equal(exchanges[0]?.complete, false)
})

t.test('a client that takes nothing is cut, whatever it sends meanwhile', async t => {
  const clock = new ManualClock(0)
  const { port, exchanges } = await serveForTest(
    t,
    async () =>
      streamed(undefined, async function* () {
        for (;;) yield Buffer.alloc(64 * 1024)
      }),
    { limits: { taking: 400 }, clock },
  )
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  socket.once('data', () => socket.pause())
  t.teardown(() => socket.destroy())
  while (exchanges.length === 0) {
    socket.write('\r\n')
    clock.advance(50)
    await turn()
  }
  t.equal(exchanges[0]?.complete, false)
})

t.test('a client that waits for a slow handler is not a stalled one', async t => {
  const clock = new ManualClock(0)
  const { port } = await serveForTest(
    t,
    async () => {
      clock.advance(300)
      await turn()
      return text('at last')
    },
    { limits: { stalled: 500 }, clock },
  )
  const client = await RawClient.connect(t, port)
  for (let i = 0; i < 3; i += 1) {
    t.equal((await client.get('/', { Host: 'a' })).text, 'at last')
  }
})

t.test('a response that waits behind another is told when their connection goes', async t => {
  const waiting: Array<Promise<void>> = []
  const { port, exchanges } = await serveForTest(t, async request => {
    waiting.push(
      new Promise(resolve => request.lifetime.signal.addEventListener('abort', () => resolve())),
    )
    return pathOf(request) === '/first'
      ? streamed(undefined, async function* () {
          yield Buffer.from('started')
          await new Promise(resolve => request.lifetime.signal.addEventListener('abort', resolve))
        })
      : streamed(undefined, async function* () {
          for (;;) yield Buffer.alloc(1024)
        })
  })
  const client = await RawClient.connect(t, port)
  await client.write(
    'GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n',
  )
  await client.head()
  await client.reset()
  await Promise.all(waiting)
  while (exchanges.length < 2) await new Promise(resolve => setImmediate(resolve))
  t.strictSame(
    exchanges.map(exchange => exchange.complete),
    [false, false],
  )
})

t.test(
  'a handler that throws is answered by the failure page and the connection lives on',
  async t => {
    const { port } = await serveForTest(t, async request => {
      if (pathOf(request) === '/bad') throw new Error('oops')
      return text('good')
    })
    const client = await RawClient.connect(t, port)
    t.equal((await client.get('/bad', { Host: 'a' })).status, 500)
    t.equal((await client.get('/good', { Host: 'a' })).text, 'good')
  },
)

t.test('a refused CONNECT is an ordinary response, an accepted one has the socket', async t => {
  const { port, exchanges } = await serveForTest(t, async () => text('x'), {
    connect: async (request, socket, head) => {
      t.strictSame(request.target, {
        form: 'authority',
        authority: { host: 'far.example', port: 443 },
      })
      socket.write(`HTTP/1.1 200 Connection Established\r\n\r\n${head.toString()}`)
      await new Promise(resolve => socket.once('data', resolve))
      socket.end('bye')
      return { status: 200, sent: 3, facts: { outcome: 'tunnel' } }
    },
  })
  const client = await RawClient.connect(t, port)
  await client.write('CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n\r\nearly')
  t.equal((await client.head()).status, 200)
  t.equal((await client.bytes(5)).toString(), 'early')
  await client.write('more')
  t.equal((await client.rest()).toString(), 'bye')
  t.match(exchanges, [{ sent: 3, response: { facts: { outcome: 'tunnel' } } }])

  const refusing = await serveForTest(t, async () => text('x'))
  const other = await RawClient.connect(t, refusing.port)
  await other.write('CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n\r\n')
  t.equal((await other.response()).status, 405)
  t.equal(await other.ended, 'fin')
})

t.test('a CONNECT behind a request that is not answered yet cuts the connection', async t => {
  const gate = new Gate()
  const handler = async () => {
    await gate.pass()
    return text('slow')
  }
  const { port } = await serveForTest(t, handler, { fastPath: false })
  const client = await RawClient.connect(t, port)
  const two = ['GET /slow HTTP/1.1\r\nHost: a\r\n\r\n', 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n']
  await client.write(two.join(''))
  t.equal((await client.rest()).length, 0, 'neither answer, and none in the place of the other')
  gate.open()
})

t.test('a closing server finishes what is under way and takes nothing new', async t => {
  let release: () => void = () => undefined
  const gate = new Promise<void>(resolve => {
    release = resolve
  })
  let enter: () => void = () => undefined
  const entered = new Promise<void>(resolve => {
    enter = resolve
  })
  const { server, port } = await serveForTest(t, async () => {
    enter()
    await gate
    return text('finished')
  })
  const idle = await RawClient.connect(t, port)
  const busy = await RawClient.connect(t, port)
  await busy.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await entered
  const closed = server.close(new AbortController().signal)
  t.ok(await idle.ended, 'an idle connection ends at once')
  release()
  t.equal((await busy.response()).text, 'finished')
  await closed
  await t.rejects(RawClient.connect(t, port))
})
