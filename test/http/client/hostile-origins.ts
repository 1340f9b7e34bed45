/** Origins that mean harm, and what of it reaches the next request: nothing. */

import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { BlockPool } from '../../../lib/bytes/block-pool.ts'
import { iterate } from '../../../lib/bytes/source.ts'
import { defaultOriginDeadlines } from '../../../lib/http/client/client.ts'
import { OriginConnection, Transport } from '../../../lib/http/client/connection.ts'
import { OriginExchange } from '../../../lib/http/client/exchange.ts'
import { wireRequestOf } from '../../../lib/http/client/request.ts'
import { RequestLife } from '../../../lib/http/client/request-life.ts'
import { ResponseHeadReader } from '../../../lib/http/wire/response-head.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { type Answer, inTurn, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

const ok = 'HTTP/1.1 200 OK\r\n'
const evil = `${ok}Content-Length: 4\r\n\r\nevil`

const by = (text: string) => async (answer: Answer) => {
  await answer.write(text)
}

t.test('bytes behind a response never answer the next request', async t => {
  const cases = [
    ['no content', `${ok}Content-Length: 0\r\n\r\n`, ''],
    ['a length', `${ok}Content-Length: 5\r\n\r\nhello`, 'hello'],
    [
      'a large length',
      `${ok}Content-Length: 100000\r\n\r\n${'a'.repeat(100_000)}`,
      'a'.repeat(100_000),
    ],
    ['chunks', `${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`, 'hello'],
    ['304', 'HTTP/1.1 304 Not Modified\r\n\r\n', ''],
  ] as const
  for (const [what, text, content] of cases) {
    const origin = await ScriptedOrigin.listen(t)
    const gate = new Gate()
    origin.at('/first', async answer => {
      await gate.pass()
      await answer.write(text + evil)
    })
    origin.at('/second', reply({ content: 'second' }))
    const { client } = makeClient(t, { limits: { perOrigin: 1 } })
    const first = client.request(asking(origin.url('/first')))
    // It stands in line and gets the connection in the very moment it is free.
    const second = client.request(asking(origin.url('/second')))
    await origin.arrived('/first')
    gate.open()
    t.equal(await textOf((await first).content), content, what)
    t.equal(await textOf((await second).content), 'second', what)
    t.equal(origin.connections, 2, what)
  }
})

t.test('bytes behind a response, one by one, are no response either', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/first', async answer => {
    for (const byte of `${ok}Content-Length: 5\r\n\r\nhello${evil}`) {
      await answer.write(byte)
      await new Promise(resolve => setImmediate(resolve))
      if (answer.request.nth > 1) return
    }
  })
  origin.at('/second', reply({ content: 'second' }))
  const { client } = makeClient(t)
  t.equal(await textOf((await client.request(asking(origin.url('/first')))).content), 'hello')
  await until(() => client.counts().free + client.counts().busy === 0)
  t.equal(await textOf((await client.request(asking(origin.url('/second')))).content), 'second')
})

t.test('what is said ahead of the request is no response to it', async t => {
  const origin = await ScriptedOrigin.listen(t, { greeting: evil })
  const blocks = new BlockPool({ limit: 0 })
  const transport = Transport.connect({ host: origin.host, port: origin.port }, blocks)
  await until(() => transport.unread > 0)
  const heads = new ResponseHeadReader({ bytes: 1000, lines: 10 })
  const connection = new OriginConnection(
    '',
    { transport, address: '', port: 0, others: 0 },
    { clock: systemClock, heads },
  )
  const message = wireRequestOf(asking(origin.url('/')), undefined, false)
  const life = new RequestLife()
  life.on('connected')
  const failure = await new Promise((onFailure, onHead) => {
    const owner = {
      ...{ origin: 'a', parent: undefined, deadlines: defaultOriginDeadlines },
      ...{ onHead, onFailure, onDone() {}, onLate: () => 0, onSilence() {} },
    }
    new OriginExchange(connection, message, { owner, life }).begin()
  })
  t.equal(life.state, 'closed')
  t.match(failure, { code: 'ORIGIN_MALFORMED' })
  t.equal(origin.requests.length, 0)
})

t.test(
  'a head has so many bytes and lines, and no field of a larger one is lost in silence',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const { client } = makeClient(t)
    const lines = (count: number) => `${ok}${'X-A: b\r\n'.repeat(count)}`
    origin.at('/', by(`${lines(998)}Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n`))
    const answer = await client.request(asking(origin.url('/')))
    t.equal(answer.fields.count, 1000)
    t.equal(answer.fields.get('Cache-Control'), 'no-store')
    for (const text of [
      `${lines(1500)}Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n`,
      `${ok}X-A: ${'b'.repeat(70_000)}\r\n\r\n`,
      `${ok}X-A: ${'b'.repeat(70_000)}`,
      `${ok}${'b'.repeat(70_000)}`,
      `HTTP/1.1 200 ${'b'.repeat(70_000)}`,
    ]) {
      origin.at('/', by(text))
      await t.rejects(client.request(asking(origin.url('/'))), { code: 'ORIGIN_HEAD_TOO_LARGE' })
      await until(() => client.counts().busy === 0)
    }
  },
)

