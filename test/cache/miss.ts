/**
 * The miss, on the wire: one fetch for everybody, streamed while it grows, finished whoever leaves.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { Noise } from '../fixtures/chance/noise.ts'
import type { RawClient } from '../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const content = Buffer.alloc(300_000, 'the quick brown fox ')

t.test('clients who want one cold file share one fetch and stream while it grows', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const half = new Gate()
  origin.at(deb, file({ content, etag: '"1"', pauses: [{ at: 150_000, gate: half }] }))
  const clients = await Promise.all(Array.from({ length: 8 }, () => cache.client()))
  for (const client of clients) await client.request('GET', origin.url(deb))
  for (const client of clients) {
    t.equal((await client.head()).fields.get('Content-Length'), '300000')
    t.ok((await client.bytes(150_000)).equals(content.subarray(0, 150_000)))
  }
  const late = await cache.client()
  await late.request('GET', origin.url(deb))
  const head = await late.head()
  t.match(head.fields.get('Cache-Status'), /collapsed/)
  t.ok((await late.bytes(150_000)).equals(content.subarray(0, 150_000)), 'a late joiner has it all')
  half.open()
  for (const client of [...clients, late]) {
    t.ok((await client.bytes(150_000)).equals(content.subarray(150_000)))
  }
  await cache.quiet()
  t.equal(origin.requests.length, 1)
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
  const totals = await cache.totals()
  t.equal(totals.traffic_down, 300_000)
  t.equal(totals.misses, 9)
})

t.test('clients who come at the moment a fetch ends are not a second fetch', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', file({ content: 'hello' }))
  for (let round = 0; round < 20; round += 1) {
    const url = origin.url(`/debian/pool/a_${round}_all.deb`)
    await Promise.all(Array.from({ length: 6 }, () => cache.get(url)))
  }
  t.equal(origin.requests.length, 20)
})

t.test('a client that leaves stops nothing, nor do all', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const start = new Gate()
  const half = new Gate()
  origin.at(deb, file({ content, before: start, pauses: [{ at: 150_000, gate: half }] }))
  const early = await cache.client()
  await early.request('GET', origin.url(deb))
  await origin.arrived(deb)
  await early.reset()
  start.open()
  await half.reached
  const second = await cache.client()
  await second.request('GET', origin.url(deb))
  await second.head()
  await second.bytes(10)
  await second.reset()
  half.open()
  await cache.quiet()
  const hit = await cache.get(origin.url(deb))
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.ok(hit.content.equals(content))
  t.equal(origin.requests.length, 1)
})

t.test('a client that does not read holds up nobody', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const large = Buffer.alloc(24 * 1024 * 1024, 'abcdefgh')
  origin.at(deb, file({ content: large }))
  const lazy = await cache.client()
  await lazy.request('GET', origin.url(deb))
  await lazy.head()
  const eager = await cache.get(origin.url(deb))
  t.ok(eager.content.equals(large))
  t.ok((await lazy.bytes(large.length)).equals(large))
  t.equal(origin.requests.length, 1)
})

t.test(
  'content of unknown length is stored whole: chunked, or ended by its connection',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    for (const framing of ['chunked', 'close'] as const) {
      const url = origin.url(`/pool/${framing}.deb`)
      origin.at(`/pool/${framing}.deb`, reply({ content, framing }))
      const miss = await cache.warm(url)
      t.ok(miss.content.equals(content))
      t.notOk(miss.fields.has('Content-Length'))
      const hit = await cache.get(url)
      t.equal(hit.fields.get('X-Cache'), 'HIT')
      t.equal(hit.fields.get('Content-Length'), '300000')
    }
  },
)

t.test('an empty file is a file', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('/empty', file({ content: '' }))
  t.equal((await cache.warm(origin.url('/empty'))).fields.get('Content-Length'), '0')
  const hit = await cache.get(origin.url('/empty'))
  t.equal(hit.status, 200)
  t.equal(hit.fields.get('X-Cache'), 'HIT')
})

t.test('only a complete 200 is stored', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const part = { 'Content-Range': 'bytes 0-4/10' }
  origin.at('/206', reply({ status: 206, content: 'hello', fields: part }))
  origin.at('/200-part', reply({ content: 'hello', fields: part }))
  for (const status of [201, 202, 204, 300, 301, 304, 400, 401, 403, 404, 407, 410, 416]) {
    origin.at(`/${status}`, reply({ status, content: 'not it' }))
  }
  for (const path of ['/206', '/201', '/202', '/204', '/300', '/301', '/304', '/416']) {
    const answer = await cache.warm(origin.url(path))
    t.equal(answer.status, 503, `${path} is no answer to what was asked`)
    t.match(answer.text, path.slice(1))
  }
  t.equal((await cache.warm(origin.url('/407'))).status, 503, 'no client of ours can answer it')
  for (const status of [400, 401, 403, 404, 410]) {
    t.equal((await cache.warm(origin.url(`/${status}`))).status, status)
  }
  await cache.warm(origin.url('/200-part'))
  t.strictSame(await cache.stored(), [])
})

t.test('what may not be stored is shared while it flies and then forgotten', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const unstorable = {
    '/no-store': { 'Cache-Control': 'no-store' },
    '/private': { 'Cache-Control': 'private' },
    '/vary': { Vary: '*' },
  }
  for (const [path, fields] of Object.entries(unstorable)) {
    const half = new Gate()
    origin.at(path, reply({ content, fields, pauses: [{ at: 1000, gate: half }] }))
    const [one, other] = [await cache.client(), await cache.client()]
    await one.request('GET', origin.url(path))
    await one.head()
    await one.bytes(1000)
    await other.request('GET', origin.url(path))
    t.match((await other.head()).fields.get('Cache-Status'), 'collapsed')
    half.open()
    t.equal((await other.bytes(300_000)).length, 300_000)
    await one.bytes(299_000)
    t.equal(origin.seen(path).length, 1)
    await cache.quiet()
    const again = await cache.get(origin.url(path))
    t.match(again.fields.get('X-Cache'), /^MISS \(not stored: /)
    t.equal(origin.seen(path).length, 2)
  }
  t.strictSame(await cache.stored(), [])
  t.strictSame(await cache.files('v2/tmp'), [])
})

t.test('a passthrough host is fetched and not stored, its answers are its own', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: { passthrough_domains: [`127.0.0.1:${origin.port}`] },
  })
  origin.at(deb, file({ content: 'hello', etag: '"1"', fields: { 'X-Cache': 'HIT' } }))
  origin.at('/moved', reply({ status: 302, fields: { Location: '/elsewhere' } }))
  const part = await cache.get(origin.url(deb), { Range: 'bytes=1-2', 'X-Ours': 'a' })
  t.equal(part.status, 206)
  t.equal(part.text, 'el')
  t.strictSame(part.fields.all('X-Cache'), ['MISS'], "in place of another cache's")
  t.equal(origin.requests[0]?.fields.get('X-Ours'), 'a')
  t.equal((await cache.get(origin.url(deb), { 'If-None-Match': '"1"' })).status, 304)
  const moved = await cache.get(origin.url('/moved'))
  t.equal(moved.status, 302)
  t.equal(moved.fields.get('Location'), '/elsewhere')
  t.equal((await cache.head(origin.url(deb))).fields.get('Content-Length'), '5')
  t.strictSame(await cache.stored(), [])
  t.equal((await cache.totals()).traffic_down, 2)
})

t.test(
  'a client that reads slowly gets every byte of what is passed on, and of ranges',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const large = new Noise('slow').bytes(24_000_000)
    origin.at('*', file({ content: large, etag: '"1"' }))
    const slowly = async (client: RawClient, count: number): Promise<Buffer> => {
      const parts: Buffer[] = []
      for (let left = count; left > 0; left -= 40_000) {
        parts.push(await client.bytes(Math.min(40_000, left)))
        await nextTurn()
      }
      return Buffer.concat(parts)
    }
    const passed = { passthrough_domains: [`127.0.0.1:${origin.port}`] }
    const passing = await TestCache.start(t, { settings: passed })
    const client = await passing.client()
    await client.request('GET', origin.url(deb))
    await client.head()
    t.ok((await slowly(client, large.length)).equals(large), 'passed on')

    const cache = await TestCache.start(t, { origins: [origin] })
    await cache.warm(origin.url(deb))
    const other = await cache.client()
    await other.request('GET', origin.url(deb), { Range: 'bytes=10-8000009,16000000-' })
    const { fields } = await other.head()
    const parts = await slowly(other, Number(fields.get('Content-Length')))
    const first = parts.indexOf('\r\n\r\n') + 4
    t.ok(parts.subarray(first, first + 8_000_000).equals(large.subarray(10, 8_000_010)), 'a range')
    const second = parts.indexOf('\r\n\r\n', first + 8_000_000) + 4
    t.ok(parts.subarray(second, second + 8_000_000).equals(large.subarray(16_000_000)), 'the next')
  },
)

t.test('a page in the place of a stored index leaves the index where it is', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const path = '/debian/dists/stable/main/binary-amd64/Packages.gz'
  origin.at(path, file({ content: '\x1f\x8b index', etag: '"1"' }))
  const before = await cache.warm(origin.url(path))
  origin.at(path, reply({ content: '<html>', fields: { 'Content-Type': 'text/html' } }))
  const after = await cache.get(origin.url(path), { 'Cache-Control': 'no-cache' })
  t.ok(after.content.equals(before.content))
  t.match(after.fields.get('Cache-Status'), 'stale-origin-failed')
})
