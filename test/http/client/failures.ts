/** Every phase of a request failing on a real socket, and what is left open afterwards: nothing. */

import t from 'tap'
import { iterate } from '../../../lib/bytes/source.ts'
import type { OriginDeadlines, OriginRequest } from '../../../lib/http/client/client.ts'
import { OriginFailure } from '../../../lib/http/client/errors.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { type Answer, inTurn, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { Gate } from '../../fixtures/time/gate.ts'

const by = (text: string) => async (answer: Answer) => {
  await answer.write(text)
  answer.end()
}
const ok = 'HTTP/1.1 200 OK\r\n'
const deadlines: Partial<OriginDeadlines> = { queue: 10, send: 20, fields: 30, content: 40 }

/** What a request is thrown for. */
function failureOf(request: Promise<unknown>): Promise<OriginFailure> {
  return request.then(
    () => Promise.reject(new Error('it did not fail')),
    error => (error instanceof OriginFailure ? error : Promise.reject(error)),
  )
}

t.test('what is not HTTP/1.1 is malformed, whatever is wrong with it', async t => {
  const cases: ReadonlyArray<[what: string, text: string, code?: string]> = [
    ['no HTTP at all', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['two lengths', `${ok}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`],
    [
      'a length and a coding',
      `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    ['a length that is none', `${ok}Content-Length: -5\r\n\r\nhello`],
    ['a list of lengths that differ', `${ok}Content-Length: 5, 6\r\n\r\nhello`],
    ['a coding we did not ask for', `${ok}Transfer-Encoding: gzip\r\n\r\nhello`],
    ['chunked inside another coding', `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['chunked in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['another version', 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ['a folded field', `${ok}X-A: b\r\n c\r\n\r\n`],
    ['a control character', `${ok}X-A: b\0c\r\n\r\n`],
    ['a space within a name', `${ok}X A: b\r\n\r\n`],
    ['101 with Upgrade', 'HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
    ['101 without', 'HTTP/1.1 101 Go\r\n\r\n'],
    ['a head without end', `${ok}X-A: ${'b'.repeat(70_000)}\r\n\r\n`, 'ORIGIN_HEAD_TOO_LARGE'],
  ]
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  for (const [what, text, code = 'ORIGIN_MALFORMED'] of cases) {
    origin.at('/', by(text))
    const failure = await failureOf(client.request(asking(origin.url('/'))))
    t.match(failure, { code, phase: 'fields', fault: 'upstream' }, what)
    await until(() => client.counts().busy === 0)
  }
  t.equal(client.counts().retried, 0)
})

t.test('odd framing that can be read in one way is taken', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  for (const lines of [
    'Content-Length: 5\r\nContent-Length: 5',
    'Content-Length: 5, 5',
    'Content-Length : 5',
    'X-Old\t: 1\r\nContent-Length:5',
  ]) {
    origin.at('/', by(`${ok}${lines}\r\n\r\nhello`))
    const answer = await client.request(asking(origin.url('/')))
    t.equal(answer.length, 5, lines)
    t.equal(await textOf(answer.content), 'hello')
  }
  for (const lines of ['Content-Length: 5\r\nTransfer-Encoding: chunked', 'Content-Length: x']) {
    origin.at('/', by(`${ok}${lines}\r\n\r\n`))
    t.equal((await client.request(asking(origin.url('/'), { method: 'HEAD' }))).status, 200, lines)
  }
})

t.test('a head of almost 64 KiB is taken', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/', by(`${ok}X-A: ${'b'.repeat(65_000)}\r\nContent-Length: 0\r\n\r\n`))
  const { client } = makeClient(t)
  t.equal((await client.request(asking(origin.url('/')))).fields.get('X-A')?.length, 65_000)
})

t.test('content that breaks off is an error after what had come', async t => {
  const content = 'hello'
  const cases = [
    ['by length', reply({ content, cut: { at: 3, by: 'fin' } }), 'ORIGIN_TRUNCATED', 'hel'],
    [
      'a longer length',
      reply({ content, claims: 9, cut: { at: 5, by: 'fin' } }),
      'ORIGIN_TRUNCATED',
      'hello',
    ],
    ['by RST', reply({ content, cut: { at: 3, by: 'reset' } }), 'ORIGIN_TRUNCATED', 'hel'],
    [
      'without length, by RST',
      reply({ content, framing: 'close', cut: { at: 3, by: 'reset' } }),
      'ORIGIN_TRUNCATED',
      'hel',
    ],
    [
      'no last chunk',
      reply({ content, framing: 'chunked', cut: { at: 5, by: 'fin' } }),
      'ORIGIN_TRUNCATED',
      'hello',
    ],
    [
      'within a chunk',
      by(`${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhel`),
      'ORIGIN_TRUNCATED',
      'hel',
    ],
    [
      'no chunk size',
      by(`${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n`),
      'ORIGIN_MALFORMED',
      'hello',
    ],
  ] as const
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  for (const [what, script, code, before] of cases) {
    origin.at('/', script)
    const answer = await client.request(asking(origin.url('/')))
    let text = ''
    const reading = (async () => {
      for await (const block of iterate(answer.content)) text += block
    })()
    t.match(await failureOf(reading), { code, phase: 'content', fault: 'upstream' }, what)
    t.equal(text, before, what)
    await until(() => client.counts().busy === 0)
  }
})

t.test('an origin that falls silent is given up by the deadline of the phase', async t => {
  const gate = new Gate()
  t.teardown(() => gate.open())
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/head', reply({ before: gate, interim: [103] }))
  origin.at('/interim', async answer => {
    await answer.write('HTTP/1.1 103 Early Hints\r\n\r\n')
    await gate.pass()
  })
  origin.at('/content', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client, clock } = makeClient(t, { deadlines })
  for (const path of ['/head', '/interim']) {
    const failing = failureOf(client.request(asking(origin.url(path))))
    const { gone } = await origin.arrived(path)
    clock.advance(30)
    const failure = await failing
    t.match(failure, { code: 'ORIGIN_FIELDS_TIMEOUT', timedOut: true, facts: { after: 30 } }, path)
    await gone
  }
  const content = iterate((await client.request(asking(origin.url('/content')))).content)
  t.equal((await content.next()).value?.toString(), 'he')
  clock.advance(1000)
  const failing = failureOf(content.next())
  clock.advance(39)
  clock.advance(1)
  t.match(await failing, { code: 'ORIGIN_CONTENT_TIMEOUT', facts: { after: 40, received: 2 } })
  await origin.seen('/content')[0]?.gone
})

t.test(
  'the deadline for the head counts from the request, however many interim responses come',
  async t => {
    const gates = [new Gate(), new Gate(), new Gate()]
    const origin = await ScriptedOrigin.listen(t)
    origin.at('/', async answer => {
      for (const gate of gates) {
        await answer.write('HTTP/1.1 103 Early Hints\r\n\r\n')
        await gate.pass()
      }
    })
    const { client, clock } = makeClient(t, { deadlines })
    const failing = failureOf(client.request(asking(origin.url('/'))))
    for (const gate of gates.slice(0, 2)) {
      await gate.reached
      clock.advance(14)
      gate.open()
    }
    await gates[2]?.reached
    clock.advance(2)
    t.match(await failing, { code: 'ORIGIN_FIELDS_TIMEOUT' })
    gates[2]?.open()
  },
)

t.test('an origin that does not take the request, or breaks off while we send', async t => {
  async function* endless() {
    for (;;) yield Buffer.alloc(1 << 20)
  }
  const content = { kind: 'stream', length: undefined, open: () => sourceOf(endless) } as const
  const deaf = await ScriptedOrigin.listen(t, { deaf: true })
  const { client, clock } = makeClient(t, { deadlines })
  const asked = asking(deaf.url('/'), { method: 'PUT', content })
  let settled = false
  const stalled = failureOf(client.request(asked)).finally(() => {
    settled = true
  })
  await deaf.opened(1)
  while (!settled) {
    // Time passes while nothing moves: only then does the deadline come.
    for (let i = 0; i < 20; i += 1) await new Promise(resolve => setImmediate(resolve))
    clock.advance(20)
  }
  t.match(await stalled, { code: 'ORIGIN_SEND_TIMEOUT', phase: 'send', facts: { after: 20 } })
  const broken = failureOf(client.request(asked))
  await until(() => deaf.connections === 2)
  await deaf.drop('reset')
  t.match(await broken, { fault: 'upstream', code: /ORIGIN_(SEND_FAILED|CLOSED)/ })
  await until(() => client.counts().busy === 0)
})

t.test("content that its source breaks off is the downstream's fault", async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  async function* broken() {
    yield Buffer.from('he')
    throw new Error('the client has gone')
  }
  async function* short() {
    yield Buffer.from('he')
  }
  async function* long() {
    yield Buffer.from('hello, world')
  }
  for (const open of [broken, short, long]) {
    const content = { kind: 'stream', length: 5, open: () => sourceOf(open) } as const
    const failure = await failureOf(
      client.request(asking(origin.url('/'), { method: 'PUT', content })),
    )
    t.match(failure, { code: 'ORIGIN_ABORTED', fault: 'downstream' }, open.name)
  }
  t.equal(origin.requests.length, 0, 'the origin never saw a whole request')
})

t.test('a request that cannot be written is refused before anything is sent', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t)
  const { uri } = asking(origin.url('/'))
  const failure = await failureOf(
    client.request(asking(origin.url('/'), { uri: { ...uri, path: '/a b\r\nX: y' } })),
  )
  t.match(failure, { code: 'ORIGIN_REQUEST_UNFIT', fault: 'downstream' })
  await until(() => client.counts().busy === 0)
})

