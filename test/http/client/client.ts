import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import { iterate } from '../../../lib/bytes/source.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { file, inTurn, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { Gate } from '../../fixtures/time/gate.ts'

t.test('a response comes as a value: status, reason, fields as they came, content', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const fields = { 'X-One': 'a', 'x-one': 'b', 'Content-Encoding': 'gzip' }
  origin.at('/f', reply({ status: 203, reason: 'So So', fields, content: 'hello', interim: [103] }))
  const { client } = makeClient(t)
  const answer = await client.request(asking(origin.url('/f?q=1')))
  t.match(answer, {
    ...{ status: 203, reason: 'So So', version: '1.1', length: 5 },
    ...{ address: '127.0.0.1', reused: false },
  })
  t.strictSame(answer.fields.flat, [
    ...['X-One', 'a', 'x-one', 'b', 'Content-Encoding', 'gzip', 'Content-Length', '5'],
  ])
  t.equal(await textOf(answer.content), 'hello')
  t.equal(origin.requests[0]?.target, '/f?q=1')
})

t.test('fields of the hop are ours, the others go through in order', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  const fields = Fields.of(
    ...([
      ['Accept', '*/*'],
      ['Host', 'evil'],
      ['Connection', 'X-A'],
      ['X-A', '1'],
      ['TE', 'gzip'],
    ] as const),
    ...([
      ['Content-Length', '9'],
      ['Proxy-Authorization', 'x'],
      ['X-B', '\u00e9'],
    ] as const),
  )
  const answer = await client.request(asking(origin.url('/'), { fields }))
  await textOf(answer.content)
  const host = `127.0.0.1:${origin.port}`
  const lines = [`Host: ${host}`, 'Accept: */*', 'X-A: 1', 'X-B: \u00e9', 'Connection: keep-alive']
  t.equal(origin.requests[0]?.head, `GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
})

t.test('content is framed by its length, or chunked when nobody knows it', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', reply({ status: 204 }))
  const { client } = makeClient(t)
  async function* blocks() {
    yield Buffer.from('hel')
    yield Buffer.from('lo')
  }
  const stream = (length: number | undefined) =>
    ({ kind: 'stream', length, open: () => sourceOf(blocks) }) as const
  for (const [method, content, framing] of [
    ['POST', { kind: 'bytes', bytes: Buffer.from('hello') }, 'Content-Length: 5'],
    ['PUT', stream(5), 'Content-Length: 5'],
    ['POST', stream(undefined), 'Transfer-Encoding: chunked'],
  ] as const) {
    await client.request(asking(origin.url('/'), { method, content }))
    const seen = origin.requests.at(-1)
    t.match(seen?.head, framing)
    t.equal(seen?.content.toString(), 'hello')
  }
  await client.request(asking(origin.url('/'), { method: 'POST' }))
  t.match(origin.requests.at(-1)?.head, 'Content-Length: 0')
  t.equal(origin.connections, 1)
})

t.test('HEAD, 204 and 304 have no content and leave the connection free at once', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/f', file({ content: 'hello', etag: '"1"' }))
  origin.at('/none', reply({ status: 204 }))
  const { client } = makeClient(t)
  const conditional = Fields.of(['If-None-Match', '"1"'])
  for (const request of [
    asking(origin.url('/f'), { method: 'HEAD' }),
    asking(origin.url('/none')),
    asking(origin.url('/f'), { fields: conditional }),
  ]) {
    const answer = await client.request(request)
    t.equal(answer.length, 0)
    await nextTurn()
    t.match(client.counts(), { busy: 0, free: 1 }, 'without anybody reading')
    t.equal(await textOf(answer.content), '')
  }
  t.equal(origin.connections, 1)
})

t.test('every framing of content arrives, and the connection is kept when it can be', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/length', reply({ content: 'hello' }))
  origin.at('/chunked', reply({ content: 'hello', framing: 'chunked' }))
  origin.at('/close', reply({ content: 'hello', framing: 'close' }))
  const { client } = makeClient(t)
  for (const [path, length, free] of [
    ['/length', 5, 1],
    ['/chunked', undefined, 1],
    ['/close', undefined, 0],
  ] as const) {
    const answer = await client.request(asking(origin.url(path)))
    t.equal(answer.length, length)
    t.equal(await textOf(answer.content), 'hello', path)
    await until(() => client.counts().busy === 0)
    t.equal(client.counts().free, free, path)
  }
})

t.test('nobody reading stops the origin', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const block = Buffer.alloc(1 << 20)
  const total = 64
  let written = 0
  origin.at('/big', async answer => {
    await answer.head(200, 'OK', { 'Content-Length': total * block.length })
    for (; written < total; written += 1) await answer.write(block)
  })
  const { client, clock } = makeClient(t)
  const content = iterate((await client.request(asking(origin.url('/big')))).content)
  let bytes = 0
  // A few small reads over many turns: an origin that nobody stops would be done long before.
  for (let i = 0; i < 300; i += 1) {
    if (i % 30 === 0) bytes += (await content.next()).value?.length ?? 0
    await nextTurn()
  }
  t.ok(written < total / 2, `${written} MiB of ${total} have left the origin`)
  clock.advance(1_000_000)
  for await (const more of content) bytes += more.length
  t.equal(bytes, total * block.length, 'and our own slowness is no silence of the origin')
})

t.test('a reader that leaves early keeps the connection when the rest is small', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  const pauses = [{ at: 100, gate }]
  origin.at('/small', reply({ content: Buffer.alloc(1000), pauses }))
  origin.at('/big', reply({ content: Buffer.alloc(1_000_000), pauses }))
  const { client } = makeClient(t)
  for (const path of ['/big', '/small']) {
    const content = iterate((await client.request(asking(origin.url(path)))).content)
    for await (const block of content) {
      t.equal(block.length, 100)
      break
    }
    t.strictSame(await content.next(), { done: true, value: undefined })
    if (path === '/small') break
    await origin.seen('/big')[0]?.gone
    await until(() => client.counts().busy === 0)
  }
  t.match(client.counts(), { busy: 1, free: 0 })
  gate.open()
  await until(() => client.counts().free === 1)
  t.equal(client.counts().busy, 0)
})

t.test(
  'a kept connection that died is replaced once, for requests that may be repeated',
  async t => {
    const authority = makeAuthority()
    const tls = authority.issue({ names: ['127.0.0.1'] })
    for (const options of [{}, { tls }]) {
      const origin = await ScriptedOrigin.listen(t, { ...options, requestsPerConnection: 1 })
      const { client } = makeClient(t, { ca: [authority.cert] })
      const get = async (method: string) => {
        const answer = await client.request(asking(origin.url('/'), { method }))
        await textOf(answer.content)
        await nextTurn()
        return answer
      }
      t.equal((await get('GET')).reused, false)
      t.equal((await get('GET')).reused, false)
      t.match(client.counts(), { opened: 2, reused: 1, retried: 1 })
      await t.rejects(get('POST'), { code: 'ORIGIN_CLOSED', fault: 'upstream' })
      await until(() => client.counts().busy === 0)
      t.match(client.counts(), { retried: 1, free: 0 })
      t.equal(origin.requests.length, 2)
    }
  },
)

t.test('a connection over TLS carries one request after the other', async t => {
  const authority = makeAuthority()
  const origin = await ScriptedOrigin.listen(t, { tls: authority.issue({ names: ['127.0.0.1'] }) })
  const { client } = makeClient(t, { ca: [authority.cert] })
  for (let i = 0; i < 20; i += 1) {
    await textOf((await client.request(asking(origin.url('/')))).content)
  }
  // Also those that begin where the loop is about to read.
  for (let i = 0; i < 20; i += 1) {
    await new Promise(setImmediate)
    await textOf((await client.request(asking(origin.url('/')))).content)
  }
  t.match(client.counts(), { opened: 1, reused: 39 })
})

t.test(
  'nothing is repeated once a byte of the answer has come, or on a new connection',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const half = async (answer: { write(text: string): Promise<void>; end(): void }) => {
      await answer.write('HTTP/1.1 200 O')
      answer.end()
    }
    origin.at('/half', half)
    origin.at('/never', answer => answer.end())
    const { client } = makeClient(t)
    await textOf((await client.request(asking(origin.url('/')))).content)
    await nextTurn()
    await t.rejects(client.request(asking(origin.url('/half'))), { code: 'ORIGIN_CLOSED' })
    await t.rejects(client.request(asking(origin.url('/never'))), { code: 'ORIGIN_CLOSED' })
    t.equal(client.counts().retried, 0)
    t.equal(origin.seen('/half').length, 1)
    t.equal(origin.seen('/never').length, 1)
  },
)

t.test('close breaks off what is under way', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  origin.at(
    '/a',
    inTurn(reply({ content: 'hello', pauses: [{ at: 2, gate }] }), reply({ before: gate })),
  )
  const { client } = makeClient(t, { limits: { perOrigin: 2 } })
  const reading = iterate((await client.request(asking(origin.url('/a')))).content)
  t.equal((await reading.next()).value?.toString(), 'he')
  const waiting = client.request(asking(origin.url('/a')))
  const queued = client.request(asking(origin.url('/a')))
  origin.at('/socket', reply({ before: gate }))
  const upgrade = client.upgrade(asking(origin.url('/socket')))
  await origin.arrived('/a', 2)
  await origin.arrived('/socket')
  const ends = [
    t.rejects(reading.next(), { code: 'ORIGIN_ABORTED' }),
    t.rejects(waiting, { code: 'ORIGIN_ABORTED' }),
    t.rejects(queued, { code: 'ORIGIN_ABORTED' }),
    t.rejects(upgrade, { code: 'ORIGIN_ABORTED' }),
    origin.seen('/socket')[0]?.gone,
  ]
  await client.close()
  await Promise.all(ends)
  t.match(client.counts(), { busy: 0, free: 0, waiting: 0 })
  await t.rejects(client.request(asking(origin.url('/a'))), { code: 'ORIGIN_ABORTED' })
  gate.open()
})

t.test('nothing is repeated once the client is closed', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  origin.at('/', inTurn(reply({ content: 'hello' }), reply({ before: gate })))
  const { client } = makeClient(t)
  await textOf((await client.request(asking(origin.url('/')))).content)
  const repeatable = t.rejects(client.request(asking(origin.url('/'))), { code: 'ORIGIN_ABORTED' })
  await origin.arrived('/', 2)
  await client.close()
  await repeatable
  t.match(client.counts(), { opened: 1, reused: 1, retried: 0, busy: 0 })
  gate.open()
})

t.test('a request of a client who has gone already is not sent', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  const within = new Lifetime()
  within.end(new Error('gone'))
  await t.rejects(client.request(asking(origin.url('/f'), { within })), { code: 'ORIGIN_ABORTED' })
  t.match(client.counts(), { busy: 0, waiting: 0, opened: 0 })
})
