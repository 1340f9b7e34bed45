/**
 * Parts, conditions and HEAD of what is not stored yet, and content that must equal its name.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const date = 'Wed, 01 Jan 2025 00:00:00 GMT'
const later = 'Thu, 02 Jan 2025 00:00:00 GMT'
const content = Buffer.from(Array.from({ length: 2000 }, (_, n) => `${n} `).join(''))

async function begun(t: { teardown(act: () => unknown): void }) {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  return { origin, cache }
}

t.test('a Range on a miss is served from the whole, which is stored', async t => {
  const { origin, cache } = await begun(t)
  const parts: ReadonlyArray<readonly [range: string, first: number, last: number]> = [
    ['bytes=10-19', 10, 19],
    ['bytes=8000-', 8000, content.length - 1],
    ['bytes=-5', content.length - 5, content.length - 1],
    ['bytes=0-0', 0, 0],
  ]
  for (const [n, [range, first, last]] of parts.entries()) {
    const path = `/pool/a_${n}.deb`
    origin.at(path, file({ content, etag: '"1"' }))
    const part = await cache.warm(origin.url(path), { Range: range })
    t.equal(part.status, 206, range)
    t.equal(part.fields.get('Content-Range'), `bytes ${first}-${last}/${content.length}`)
    t.ok(part.content.equals(content.subarray(first, last + 1)))
    t.notOk(origin.seen(path)[0]?.fields.has('Range'))
    const hit = await cache.get(origin.url(path))
    t.equal(hit.fields.get('X-Cache'), 'HIT')
    t.ok(hit.content.equals(content))
  }
})

t.test('several ranges on a miss come as multipart/byteranges', async t => {
  const { origin, cache } = await begun(t)
  const half = new Gate()
  origin.at(deb, file({ content, pauses: [{ at: 100, gate: half }] }))
  const client = await cache.client()
  await client.request('GET', origin.url(deb), { Range: 'bytes=0-4, 5000-5004' })
  half.open()
  const part = await client.response()
  t.equal(part.status, 206)
  t.match(part.fields.get('Content-Type'), /^multipart\/byteranges; boundary=/)
  t.match(part.text, `Content-Range: bytes 0-4/${content.length}\r\n\r\n0 1 2\r\n`)
  t.match(part.text, content.subarray(5000, 5005).toString())
})

t.test('a range behind the end of a miss is 416, and the fill goes on', async t => {
  const { origin, cache } = await begun(t)
  origin.at(deb, file({ content, etag: '"1"' }))
  const answer = await cache.warm(origin.url(deb), { Range: `bytes=${content.length}-` })
  t.equal(answer.status, 416)
  t.equal(answer.fields.get('Content-Range'), `bytes */${content.length}`)
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
})

t.test('If-Range on a miss is judged by what the origin has now', async t => {
  const { origin, cache } = await begun(t)
  const cases = [
    ['"1"', 206],
    [date, 206],
    ['"2"', 200],
    [later, 200],
  ] as const
  for (const [n, [ifRange, status]] of cases.entries()) {
    origin.at(`/pool/a_${n}.deb`, file({ content, etag: '"1"', lastModified: date }))
    const answer = await cache.get(origin.url(`/pool/a_${n}.deb`), {
      Range: 'bytes=5-',
      'If-Range': ifRange,
    })
    t.equal(answer.status, status, ifRange)
  }
})

t.test('a Range of a miss whose length nobody knows is answered with the whole', async t => {
  const { origin, cache } = await begun(t)
  origin.at(deb, reply({ content, framing: 'chunked' }))
  const answer = await cache.get(origin.url(deb), { Range: 'bytes=5-9' })
  t.equal(answer.status, 200)
  t.ok(answer.content.equals(content))
})

t.test('conditions on a miss are judged by what the origin has now', async t => {
  const { origin, cache } = await begun(t)
  const cases = [
    [{ 'If-Modified-Since': date }, 304],
    [{ 'If-Modified-Since': later }, 304],
    [{ 'If-Modified-Since': 'Tue, 31 Dec 2024 23:59:59 GMT' }, 200],
    [{ 'If-None-Match': '"1"' }, 304],
    [{ 'If-None-Match': '"2"', 'If-Modified-Since': later }, 200],
  ] as const
  for (const [n, [fields, status]] of cases.entries()) {
    const path = `/dists/stable/${n}/InRelease`
    origin.at(path, file({ content, etag: '"1"', lastModified: date }))
    const answer = await cache.warm(origin.url(path), fields)
    t.equal(answer.status, status, JSON.stringify(fields))
    t.notOk(origin.seen(path)[0]?.fields.has('If-Modified-Since'), 'the origin is asked for all')
  }
  t.equal((await cache.stored()).length, cases.length)
})

t.test(
  'HEAD of an absent file downloads nothing, and of a stored one as much as GET does',
  async t => {
    const { origin, cache } = await begun(t)
    const release = '/debian/dists/stable/InRelease'
    for (const path of [deb, release]) origin.at(path, file({ content, lastModified: date }))
    const methods = () => origin.requests.map(({ method }) => method).join(' ')

    const miss = await cache.head(origin.url(deb))
    t.equal(miss.fields.get('Content-Length'), String(content.length))
    t.equal(miss.fields.get('Last-Modified'), date)
    t.equal((await cache.head(origin.url(deb), { 'If-Modified-Since': later })).status, 304)
    t.equal((await cache.head(origin.url('/lost'))).status, 404)
    t.equal(methods(), 'HEAD HEAD HEAD GET', 'a 404 to HEAD alone is not believed')
    await cache.warm(origin.url(release))
    const insist = { 'Cache-Control': 'max-age=0' }
    const stale = await cache.head(origin.url(release), insist)
    t.equal(stale.status, 200)
    t.equal(stale.fields.get('Content-Length'), String(content.length))
    t.equal(methods(), 'HEAD HEAD HEAD GET GET GET')

    const half = new Gate()
    origin.at('/flying', file({ content, lastModified: date, pauses: [{ at: 5, gate: half }] }))
    const client = await cache.client()
    await client.request('GET', origin.url('/flying'))
    await client.head()
    const flying = await cache.head(origin.url('/flying'))
    t.equal(flying.fields.get('Content-Length'), String(content.length))
    half.open()
    await cache.quiet()
    t.equal(methods(), 'HEAD HEAD HEAD GET GET GET GET')
    t.equal((await cache.head(origin.url('/flying'))).fields.get('X-Cache'), 'HIT')
  },
)

t.test('a stale HEAD is not kept waiting, and an ill origin does not spoil it', async t => {
  const { origin, cache } = await begun(t)
  const release = '/debian/dists/stable/InRelease'
  const insist = { 'Cache-Control': 'max-age=0' }
  origin.at(release, file({ content, lastModified: date }))
  await cache.reload({
    domains: [`127.0.0.1:${origin.port}`],
    timeouts: { revalidation: '100ms' },
    freshness: { floor: '0s' },
  })
  await cache.warm(origin.url(release))
  const never = new Gate()
  origin.at(release, reply({ content, before: never }))
  const slow = await cache.head(origin.url(release), insist)
  t.equal(slow.status, 200)
  t.match(slow.fields.get('Cache-Status'), 'stale-origin-slow')
  never.open()
  await cache.quiet()
  for (const status of [500, 503, 429, 302, 404]) {
    origin.at(release, reply({ status }))
    const ill = await cache.head(origin.url(release), insist)
    t.equal(ill.status, 200, String(status))
    t.match(ill.fields.get('Cache-Status'), 'stale-origin-failed')
  }
  const other = release.replace('InRelease', 'other')
  origin.at(other, file({ content, lastModified: date }))
  await cache.warm(origin.url(other))
  origin.at(other, reply({ status: 404 }))
  t.equal((await cache.head(origin.url(other), insist)).status, 404)
})

t.test('HEAD shows our own words about the cache, not those of another one', async t => {
  const { origin, cache } = await begun(t)
  const fields = { 'X-Cache': 'HIT from far', 'Cache-Status': 'far; hit', Age: 7, Via: '1.1 far' }
  origin.at(deb, file({ content, fields }))
  for (const answer of [await cache.head(origin.url(deb)), await cache.get(origin.url(deb))]) {
    t.strictSame(answer.fields.all('X-Cache'), ['MISS'])
    t.equal(answer.fields.all('Cache-Status').length, 1)
    t.equal(answer.fields.get('Age'), '7', 'the age it has already')
  }
})

const byHash = (bytes: Buffer, algorithm: 'sha256' | 'sha512' | 'md5') => {
  const name = { sha256: 'SHA256', sha512: 'SHA512', md5: 'MD5Sum' }[algorithm]
  const digest = createHash(algorithm).update(bytes).digest('hex')
  return `/debian/dists/stable/main/binary-amd64/by-hash/${name}/${digest}`
}

t.test('content that equals the digest it is named by is stored', async t => {
  const { origin, cache } = await begun(t)
  for (const algorithm of ['sha256', 'sha512', 'md5'] as const) {
    const path = byHash(content, algorithm)
    origin.at(path, file({ content }))
    t.ok((await cache.warm(origin.url(path))).content.equals(content), algorithm)
    t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT', algorithm)
  }
  t.equal((await cache.files('v2/blobs')).length, 1, 'one content, one blob')
})

t.test('content that does not is never complete at a client and never stored', async t => {
  const { origin, cache } = await begun(t)
  const large = Buffer.alloc(300_000, 'evil')
  const wrongs: ReadonlyArray<readonly [string, Buffer, 'length' | 'chunked' | 'close']> = [
    ['small', Buffer.from('evil'), 'length'],
    ['large', large, 'length'],
    ['chunked', large, 'chunked'],
    ['small and chunked', Buffer.from('evil'), 'chunked'],
    ['empty', Buffer.alloc(0), 'length'],
    ['empty and chunked', Buffer.alloc(0), 'chunked'],
    ['ended by the connection', large, 'close'],
  ]
  for (const [name, bytes, framing] of wrongs) {
    const path = byHash(Buffer.from(name), 'sha256')
    origin.at(path, reply({ content: bytes, framing }))
    const client = await cache.client()
    await client.request('GET', origin.url(path))
    const complete = await client.response().then(
      ({ status, framing: ended }) => status === 200 && ended !== 'close',
      () => false,
    )
    t.notOk(complete, name)
  }
  await cache.quiet()
  t.strictSame(await cache.stored(), [])
  t.strictSame([...(await cache.files('v2/blobs')), ...(await cache.files('v2/tmp'))], [])
  t.ok(cache.log.lines.some(({ facts }) => JSON.stringify(facts).includes('wrong-digest')))
})

t.test('an empty file may have a digest for its name, too', async t => {
  const { origin, cache } = await begun(t)
  const path = byHash(Buffer.alloc(0), 'sha256')
  origin.at(path, file({ content: '' }))
  t.equal((await cache.warm(origin.url(path))).status, 200)
  t.equal((await cache.get(origin.url(path))).fields.get('X-Cache'), 'HIT')
})
