/**
 * Requests with content on the fast path: where it ends, who waits for whom, and what becomes of content that nobody reads, that stops, or
 * that is too slow. Beside Node's server wherever both have to write the same bytes.
 */
import t, { type Test } from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Handler } from '../../../lib/http/message/message.ts'
import {
  answers,
  contentOf,
  echo,
  get,
  pathOf,
  post,
  text,
} from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'
import { atRest } from '../../fixtures/time/until.ts'

// A busy machine has a minute for what takes seconds.
t.setTimeout(600_000)

/** Leaves after the first block, or reads nothing at all, as the path says. */
const careless: Handler = async request => {
  const path = pathOf(request)
  if (path === '/echo') return echo(request)
  if (path === '/first') for await (const _ of request.content) break
  return text(path)
}

t.test('the answers are those of Node\u2019s server', async t => {
  const node = await serveForTest(t, careless, { fastPath: false })
  const fast = await serveForTest(t, careless)
  const large = 'x'.repeat(300_000)
  const close = 'Connection: close\r\n'
  const withLength = (method: string, path: string, content: string, more = '') =>
    `${method} ${path} HTTP/1.1\r\nHost: a\r\n${more}Content-Length: ${content.length}\r\n\r\n${content}`
  const sent = {
    'a small one': [post('/echo', 'hello'), get('/end', close)],
    'a large one': [post('/echo', large), get('/end', close)],
    'in pieces': [post('/echo', 'hello').slice(0, -3), 'llo', get('/end', close)],
    none: [withLength('PUT', '/echo', ''), withLength('DELETE', '/echo', ''), get('/end', close)],
    'without a length': [`DELETE /echo HTTP/1.1\r\nHost: a\r\n\r\n`, get('/end', close)],
    'what looks like a request': [post('/echo', get('/not')), get('/end', close)],
    'of a GET': [withLength('GET', '/echo', 'hello'), get('/end', close)],
    'of a PATCH that closes': [withLength('PATCH', '/echo', 'hello', close), get('/not')],
    'that is not read': [post('/unread', large), get('/end', close)],
    'that is not read to its end': [post('/first', large), get('/end', close)],
    'in chunks behind it': [
      post('/echo', 'one'),
      'POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n',
      withLength('POST', '/echo', 'three', close),
    ],
    'longer than it says': [post('/echo', 'hello'), 'more', get('/not', close)],
  }
  for (const [name, blocks] of Object.entries(sent)) {
    for (const pieces of [blocks, [blocks.join('')]]) {
      const expected = await answers(t, node.port, pieces)
      t.match(expected, /^HTTP\/1.1 200/)
      t.equal(await answers(t, fast.port, pieces), expected, `${name}, ${pieces.length} pieces`)
    }
  }
  const told = ({ exchanges }: typeof node) =>
    exchanges.map(({ request, sent }) => `${request.method} ${pathOf(request)} ${sent}`)
  t.strictSame(told(fast), told(node))
  t.strictSame(fast.malformed, node.malformed)
})

t.test('a client that ends within its content is told so, and its handler', async t => {
  const both = await Promise.all(
    [true, false].map(async fastPath => {
      const problems: unknown[] = []
      const handler: Handler = async request => {
        await contentOf(request).catch((error: unknown) => problems.push(error))
        return text('sorry')
      }
      const { port, malformed } = await serveForTest(t, handler, { fastPath })
      const client = await RawClient.connect(t, port)
      await client.write(post('/', 'hello').slice(0, -1))
      client.end()
      const answer = await client.response()
      return { malformed, problems: problems.map(String), answer: [answer.status, answer.text] }
    }),
  )
  t.match(both[0]?.malformed, [{ status: 400, problem: 'HPE_INVALID_EOF_STATE' }])
  t.match(both[0]?.problems, [/malformed/])
  t.strictSame(both[0], both[1])
})

t.test('a handler whose client breaks off is told', async t => {
  let problem: unknown
  const begun = new Gate()
  const { port, exchanges } = await serveForTest(t, async request => {
    begun.open()
    await contentOf(request).catch((error: unknown) => {
      problem = error
    })
    return text('to nobody')
  })
  const client = await RawClient.connect(t, port)
  await client.write(post('/', 'hello').slice(0, -1))
  await begun.pass()
  await client.reset()
  t.ok(await eventually(() => exchanges.length === 1))
  t.match(problem, { message: 'the client went away before its content ended' })
  t.match(exchanges, [{ complete: false }])
})

