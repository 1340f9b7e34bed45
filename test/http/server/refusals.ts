import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { Gate } from '../../fixtures/time/gate.ts'

function text(words: string): Response {
  return {
    status: 200,
    fields: Fields.of(['Content-Type', 'text/plain']),
    content: { kind: 'bytes', bytes: Buffer.from(words) },
  }
}

t.test(
  'heads that two recipients could read in two ways are refused and the connection ends',
  async t => {
    const { port, exchanges } = await serveForTest(t, async () => text('fine'))
    const cases: Array<[name: string, head: string, status: number]> = [
      ['both lengths', 'Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked', 400],
      ['two Content-Length', 'Host: a\r\nContent-Length: 0\r\nContent-Length: 0', 400],
      ['two Hosts', 'Host: a\r\nHost: a', 400],
      ['no Host', 'X: 1', 400],
      ['folding', 'Host: a\r\nX: 1\r\n 2', 400],
      ['gzip before chunked', 'Host: a\r\nTransfer-Encoding: gzip, chunked', 501],
      ['an odd coding', 'Host: a\r\nTransfer-Encoding: xchunked', 501],
      ['space before the colon', 'Host: a\r\nTransfer-Encoding : chunked', 400],
      ['an invalid Host', 'Host: a/b', 400],
      ['an unknown expectation', 'Host: a\r\nExpect: x', 417],
    ]
    for (const [name, head, status] of cases) {
      const client = await RawClient.connect(t, port)
      await client.write(`GET / HTTP/1.1\r\n${head}\r\n\r\n`)
      const answer = await client.response()
      t.ok(answer.status === status || answer.status === 400, `${name}: ${answer.status}`)
      t.not(answer.text, 'fine', name)
      t.match(answer.fields.get('Connection'), /close/, name)
      t.ok(await client.ended, `${name} ends the connection`)
    }
    t.ok(exchanges.length > 0)
    t.ok(exchanges.every(({ response }) => response.status !== 200))
    t.ok(exchanges.every(({ response }) => response.facts?.['because'] === 'malformed'))
  },
)

t.test('a malformed head behind good requests lets their answers out first', async t => {
  let release: () => void = () => undefined
  const gate = new Promise<void>(resolve => {
    release = resolve
  })
  const { port, malformed } = await serveForTest(t, async () => {
    await gate
    return text('good')
  })
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\nBAD\x00 / HTTP/1.1\r\n\r\n')
  setImmediate(release)
  t.equal((await client.response()).text, 'good')
  const refusal = await client.response()
  t.equal(refusal.status, 501)
  t.equal(malformed.length, 1)
})

t.test('what follows a refused request, or one with `close`, is never looked at', async t => {
  const ends: Array<[name: string, request: string]> = [
    ['two Hosts', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'],
    ['close', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
    [
      'close, with content',
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab`,
    ],
    ['an unknown expectation', 'GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n'],
    ['HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\n\r\n'],
  ]
  const followers = [
    'DELETE /behind HTTP/1.1\r\nHost: a\r\n\r\n',
    'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
    'not HTTP\r\n\r\n',
  ]
  for (const fastPath of [true, false]) {
    for (const [name, request] of ends) {
      for (const behind of followers) {
        let asked = 0
        const handler = async () => {
          asked += 1
          await new Promise(resolve => setImmediate(resolve))
          return text('fine')
        }
        const { port, malformed } = await serveForTest(t, handler, { fastPath })
        const client = await RawClient.connect(t, port)
        await client.write(request + behind)
        const answer = (await client.rest()).toString('latin1')
        t.equal(answer.split('HTTP/1.1 ').length, 2, `${name}: one answer`)
        t.equal(asked, answer.startsWith('HTTP/1.1 200') ? 1 : 0, `${name}: nothing more is asked`)
        t.strictSame(malformed, [], name)
      }
    }
  }
})

t.test('68: a head that is too large is 431, one that takes too long is 408', async t => {
  const { port } = await serveForTest(t, async () => text('fine'), {
    limits: { headTime: 50, requestTime: 100 },
  })
  const large = await RawClient.connect(t, port)
  await large.write(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`)
  t.equal((await large.response()).status, 431)
  const slow = await RawClient.connect(t, port)
  await slow.write('GET / HTTP/1.1\r\nHost:')
  t.equal((await slow.response()).status, 408)
})

t.test('a pipeline longer than the limit is cut', async t => {
  const { port } = await serveForTest(t, () => new Promise<Response>(() => undefined), {
    limits: { pipelined: 5 },
  })
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(6))
  t.ok(await client.ended)
})

t.test('a pipeline may be longer than the limit when its answers are ready at once', async t => {
  const { port } = await serveForTest(t, () => text('ready'), { limits: { pipelined: 5 } })
  const client = await RawClient.connect(t, port)
  await client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(40))
  for (let i = 0; i < 40; i += 1) t.equal((await client.response()).text, 'ready')
})

t.test('a malformed chunk within content is 400 at once', async t => {
  const { port, exchanges } = await serveForTest(t, async request => {
    for await (const block of request.content) void block
    return text('read')
  })
  for (const [name, rest] of [
    ['a size that is no number', 'zz\r\nab\r\n'],
    ['data longer than its size', '1\r\nabc\r\n'],
  ] as const) {
    const client = await RawClient.connect(t, port)
    await client.write('GET /before HTTP/1.1\r\nHost: a\r\n\r\n')
    t.equal((await client.response()).text, 'read')
    await client.write(
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
    )
    await client.write(rest)
    const refusal = await client.response()
    t.equal(refusal.status, 400, name)
    t.ok(await client.ended, `${name} ends the connection`)
  }
  t.match(
    exchanges.filter(({ request }) => request.method === 'POST').map(each => each.response.status),
    [400, 400],
  )
})

t.test('a malformed chunk after the response has begun ends the connection', async t => {
  const { port } = await serveForTest(t, async request => ({
    status: 200,
    fields: Fields.empty,
    content: {
      kind: 'stream',
      length: undefined,
      open: () => sourceOf(() => request.content),
    },
  }))
  const client = await RawClient.connect(t, port)
  await client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
  t.equal((await client.head()).status, 200)
  t.equal(String(await client.bytes(8)), '3\r\nabc\r\n')
  await client.write('zz\r\n')
  t.ok(await client.ended)
})

t.test('a malformed chunk that no handler reads ends the connection behind the answer', async t => {
  const { port } = await serveForTest(t, async () => text('unread'))
  const client = await RawClient.connect(t, port)
  await client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')
  const { text: said } = await client.response()
  t.match(said, /unread|malformed|understood/)
  t.ok(await client.ended)
})

t.test('a malformed chunk is reported once, whatever follows it', async t => {
  const gate = new Gate()
  const { port, malformed } = await serveForTest(t, async () => {
    await gate.pass()
    return text('good')
  })
  const client = await RawClient.connect(t, port)
  await client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n')
  for (let i = 0; i < 20; i += 1) {
    await client.write('x')
    await new Promise(resolve => setImmediate(resolve))
  }
  await until(() => malformed.length > 0)
  gate.open()
  t.equal((await client.response()).text, 'good')
  t.ok(await client.ended)
  t.equal(malformed.length, 1)
})
