/**
 * What changes, on the wire: when the origin is asked, how long a client waits for it, and what it gets when the origin is
 * slow, ill or gone.
 */
import t, { type Test } from 'tap'
import { type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'
/** Like a Release file, but an update of it does not wait for other files. */
const index = '/debian/dists/stable/main/binary-amd64/Packages'
const other = '/debian/doc/constitution.txt'
const date = 'Wed, 01 Jan 2025 00:00:00 GMT'
const later = 'Thu, 02 Jan 2025 00:00:00 GMT'
const insist = { 'Cache-Control': 'max-age=0' }
const minute = 60_000

async function begun(t: Test, settings: Settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  origin.at('*', file({ content: 'first', etag: '"1"', lastModified: date }))
  const detail = async (url: string, fields = {}) => {
    const { text, fields: said } = await cache.get(url, fields)
    return `${text} ${/detail=([^;\s]+)/.exec(said.get('Cache-Status') ?? '')?.[1]}`
  }
  return { origin, clock, cache, detail, url: origin.url(release) }
}

t.test('how long the origin need not be asked depends on the kind of file', async t => {
  const { origin, clock, cache, detail } = await begun(t)
  for (const path of [deb, release, other]) await cache.warm(origin.url(path))
  clock.advance(50_000)
  for (const path of [deb, release, other]) await detail(origin.url(path))
  t.equal(origin.requests.length, 3, 'within a minute nobody is asked')
  clock.advance(20_000)
  t.equal(await detail(origin.url(release)), 'first validated')
  t.equal(await detail(origin.url(other)), 'first fresh')
  clock.advance(61 * minute)
  t.equal(await detail(origin.url(other)), 'first validated')
  t.equal(await detail(origin.url(deb)), 'first validated', 'no index names it')
  t.equal(await detail(origin.url(deb)), 'first immutable')
  t.equal(origin.seen(deb).length, 2)
})

t.test('a package that was built anew under its name, where there is no Release file', async t => {
  const { origin, clock, cache, detail } = await begun(t)
  await cache.warm(origin.url(deb))
  origin.at(deb, file({ content: 'anew', etag: '"2"', lastModified: later }))
  t.equal(await detail(origin.url(deb)), 'first immutable')
  clock.advance(61 * minute)
  t.equal(await detail(origin.url(deb)), 'anew changed')
  origin.at(deb, reply({ status: 503 }))
  clock.advance(61 * minute)
  t.equal(await detail(origin.url(deb)), 'anew stale-origin-failed', 'as good as before')
  origin.at(deb, reply({ status: 404 }))
  t.equal(await detail(origin.url(deb)), 'anew stale-origin-failed', 'it is left alone for 5 s')
  clock.advance(5000)
  t.match(await detail(origin.url(deb)), /^The origin .* answered 404/)
  t.strictSame(await cache.stored(), [])
})

t.test('files that belong together are of one moment', async t => {
  const { origin, clock, cache, detail } = await begun(t)
  const recently = new Date(Date.parse('2025-03-14T11:55:00Z')).toUTCString()
  const pairs = [
    ['/debian/dists/stable/main/installer-amd64/current/images/netboot/linux', date],
    ['/debian/dists/stable/main/installer-amd64/current/images/netboot/initrd.gz', date],
    ['/ubuntu/dists/noble/main/dist-upgrader-all/current/noble.tar.gz', date],
    // Files of other package managers are confirmed each time.
    ['/arch/core/os/x86_64/core.db', recently, 'validated'],
    ['/fedora/repodata/repomd.xml', date, 'validated'],
    ['/fedora/Packages/h/hello-1-1.noarch.rpm', date, 'validated'],
    ['/alpine/main/x86_64/APKINDEX.tar.gz', date, 'validated'],
  ] as const
  for (const [path, lastModified, because = 'fresh'] of pairs) {
    origin.at(path, file({ content: 'first', lastModified }))
    await cache.warm(origin.url(path))
    t.equal(await detail(origin.url(path)), `first ${because}`)
    origin.at(path, file({ content: 'second', lastModified: new Date(clock.now()).toUTCString() }))
  }
  clock.advance(65_000)
  for (const [path] of pairs) t.equal(await detail(origin.url(path)), 'second changed', path)
})

t.test('max-age=0 counts for what changes and for nothing else', async t => {
  const { origin, cache, detail, url } = await begun(t)
  await cache.warm(url)
  await cache.warm(origin.url(deb))
  t.equal(await detail(url, insist), 'first validated')
  // While the Release that this client has just got is still being read, the origin confirms packages.
  await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
  t.equal(await detail(origin.url(deb), insist), 'first immutable')
  t.equal(await detail(origin.url(deb), { 'Cache-Control': 'no-cache' }), 'first validated')
  t.equal(origin.seen(deb)[1]?.fields.get('If-None-Match'), '"1"')
  t.equal(origin.seen(deb)[1]?.fields.get('If-Modified-Since'), date)
  t.equal(origin.seen(release)[1]?.fields.get('Cache-Control'), 'max-age=0')
})

t.test('what was validated a moment ago satisfies those who insist, but not no-cache', async t => {
  const { origin, clock, cache, detail, url } = await begun(t, { freshness: { floor: '5s' } })
  await cache.warm(url)
  t.equal(await detail(url, insist), 'first validated-just-now')
  t.equal(await detail(url, { Pragma: 'no-cache' }), 'first validated')
  clock.advance(5001)
  t.equal(await detail(url, insist), 'first validated')
  t.equal(origin.requests.length, 3)
})

t.test('changed content reaches the client that asked, and is stored', async t => {
  const { origin, cache, detail, url } = await begun(t)
  await cache.warm(url)
  origin.at(release, file({ content: 'second', etag: '"2"', lastModified: later }))
  const answer = await cache.get(url, { ...insist, 'If-Modified-Since': date })
  t.equal(answer.status, 200)
  t.equal(answer.text, 'second')
  t.equal(answer.fields.get('Last-Modified'), later)
  t.equal(answer.fields.get('X-Cache'), 'MISS')
  t.equal(await detail(url), 'second fresh')
})

t.test('a 304 gives the client its own 304, and renews the entry', async t => {
  const { origin, clock, cache, url } = await begun(t)
  await cache.warm(url)
  clock.advance(2 * minute)
  const answer = await cache.get(url, { ...insist, 'If-Modified-Since': date })
  t.equal(answer.status, 304)
  t.equal(answer.fields.get('Age'), '0')
  await cache.get(url)
  t.equal(origin.requests.length, 2)
})

t.test('clients who ask at once share one revalidation', async t => {
  const { origin, cache, url } = await begun(t)
  await cache.warm(url)
  const gate = new Gate()
  origin.at(release, file({ content: 'first', etag: '"1"', before: gate }))
  const clients = await Promise.all(Array.from({ length: 6 }, () => cache.client()))
  for (const client of clients) await client.request('GET', url, insist)
  await origin.arrived(release, 2)
  for (let n = 0; n < 50; n += 1) await cache.metric('cachesvc_fetches_under_way')
  gate.open()
  for (const client of clients) t.equal((await client.response()).text, 'first')
  t.equal(origin.requests.length, 2)
})

t.test('a slow origin costs the budget; the revalidation goes on behind it', async t => {
  const { origin, clock, cache, detail } = await begun(t)
  const url = origin.url(index)
  await cache.warm(url)
  const gate = new Gate()
  origin.at(index, file({ content: 'second', etag: '"2"', before: gate }))
  const client = await cache.client()
  await client.request('GET', url, insist)
  await origin.arrived(index, 2)
  clock.advance(3999)
  clock.advance(1)
  const stale = await client.response()
  t.equal(stale.text, 'first')
  t.match(stale.fields.get('Cache-Status'), 'stale-origin-slow')
  t.equal(stale.fields.get('X-Cache'), 'HIT')
  gate.open()
  await cache.quiet()
  t.equal(await detail(url), 'second fresh')
})

t.test('changed content that is slow to come is streamed once the budget is spent', async t => {
  const { origin, clock, cache } = await begun(t)
  const url = origin.url(index)
  await cache.warm(url)
  const gate = new Gate()
  const content = 'x'.repeat(100_000)
  origin.at(index, file({ content, etag: '"2"', pauses: [{ at: 50_000, gate }] }))
  const client = await cache.client()
  await client.request('GET', url, insist)
  await gate.reached
  await cache.until(async () => {
    clock.advance(1000)
    return (await cache.totals()).requests >= 0 && clock.now() > Date.parse('2025-03-14T12:00:10Z')
  })
  t.equal((await client.head()).fields.get('Content-Length'), '100000')
  t.equal((await client.bytes(50_000)).length, 50_000)
  gate.open()
  t.equal((await client.bytes(50_000)).length, 50_000)
})

t.test('an origin that is ill or refuses is answered for by the store', async t => {
  const { origin, cache, detail, url } = await begun(t)
  await cache.warm(url)
  for (const status of [500, 502, 503, 504, 408, 429, 302, 206]) {
    origin.at(release, reply({ status, content: 'an error page' }))
    t.equal(await detail(url, insist), 'first stale-origin-failed', String(status))
  }
  origin.at(release, answer => answer.reset())
  t.equal(await detail(url, insist), 'first stale-origin-failed')
  origin.at(release, reply({ content: 'later', cut: { at: 3, by: 'fin' } }))
  const cut = cache.get(url, insist)
  await cache.quiet()
  t.match((await cut).text, 'first', 'content that broke off is no new content')
  await origin.close()
  t.equal(await detail(url, insist), 'first stale-origin-failed')
  t.match((await cache.get(url, insist)).fields.get('Age'), /^\d+$/)
})

t.test('an origin that says the file is gone, or not for us, is believed', async t => {
  const { origin, cache, detail, url } = await begun(t)
  await cache.warm(url)
  for (const status of [404, 410, 403, 401]) {
    origin.at(release, reply({ status }))
    t.equal((await cache.get(url, insist)).status, status)
  }
  origin.at(release, file({ content: 'back', etag: '"9"' }))
  t.equal(await detail(url, insist), 'back absent')
})

t.test('what the origin declared gone stays gone when the origin fails', async t => {
  const { origin, cache, url } = await begun(t)
  for (const [status, now] of [
    [404, 503],
    [410, 503],
    [403, 200],
  ] as const) {
    origin.at(release, file({ content: 'here', etag: '"1"' }))
    await cache.warm(url, insist)
    origin.at(release, reply({ status }))
    t.equal((await cache.get(url, insist)).status, status)
    origin.at(release, answer => answer.reset())
    t.equal((await cache.get(url, insist)).status, now, `after ${status}`)
  }
})

t.test(
  'new content reaches the client from its first byte on when its validator shows that it is new',
  async t => {
    const { origin, cache } = await begun(t)
    const url = origin.url(index)
    await cache.warm(url)
    const fields = { ETag: '"2"' }
    origin.at(
      index,
      reply({ content: 'later, and more', fields, pauses: [{ at: 12, gate: new Gate() }] }),
    )
    const client = await cache.client()
    await client.request('GET', url, insist)
    t.equal(
      (await client.head()).fields.get('Cache-Status'),
      'cachesvc; fwd=stale; fwd-status=200; stored; detail=changed',
    )
    t.equal((await client.bytes(12)).toString(), 'later, and m')
  },
)

t.test('what may no longer be stored is passed on, not kept from the client', async t => {
  const { origin, cache, url } = await begun(t)
  await cache.warm(url)
  const fields = { 'Cache-Control': 'no-store' }
  origin.at(release, reply({ content: 'second', fields }))
  for (let n = 0; n < 2; n += 1) t.equal((await cache.get(url, insist)).text, 'second')
})

t.test('an origin that was away is asked as soon as it is back', async t => {
  const { origin, cache, detail, url } = await begun(t)
  await cache.warm(url)
  origin.at(release, answer => answer.reset())
  t.equal(await detail(url, insist), 'first stale-origin-failed')
  origin.at(release, file({ content: 'second', etag: '"2"' }))
  t.equal(await detail(url, insist), 'second changed')
})

t.test('an origin that kept one client waiting keeps no second one', async t => {
  const { origin, clock, cache, detail, url } = await begun(t)
  const other = origin.url('/dists/a/InRelease')
  for (const one of [url, other]) await cache.warm(one)
  const gate = new Gate()
  origin.at('*', file({ content: 'second', etag: '"2"', before: gate }))
  const client = await cache.client()
  await client.request('GET', url, insist)
  await origin.arrived(release, 2)
  clock.advance(4000)
  t.equal((await client.response()).text, 'first')
  t.equal(await detail(other, insist), 'first stale-origin-failed', 'at once')
  gate.open()
  await cache.quiet()
  for (const one of [url, other]) t.equal((await cache.get(one, insist)).text, 'second')
})

t.test('an origin that let a deadline pass is waited for by nobody, and asked behind', async t => {
  const { origin, clock, cache, detail, url } = await begun(t)
  const [a, b] = [origin.url('/dists/a/InRelease'), origin.url('/dists/b/InRelease')]
  for (const one of [url, a, b]) await cache.warm(one)
  const never = new Gate()
  origin.at('*', reply({ before: never }))
  const client = await cache.client()
  await client.request('GET', url, insist)
  await origin.arrived(release, 2)
  clock.advance(4000)
  t.match((await client.response()).fields.get('Cache-Status'), 'stale-origin-slow')
  // The question goes on for five minutes, with another one beside it.
  clock.advance(11_000)
  await origin.arrived(release, 3)
  for (const passes of [15_000, 270_000]) {
    clock.advance(passes)
    await cache.get('/_cachesvc/healthz')
  }
  await cache.quiet()
  const asked = origin.requests.length
  t.equal(await detail(a, insist), 'first stale-origin-failed', 'at once')
  t.equal(await detail(b, insist), 'first stale-origin-failed')
  await cache.until(() => origin.requests.length > asked)
  t.equal(origin.requests.length, asked + 1, 'one question behind the clients')
  origin.at('*', file({ content: 'second', etag: '"2"' }))
  never.open()
  await cache.quiet()
  t.equal(await detail(b, insist), 'second changed', 'the origin is back')
})

t.test('a 404 is remembered, until no-cache or content', async t => {
  const { origin, clock, cache } = await begun(t, { freshness: { negative: '30s' } })
  const path = '/dists/stable/main/Contents-all.gz'
  const url = origin.url(path)
  origin.at(path, reply({ status: 404 }))
  t.equal((await cache.get(url, insist)).status, 404)
  const again = await cache.get(url, insist)
  t.equal(again.status, 404)
  t.match(again.text, 'a moment ago')
  t.equal((await cache.head(url)).status, 404)
  t.equal(origin.requests.length, 1)
  clock.advance(30_001)
  t.equal((await cache.get(url)).status, 404)
  t.equal(origin.requests.length, 2)
  origin.at(path, reply({ content: 'here', fields: { 'Cache-Control': 'no-store' } }))
  t.equal((await cache.get(url)).status, 404)
  t.equal((await cache.get(url, { 'Cache-Control': 'no-cache' })).text, 'here')
  await cache.quiet()
  t.equal((await cache.get(url)).text, 'here', 'forgotten, though nothing was stored')
})

t.test('only-if-cached is 504 for what would have to be asked for', async t => {
  const { cache, url } = await begun(t)
  const only = { 'Cache-Control': 'only-if-cached' }
  t.equal((await cache.get(url, only)).status, 504)
  await cache.warm(url)
  t.equal((await cache.get(url, only)).status, 200)
})