t.test('content that is not read stays with the client', async t => {
  const gate = new Gate()
  let content: AsyncIterator<Buffer> | undefined
  const { port } = await serveForTest(t, async request => {
    content = request.content[Symbol.asyncIterator]()
    await gate.pass()
    return text(String((await contentOf(request)).length))
  })
  const client = await RawClient.connect(t, port)
  const size = 16 << 20
  await client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`)
  let taken = false
  const written = client.write(Buffer.alloc(size)).then(() => {
    taken = true
  })
  t.ok(await eventually(() => content !== undefined))
  await atRest(() => client.socket.bytesWritten)
  t.notOk(taken)
  gate.open()
  t.equal((await client.response()).text, String(size))
  await written
})

t.test('a drip comes as it is sent', async t => {
  const gate = new Gate()
  const sizes: number[] = []
  const { port } = await serveForTest(t, async request => {
    await gate.pass()
    for await (const block of request.content) sizes.push(block.length)
    return text('done')
  })
  const client = await RawClient.connect(t, port)
  const words = Array.from({ length: 50 }, (_, i) => String.fromCharCode(97 + (i % 26)))
  await client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${words.length}\r\n\r\n`)
  for (const [i, word] of words.entries()) {
    await client.write(word)
    if (i === words.length / 2) gate.open()
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal((await client.response()).text, 'done')
  t.equal(
    sizes.reduce((sum, size) => sum + size, 0),
    words.length,
  )
})

t.test('what came on one connection is not what came on another', async t => {
  const gate = new Gate()
  const { port } = await serveForTest(t, async request => {
    const blocks: Buffer[] = []
    for await (const block of request.content) blocks.push(block)
    await gate.pass()
    return text(Buffer.concat(blocks).toString())
  })
  const clients = await Promise.all([1, 2, 3].map(() => RawClient.connect(t, port)))
  for (const [i, client] of clients.entries()) await client.write(post('/', `I am ${i}`.repeat(99)))
  gate.open()
  for (const [i, client] of clients.entries()) {
    t.equal((await client.response()).text, `I am ${i}`.repeat(99))
  }
})

/** A server with a clock of ours, and a client whose content has begun. */
async function begun(t: Test, handler: Handler) {
  const clock = new ManualClock(0)
  const limits = { headTime: 0, requestTime: 20_000, idle: 0, taking: 0, stalled: 0 }
  const served = await serveForTest(t, handler, { clock, limits })
  const client = await RawClient.connect(t, served.port)
  await client.write(post('/', 'hello').slice(0, -1))
  const pass = (time: number) => {
    for (let passed = 0; passed < time; passed += 1000) clock.advance(1000)
  }
  return { ...served, client, pass }
}

t.test('content has its time, and its handler is told when that is over', async t => {
  const gate = new Gate()
  const { client, pass, malformed } = await begun(t, async request => {
    gate.open()
    return contentOf(request).then(text, (error: unknown) => text(String(error)))
  })
  await gate.pass()
  await new Promise(resolve => setImmediate(resolve))
  pass(19_000)
  t.strictSame(malformed, [])
  pass(2000)
  t.match((await client.response()).text, /malformed: ERR_HTTP_REQUEST_TIMEOUT/)
  t.ok(await client.ended)
  t.match(malformed, [{ status: 400, problem: 'ERR_HTTP_REQUEST_TIMEOUT' }])
})

t.test('the rest of what was answered has its time as well', async t => {
  const { client, pass } = await begun(t, async () => text('early'))
  t.equal((await client.response()).text, 'early')
  await client.write('oGET / HTTP/1.1\r\nHost: a\r\nX')
  await client.write(': y\r\n\r\n')
  t.equal((await client.response()).text, 'early', 'the next request begins behind it')
  await client.write(post('/', 'hello').slice(0, -1))
  t.equal((await client.response()).text, 'early')
  pass(11_000)
  t.ok(await client.ended)
})

t.test('content of one who is refused early does not become a request', async t => {
  const { port, exchanges } = await serveForTest(t, async () => ({
    status: 403,
    fields: Fields.empty,
    content: { kind: 'none' },
  }))
  const client = await RawClient.connect(t, port)
  const hidden = get('/hidden')
  await client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length}\r\n\r\n`)
  t.equal((await client.response()).status, 403)
  await client.write(`${hidden}${get('/next')}`)
  t.equal((await client.response()).status, 403)
  t.equal((await client.finish()).length, 0)
  t.strictSame(
    exchanges.map(({ request }) => pathOf(request)),
    ['/', '/next'],
  )
})