t.test(
  'who comes when all connections are busy waits, but not for ever and not without end',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const gate = new Gate()
    origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
    const { client, clock } = makeClient(t, { deadlines, limits: { perOrigin: 1, waiting: 1 } })
    const first = await client.request(asking(origin.url('/slow')))
    const late = failureOf(client.request(asking(origin.url('/'))))
    const full = await failureOf(client.request(asking(origin.url('/'))))
    t.match(full, { code: 'ORIGIN_QUEUE_FULL', phase: 'queue' })
    t.match(client.counts(), { busy: 1, waiting: 1 })
    clock.advance(10)
    t.match(await late, { code: 'ORIGIN_QUEUE_TIMEOUT', facts: { after: 10 } })
    t.match(client.counts(), { busy: 1, waiting: 0 })
    const patient = client.request(asking(origin.url('/')))
    gate.open()
    t.equal(await textOf(first.content), 'hello')
    t.match(await patient, { status: 404, reused: true })
    t.equal(origin.connections, 1)
  },
)

t.test('a request given up in any phase leaves nothing open', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/head', reply({ before: gate }))
  origin.at('/content', inTurn(reply({ content: 'hello', pauses: [{ at: 2, gate }] })))
  const { client } = makeClient(t, { limits: { perOrigin: 1 } })
  const control = () => {
    const controller = new AbortController()
    const options: Partial<OriginRequest> = { signal: controller.signal }
    return { abort: () => controller.abort(), options }
  }
  const before = control()
  before.abort()
  const none = await failureOf(client.request(asking(origin.url('/head'), before.options)))
  t.match(none, { code: 'ORIGIN_ABORTED', fault: 'downstream' })

  const head = control()
  const waiting = failureOf(client.request(asking(origin.url('/head'), head.options)))
  const queued = control()
  const inLine = failureOf(client.request(asking(origin.url('/head'), queued.options)))
  const { gone } = await origin.arrived('/head')
  queued.abort()
  t.match(await inLine, { code: 'ORIGIN_ABORTED', phase: 'queue' })
  head.abort()
  t.match(await waiting, { code: 'ORIGIN_ABORTED', phase: 'fields' })
  await gone
  await until(() => client.counts().busy === 0)

  const content = control()
  const answer = await client.request(asking(origin.url('/content'), content.options))
  const blocks = iterate(answer.content)
  await blocks.next()
  const reading = failureOf(blocks.next())
  content.abort()
  t.match(await reading, { code: 'ORIGIN_ABORTED', phase: 'content' })
  await origin.seen('/content')[0]?.gone
  await until(() => client.counts().busy === 0)
  t.match(client.counts(), { busy: 0, free: 0, waiting: 0 })
})
