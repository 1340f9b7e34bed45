/**
 * Origins that hang at one address, limit their clients, fail for a while, or redirect and answer in odd ways: what clients get, how often
 * the origin is asked, and what the operator reads.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import {
  file,
  inTurn,
  reply,
  type Script,
  ScriptedOrigin,
} from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const never = new Gate()
const silence: Script = () => never.pass()
const index = '/debian/dists/stable/InRelease'
const deb = '/debian/pool/main/h/hello_1_all.deb'
const update = { 'Cache-Control': 'max-age=0' }

/** A cache that knows the name archive.test at two addresses. */
async function twoAddresses(t: Test) {
  const first = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  const second = await ScriptedOrigin.listen(t, { host: '127.0.0.3', port: first.port })
  const dns = new ScriptedDns({ 'archive.test': ['127.0.0.2', '127.0.0.3'] })
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, {
    origins: [{ host: 'archive.test', port: first.port }],
    lookup: dns.lookup,
    clock,
  })
  const url = (path: string) => `http://archive.test:${first.port}${path}`
  return { first, second, cache, clock, url }
}

t.test(
  'one address of a name stays silent: the other answers, also about a stored file',
  async t => {
    const { first, second, cache, clock, url } = await twoAddresses(t)
    for (const origin of [first, second]) origin.at(index, file({ content: 'old', etag: '"1"' }))
    await cache.warm(url(index))
    first.at('*', silence).at(index, silence)
    second.at(index, file({ content: 'new', etag: '"2"' })).at(deb, reply({ content: 'hello' }))
    clock.advance(60_000)
    const asked = first.seen(index).length
    const answer = cache.get(url(index), update)
    await first.arrived(index, asked + 1)
    clock.advance(3000)
    t.equal((await answer).text, 'new', 'before the client gets the stored copy')
    t.equal((await cache.get(url(deb))).text, 'hello', 'and the next request is not late at all')
    t.equal(first.seen(deb).length, 0)
    const [warning] = cache.log.lines.filter(({ message }) => /stays silent/.test(message))
    t.match(warning, { level: 'warn', facts: { address: `127.0.0.2:${first.port}` } })
    t.match(await cache.command({ do: 'status' }), {
      out: /Origins +archive\.test:\d+ its address 127\.0\.0\.2:\d+ takes connections and stays silent/,
    })
  },
)

t.test('both addresses of a name are slow: content that comes late arrives whole', async t => {
  const { first, second, cache, clock, url } = await twoAddresses(t)
  const [head, rest] = [new Gate(), new Gate()]
  const large = 'x'.repeat(300_000)
  const slow = reply({ content: large, before: head, pauses: [{ at: 1000, gate: rest }] })
  first.at(deb, inTurn(slow, silence))
  second.at(deb, silence)
  const client = await cache.client()
  await client.request('GET', url(deb))
  await first.arrived(deb)
  for (let n = 0; n < 40; n += 1) {
    await cache.get('/_cachesvc/healthz')
    clock.advance(1000)
  }
  t.equal((await client.response()).status, 503)
  t.ok(first.seen(deb).length + second.seen(deb).length <= 3, 'both addresses, and one once more')
  const later = await cache.client()
  await later.request('GET', url(deb))
  head.open()
  t.equal((await later.head()).status, 200)
  rest.open()
  t.equal((await later.bytes(large.length)).toString(), large)
  t.strictSame(
    cache.log.lines.filter(({ message }) => /broke off/.test(message)),
    [],
  )
})

t.test(
  'an origin that answers 429 with Retry-After is left alone, and the fact says why',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(Date.now())
    const cache = await TestCache.start(t, { origins: [origin], clock })
    for (const [status, retryAfter, left] of [
      [429, '120', 120],
      [503, '100000', 120],
      [503, '1', 5],
      [402, undefined, 5],
      [500, undefined, 5],
    ] as const) {
      origin.at(index, file({ content: 'release', etag: '"1"' }))
      clock.advance(600_000)
      await cache.warm(origin.url(index), update)
      clock.advance(60_000)
      const fields = retryAfter === undefined ? {} : { 'Retry-After': retryAfter }
      origin.at(index, reply({ status, fields }))
      const before = origin.seen(index).length
      for (let second = 0; second < left; second += 1) {
        const answer = await cache.get(origin.url(index), update)
        t.equal(answer.text, 'release')
        clock.advance(1000)
      }
      t.equal(origin.seen(index).length - before, 1, `${status}: asked once in ${left} s`)
      t.match(cache.log.lines.at(-1)?.facts, {
        because: 'stale-origin-failed',
        failure: `origin-${status}`,
      })
      await cache.get(origin.url(index), update)
      t.equal(origin.seen(index).length - before, 2, 'and again after that')
    }
  },
)