t.test('interim responses without end are not waited for', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  const interim: number[] = []
  const asked = asking(origin.url('/'), { onInterim: status => interim.push(status) })
  origin.at('/', by('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1000)))
  await t.rejects(client.request(asked), { code: 'ORIGIN_MALFORMED' })
  t.equal(interim.length, 16)
  origin.at(
    '/',
    by(`${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(16)}${ok}Content-Length: 2\r\n\r\nok`),
  )
  t.equal(await textOf((await client.request(asked)).content), 'ok')
  t.equal(interim.length, 32)
})

t.test('a head and content that come byte by byte are read as any other', async t => {
  const origin = await ScriptedOrigin.listen(t)
  for (const text of [
    `${ok}Content-Length: 5\r\n\r\nhello`,
    `HTTP/1.1 103 A\r\n\r\n${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nX: y\r\n\r\n`,
  ]) {
    origin.at('/', async answer => {
      for (const byte of text) {
        await answer.write(byte)
        await new Promise(resolve => setImmediate(resolve))
      }
    })
    const { client } = makeClient(t)
    const answer = await client.request(asking(origin.url('/')))
    t.equal(await textOf(answer.content), 'hello')
    await until(() => client.counts().free === 1)
  }
})

t.test('an origin that ends its side while it answers, or before', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  origin.at('/whole', async answer => {
    await answer.write(`${ok}Content-Length: 5\r\n\r\nhello`)
    answer.end()
  })
  t.equal(await textOf((await client.request(asking(origin.url('/whole')))).content), 'hello')
  await until(() => client.counts().free + client.counts().busy === 0)
  origin.at('/never', answer => answer.end())
  await t.rejects(client.request(asking(origin.url('/never'))), { code: 'ORIGIN_CLOSED' })
  origin.at('/reset', answer => answer.reset())
  await t.rejects(client.request(asking(origin.url('/reset'))), { code: 'ORIGIN_CLOSED' })
  await until(() => client.counts().busy === 0)
})

t.test('a request that is cancelled in any phase leaves nothing open', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  const aborted = { code: 'ORIGIN_ABORTED', fault: 'downstream' }
  let looked = () => {}
  const lookup = () => new Promise<readonly string[]>(() => looked())
  const unresolved = makeClient(t, { lookup })
  const dialling = new Promise<void>(resolve => {
    looked = resolve
  })
  const resolving = new AbortController()
  void dialling.then(() => resolving.abort())
  const told = unresolved.client.request(
    asking('http://a.example.org/', { signal: resolving.signal }),
  )
  await t.rejects(told, { ...aborted, phase: 'dns' })
  t.match(unresolved.client.counts(), { busy: 0, waiting: 0 })

  origin.at('/head', reply({ before: gate }))
  const content = Buffer.alloc(1_000_000)
  origin.at('/content', inTurn(reply({ content, pauses: [{ at: 500_000, gate }] })))
  const { client } = makeClient(t, { limits: { perOrigin: 1 } })
  let first: Promise<unknown> | undefined
  const begun = (path: string) => {
    const stop = new AbortController()
    const answered = client.request(asking(origin.url(path), { signal: stop.signal }))
    return { answered, cancel: (cause?: unknown) => stop.abort(cause) }
  }
  const head = begun('/head')
  const queued = begun('/head')
  await origin.arrived('/head')
  first = t.rejects(queued.answered, { ...aborted, phase: 'queue' })
  queued.cancel()
  await first
  first = t.rejects(head.answered, { ...aborted, phase: 'fields', cause: { message: 'enough' } })
  head.cancel(new Error('enough'))
  head.cancel()
  await first
  await until(() => client.counts().busy === 0)

  const controller = new AbortController()
  const asked = asking(origin.url('/content'), { signal: controller.signal })
  const blocks = iterate((await client.request(asked)).content)
  await blocks.next()
  await gate.reached
  controller.abort()
  await t.rejects(
    (async () => {
      for await (const _ of blocks);
    })(),
    { ...aborted, phase: 'content' },
  )
  await until(() => client.counts().busy === 0)
})

t.test('a TLS origin that breaks the protocol right behind its handshake', async t => {
  const authority = makeAuthority()
  const origin = await ScriptedOrigin.listen(t, { tls: authority.issue({ names: ['127.0.0.1'] }) })
  // What the origin says first, with bytes that are no TLS behind it, in one read of ours.
  const between = createServer(near => {
    const far = connect(origin.port, origin.host)
    far.once('data', (flight: Buffer) => near.write(Buffer.concat([flight, Buffer.alloc(64, 1)])))
    near.pipe(far)
    for (const side of [near, far]) {
      side.on('error', () => {}).on('close', () => near.destroy() && far.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(between, 'listening')
  t.teardown(() => between.close())
  const { client } = makeClient(t, { ca: [authority.cert] })
  const address = between.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const failed = client.request(asking(`https://127.0.0.1:${port}/`))
  await t.rejects(failed, { code: 'ORIGIN_CLOSED', fault: 'upstream' })
})
