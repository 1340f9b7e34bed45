/**
 * Origins that fail, on the wire: a retryable 503 with a text, soon, and never a 404 or 507 of our making.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'
import { reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { freePort } from '../fixtures/process/ports.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const never = new Gate()

function isUnavailable(t: Test, answer: RawResponse, name: string, status = 503): void {
  t.equal(answer.status, status, name)
  t.ok(answer.text.length > 20, 'with a text: without one apt gives up')
  t.equal(answer.fields.get('Content-Type'), 'text/plain; charset=utf-8')
  t.ok(answer.framing === 'length')
}

const ways: ReadonlyArray<readonly [string, Record<string, string>]> = [
  ['shared', {}],
  ['with credentials', { Authorization: 'Basic YTpi' }],
]

t.test('an origin that answers badly is 503 with a text', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  // What is not HTTP lasts, and is no status after which apt ends with 0.
  const answers: ReadonlyArray<readonly [string, Script, number?]> = [
    ['500', reply({ status: 500, content: '<html>' })],
    ['502', reply({ status: 502 })],
    ['503 without content', reply({ status: 503 })],
    ['504', reply({ status: 504 })],
    ['507', reply({ status: 507, content: 'full' })],
    ['599', reply({ status: 599 })],
    ['a closed connection', answer => answer.end()],
    ['a reset', answer => answer.reset()],
    [
      'no HTTP',
      answer => answer.write('SSH-2.0-OpenSSH_9.2\r\n\r\n').then(() => answer.end()),
      520,
    ],
    [
      'two lengths',
      answer => answer.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na'),
      520,
    ],
    [
      'an endless head',
      answer => answer.write(`HTTP/1.1 200 OK\r\nA: ${'x'.repeat(100_000)}`),
      520,
    ],
    [
      'another protocol',
      answer =>
        answer.write(
          'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
        ),
      520,
    ],
  ]
  for (const [name, script, status = 503] of answers) {
    origin.at(deb, script)
    isUnavailable(t, await cache.get(origin.url(deb)), name, status)
    const head = await cache.head(origin.url(deb))
    // An answer to HEAD has no content, so its framing is not judged; a client gets no length of it.
    const unframed = name === 'two lengths'
    t.equal(head.status, unframed ? 200 : status)
    if (unframed) t.notOk(head.fields.has('Content-Length'))
  }
  t.strictSame(await cache.stored(), [])
})

t.test('what the next try does not change keeps its status', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const status of [501, 505, 511]) {
    origin.at(deb, reply({ status, content: '<html>' }))
    for (const [name, fields] of ways) {
      const answer = await cache.get(origin.url(deb), fields)
      t.equal(answer.status, status, name)
      t.match(answer.text, name === 'shared' ? `answered ${status}` : '<html>')
    }
  }
  t.strictSame(await cache.stored(), [])
})

t.test('what an origin answers to credentials is its own word, and errors have a text', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const status of [500, 502, 503, 504]) {
    origin.at(deb, reply({ status }))
    const answer = await cache.get(origin.url(deb), { Authorization: 'Basic YTpi' })
    t.equal(answer.status, status)
    t.ok(answer.text.length > 20)
  }
  origin.at(deb, reply({ status: 507, content: 'full' }))
  const full = await cache.get(origin.url(deb), { Authorization: 'Basic YTpi' })
  t.equal(full.status, 503, '507 is final for apt: an origin that is full may have room tomorrow')
})

t.test('an origin that is not there is 503 with a text', async t => {
  const port = await freePort()
  const dns = new ScriptedDns({
    'broken.example.org': Object.assign(new Error('EAI_AGAIN'), { code: 'EAI_AGAIN' }),
  })
  const cache = await TestCache.start(t, {
    origins: [{ host: '127.0.0.1', port }],
    lookup: dns.lookup,
    settings: { domains: [`127.0.0.1:${port}`, '.example.org'] },
  })
  for (const [name, fields] of ways) {
    const refused = await cache.get(`http://127.0.0.1:${port}${deb}`, fields)
    isUnavailable(t, refused, name)
    for (const host of ['lost.example.org', 'broken.example.org']) {
      isUnavailable(t, await cache.get(`http://${host}${deb}`, fields), `${host}, ${name}`)
    }
  }
  const client = await cache.client()
  await client.request('CONNECT', 'lost.example.org:443')
  isUnavailable(t, await client.response(), 'a tunnel')
})

t.test('an origin that is silent is 503 in time, whatever its phase', async t => {
  const deaf = await ScriptedOrigin.listen(t)
  deaf.at('*', reply({ before: never }))
  const dns = new ScriptedDns()
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, {
    origins: [deaf],
    clock,
    lookup: dns.lookup,
    settings: {
      domains: [`127.0.0.1:${deaf.port}`, '.example.org'],
      timeouts: { connect: '5m', fields: '15s', drain: '0s' },
    },
  })
  for (const [name, fields] of ways) {
    const host = `slow${name.length}.example.org`
    dns.set(host, () => never.pass().then(() => []))
    for (const url of [deaf.url(`${deb}?${name.length}`), `http://${host}${deb}`]) {
      const client = await cache.client()
      const seen = deaf.requests.length
      await client.request('GET', url, fields)
      if (url.includes('slow')) await cache.until(() => dns.asked(host) > 0)
      else await cache.until(() => deaf.requests.length > seen)
      clock.advance(315_000)
      isUnavailable(t, await client.response(), `${url} ${name}`)
    }
  }
})

t.test('a fetch that was too slow for one client serves the next', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  const cache = await TestCache.start(t, {
    origins: [origin],
    clock,
    settings: { timeouts: { fields: '1m', drain: '0s' } },
  })
  const client = await cache.client()
  await client.request('GET', origin.url(deb))
  await origin.arrived(deb)
  clock.advance(68_000)
  t.equal((await client.response()).status, 503)
  gate.open()
  await cache.quiet()
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
  t.ok(origin.requests.length <= 2)
})

t.test('a chain of redirects does not take longer than the deadline either', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const gates = Array.from({ length: 4 }, () => new Gate())
  for (const [n, gate] of gates.entries()) {
    const fields = { Location: `/a${n + 1}` }
    origin.at(`/a${n}`, reply({ status: 302, fields, before: gate }))
  }
  const client = await cache.client()
  await client.request('GET', origin.url('/a0'))
  for (const [n, gate] of gates.entries()) {
    await origin.arrived(`/a${n}`)
    if (n === 2) break
    clock.advance(9_000)
    gate.open()
  }
  clock.advance(5_000)
  t.equal((await client.response()).status, 503)
  for (const gate of gates) gate.open()
})

t.test('content that stops in the middle cuts the client after the configured silence', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const settings = { timeouts: { content: '1s' } }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  origin.at(deb, reply({ content: 'x'.repeat(1000), pauses: [{ at: 500, gate: never }] }))
  const client = await cache.client()
  await client.request('GET', origin.url(deb))
  await client.head()
  await cache.quiet()
  t.ok((await client.rest()).length < 1000)
  t.strictSame(await cache.stored(), [])
})