t.test('a file that is broken for ever does not keep clients from new indexes', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  origin.at(index, file({ content: 'old', etag: '"1"' }))
  origin.at('/debian/broken', reply({ status: 500, content: 'broken' }))
  await cache.warm(origin.url(index))
  clock.advance(60_000)
  await cache.get(origin.url('/debian/broken'))
  origin.at(index, file({ content: 'new', etag: '"2"' }))
  t.equal((await cache.get(origin.url(index), update)).text, 'new')
})

t.test('a stored file that is broken does not keep clients from new indexes either', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const other = '/debian/dists/stable/main/binary-all/Packages.xz'
  for (const path of [index, other]) {
    origin.at(path, file({ content: 'old', etag: '"1"' }))
    await cache.warm(origin.url(path), update)
  }
  clock.advance(60_000)
  origin.at(other, reply({ status: 500, content: 'broken' }))
  for (let n = 0; n < 3; n += 1) t.equal((await cache.get(origin.url(other), update)).text, 'old')
  t.equal(origin.seen(other).length, 2, 'it is itself left alone for a while')
  origin.at(index, file({ content: 'new', etag: '"2"' }))
  t.equal((await cache.get(origin.url(index), update)).text, 'new')
})

t.test('an origin of which two stored files fail is left alone for all of them', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const paths = [1, 2, 3].map(n => `/debian/dists/stable/main/binary-all/Packages.${n}`)
  for (const path of paths) {
    origin.at(path, file({ content: 'old', etag: '"1"' }))
    await cache.warm(origin.url(path), update)
  }
  clock.advance(60_000)
  origin.at('*', reply({ status: 500 }))
  for (const path of paths) {
    origin.at(path, reply({ status: 500 }))
    t.equal((await cache.get(origin.url(path), update)).text, 'old')
  }
  t.strictSame(
    paths.map(path => origin.seen(path).length),
    [2, 2, 1],
  )
})

t.test('429 rests files that are not stored as well, for half a minute; 503 does not', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  origin.at('*', reply({ status: 429, fields: { 'Retry-After': '120' } }))
  const first = await cache.get(origin.url(deb))
  t.equal(first.status, 429)
  t.match(first.reason, /limits requests or connections: see `archives\[\]\.connections`/)
  const second = await cache.get(origin.url(deb))
  t.equal(second.status, 503)
  t.match(second.reason, /The origin answered 429 a moment ago, and is asked again in 120 seconds/)
  t.equal(origin.requests.length, 1)
  clock.advance(30_000)
  origin.at('*', reply({ content: 'hello' }))
  t.equal((await cache.get(origin.url(deb))).text, 'hello')
  origin.at('*', reply({ status: 503 }))
  t.equal((await cache.get(origin.url('/debian/pool/a.deb'))).status, 503)
  t.equal((await cache.get(origin.url('/debian/pool/a.deb'))).status, 503)
  t.equal(origin.seen('/debian/pool/a.deb').length, 2, 'a client without the file needs it')
})

t.test('pipelined requests of one client to an archive that allows two connections', async t => {
  const origin = await ScriptedOrigin.listen(t)
  let now = 0
  let refused = 0
  origin.at('*', async answer => {
    now += 1
    const many = now > 2
    if (many) refused += 1
    for (let n = 0; n < 10; n += 1) await new Promise(resolve => setImmediate(resolve))
    await reply(many ? { status: 503 } : { content: 'hello' })(answer)
    now -= 1
  })
  const cache = await TestCache.start(t, { origins: [origin] })
  const client = await cache.client()
  for (let n = 0; n < 40; n += 1) await client.request('GET', origin.url(`/debian/pool/${n}.deb`))
  const texts: string[] = []
  for (let n = 0; n < 40; n += 1) texts.push((await client.response()).text)
  t.strictSame([...new Set(texts)], ['hello'])
  t.ok(refused > 0, `${refused} refused`)
  const warnings = cache.log.lines.filter(({ message }) => /refuses some of several/.test(message))
  t.match(warnings[0], { facts: { because: '503', setting: 'archives.connections' } })
  t.match(await cache.command({ do: 'explain', of: origin.url('/debian/pool/new.deb') }), {
    out: /Origin now +refused some of several connections \(503\)/,
  })

  await cache.reload({
    archives: [{ origins: [`127.0.0.1:${origin.port}/debian`], connections: 1 }],
  })
})

t.test('odd answers that apt takes', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('/203', reply({ status: 203, content: 'hello' }))
  origin.at('/chunks', async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    await answer.write('5   \r\nhello\r\n0   \r\n\r\n')
  })
  for (const path of ['/203', '/chunks']) {
    const answer = await cache.warm(origin.url(path))
    t.equal(answer.status, 200)
    t.equal(answer.text, 'hello')
    t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT')
  }
})

t.test('what is not HTTP is 520 with the rule that it breaks', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const [head, rule] of [
    ['SSH-2.0-OpenSSH_9.6\r\n', /does not begin with a status line/],
    ['HTTP/1.2 200 OK\r\n\r\n', /status line is not that of HTTP\/1\.1/],
    ['\r\nHTTP/1.1 200 OK\r\n\r\n', /an empty line comes before its status line/],
    ['HTTP/1.1 200 OK\nA: b\n\n', /ends with only LF/],
    ['HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n', /has a control character/],
    ['HTTP/1.1 200 OK\r\n: b\r\n\r\n', /a field of its head has no name/],
    ['HTTP/1.1 200 OK\r\nA b: c\r\n\r\n', /the name of a field of its head is not a token/],
    ['HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello', /its length is not a number/],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n', /transfer coding is not chunked/],
  ] as const) {
    origin.at('*', async answer => {
      await answer.write(head)
      answer.end()
    })
    const { status, reason } = await cache.get(origin.url('/file'))
    t.equal(status, 520, head)
    t.match(reason, rule)
  }
})

t.test('500, 502 and 503 of an origin that has given nothing: words of ours', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  for (const status of [500, 502, 503]) {
    origin.at('*', reply({ status }))
    const answer = await cache.get(origin.url('/file'))
    t.equal(answer.status, 503)
    t.match(
      answer.reason,
      new RegExp(`The origin 127\\.0\\.0\\.1:\\d+ answered ${status}\\. If it answers without`),
    )
  }
  origin.at('*', reply({ content: 'hello' }))
  await cache.warm(origin.url('/given'))
  origin.at('*', reply({ status: 500 }))
  t.match((await cache.get(origin.url('/file'))).reason, /answered 500$/)
})

t.test('a refusal after the look-up names the address, and explain knows it', async t => {
  const dns = new ScriptedDns({
    'fake.test': ['198.18.0.7'],
    'near.test': ['10.0.0.5'],
    'listed.test': ['127.0.0.2'],
  })
  const cache = await TestCache.start(t, { lookup: dns.lookup })
  const made = await cache.get(`http://fake.test${deb}`)
  t.equal(made.status, 403)
  t.match(made.reason, /leads to 198\.18\.0\.7, .*fake-IP.*198\.18\.0\.0\/15 to `private_domains`/)
  t.match(
    (await cache.get(`http://near.test${deb}`)).reason,
    /leads to 10\.0\.0\.5, .*or the network/,
  )
  t.match(await cache.command({ do: 'explain', of: `http://near.test${deb}` }), {
    out: /A request now +is refused\. near\.test:80 is refused because its name leads/,
  })

  const origin = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  origin.at('*', reply({ content: 'hello' }))
  await cache.reload({ private_domains: ['127.0.0.2/32'], ports: [origin.port] })
  t.equal((await cache.get(`http://listed.test:${origin.port}/file`)).text, 'hello')
  t.equal((await cache.get(`http://near.test:${origin.port}${deb}`)).status, 403)
})

t.test('explain knows a redirect that is not followed', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ status: 302, fields: { Location: 'ftp://mirror.test/x' } }))
  const answer = await cache.get(origin.url(deb))
  t.equal(answer.status, 520)
  t.match(answer.reason, /The origin's redirect was not followed/)
  const told = () => cache.command({ do: 'explain', of: origin.url(deb) })
  t.match(await told(), { out: /A request now +is refused\. The last answer of the origin/ })
  origin.at(deb, reply({ content: 'hello' }))
  await cache.warm(origin.url(deb))
  t.match(await told(), { out: /A request now +is answered from the store|origin has been/ })
})

t.test('a tunnel out of which nothing comes: the next one leads to the next address', async t => {
  const { first, second, cache, clock } = await twoAddresses(t)
  first.at('*', silence)
  second.at('*', reply({ content: 'hello' }))
  await cache.reload({
    domains: ['archive.test'],
    connect_ports: [first.port],
    ports: [first.port],
  })
  const target = `archive.test:${first.port}`
  const tunnel = async () => {
    const client = await cache.client()
    await client.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
    t.equal((await client.response({ to: 'CONNECT' })).status, 200)
    await client.write(`GET /file HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
    return client
  }
  const hanging = await tunnel()
  await first.arrived('/file')
  clock.advance(30_000)
  await hanging.reset()
  await first.seen('/file')[0]?.gone
  await cache.until(() => cache.log.lines.some(({ message }) => /stays silent/.test(message)))
  const works = await tunnel()
  t.equal((await works.response()).text, 'hello')
  t.equal(second.seen('/file').length, 1)
})
