/**
 * `explain` and the answer agree: both are asked for the same requests, and the outcome, the reason, the source and the content are
 * compared. Each scene is a service in some state with the requests that depend on it.
 */
import t, { type Test } from 'tap'
import {
  agree,
  agreeAll,
  compared,
  contentOf,
  kinds,
  packed,
  sceneOf,
  seen,
} from '../../fixtures/cache/agreement.ts'
import { type Settings, TestCache } from '../../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

const hour = 3_600_000
const begin = Date.parse('2025-03-14T12:00:00Z')

const says = [
  '',
  'max-age=0',
  'no-cache',
  'no-store',
  'only-if-cached',
  'max-stale=999999',
  'min-fresh=999999',
] as const

/** What has become of a file before the request. */
const states = ['absent', 'fresh', 'old', 'refreshed', 'gone', 'unstorable'] as const

/** Each kind of file in each state, with each directive, by turns with GET, HEAD and a range. */
async function storedStates(t: Test, settings: Settings, offline: boolean): Promise<void> {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(begin)
  const common = { freshness: { floor: '0s', negative: '1h' }, ...settings }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings: common })
  const all: {
    readonly path: string
    readonly state: (typeof states)[number]
    readonly says: string
  }[] = []
  let n = 0
  for (const pathOf of Object.values(kinds)) {
    for (const state of states) {
      for (const one of says) {
        n += 1
        const path = pathOf(n)
        all.push({ path, state, says: one })
        const content = path.endsWith('.gz') ? packed : contentOf(n)
        const fields = state === 'unstorable' ? { 'Cache-Control': 'private' } : {}
        const script = file({ content, etag: `"${n}"`, fields })
        origin.at(path, state === 'gone' ? reply({ status: 404 }) : script)
        if (state === 'old' || state === 'refreshed') await cache.get(origin.url(path))
      }
    }
  }
  await cache.quiet()
  clock.advance(10 * hour)
  for (const { path, state } of all) {
    if (state === 'fresh' || state === 'gone' || state === 'unstorable') {
      await cache.get(origin.url(path))
    }
  }
  await cache.quiet()
  for (const { path, state } of all) {
    if (state === 'refreshed') await cache.command({ do: 'refresh', of: origin.url(path) })
  }
  if (offline) await cache.reload({ ...common, offline: true })
  for (const [i, { path, says }] of all.entries()) {
    const way = [{}, { method: 'HEAD' }, { range: 'bytes=0-1' }][i % 3] ?? {}
    const fields = {
      ...(says !== '' && { 'Cache-Control': says }),
      ...('range' in way && { Range: String(way.range) }),
    }
    const method = 'method' in way ? 'HEAD' : 'GET'
    await agree(t, { cache, origin }, { url: origin.url(path), method, fields })
  }
}

t.test('each kind of file in each state, with each directive', t => storedStates(t, {}, false))

t.test('the same offline', t => storedStates(t, {}, true))

t.test('fields of clients that choose the answer', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    ...{ origins: [origin], clock: new ManualClock(begin) },
    settings: { freshness: { floor: '0s', other: '1h' } },
  })
  const clients = [
    {},
    { Cookie: 'a=b' },
    { Accept: 'application/json' },
    { 'User-Agent': 'curl/8' },
    { 'User-Agent': 'Debian APT-HTTP/1.3 (2.7.14)' },
    { 'User-Agent': 'curl/8', 'X-Own': '1' },
  ]
  const pages = {
    page: { 'Content-Type': 'text/html' },
    data: { 'Content-Type': 'application/octet-stream' },
    varies: { Vary: 'X-Own' },
    private: { 'Cache-Control': 'private' },
  }
  let n = 0
  for (const [name, fields] of Object.entries(pages)) {
    for (const isStored of [false, true]) {
      for (const client of clients) {
        for (const prefix of [false, true]) {
          n += 1
          const path = `/${name}-${n}`
          origin.at(path, file({ content: contentOf(n), etag: `"${n}"`, fields }))
          if (isStored) await cache.warm(origin.url(path))
          const url = prefix ? `/127.0.0.1:${origin.port}${path}` : origin.url(path)
          await agree(t, { cache, origin }, { url, fields: client })
        }
      }
    }
  }
})

t.test('what the policy refuses or passes through, and credentials', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const other = await ScriptedOrigin.listen(t)
  origin.at('*', file({ content: 'here', etag: '"1"' }))
  other.at('*', file({ content: 'there', etag: '"1"' }))
  const listed = [`127.0.0.1:${origin.port}`, 'mirror.example.org']
  const cache = await TestCache.start(t, {
    clock: new ManualClock(begin),
    settings: {
      freshness: { floor: '0s' },
      clients: ['127.0.0.0/30'],
      domains: listed,
      passthrough_domains: [`127.0.0.1:${other.port}`],
      archives: [{ origins: [origin.url('/own')], clients: ['127.0.0.1/32'] }],
      remap: [{ from: 'mirror.example.org', to: `127.0.0.1:${origin.port}/debian` }],
    },
  })
  const scene = { cache, origin }
  await cache.warm(origin.url('/own/x_1_all.deb'))
  await cache.warm(origin.url('/debian/x_1_all.deb'))
  const basic = (text: string) => ({
    Authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  })
  const away = Array.from({ length: 30 }, (_, i) => `1.1 proxy${i}`).join(', ')
  for (const path of ['/own/x_1_all.deb', '/own/y_1_all.deb', '/debian/x_1_all.deb', '/debian/z']) {
    for (const from of ['127.0.0.1', '127.0.0.2', '127.0.0.9']) {
      for (const method of ['GET', 'HEAD'] as const) {
        await agree(t, scene, { url: origin.url(path), method, from })
        await agree(t, scene, { url: `/127.0.0.1:${origin.port}${path}`, method, from })
      }
      await agree(t, scene, { url: origin.url(path), from, fields: { Via: away } })
      await agree(t, scene, { url: origin.url(path), from, fields: basic('ann:secret') })
    }
  }
  for (const url of [
    'http://mirror.example.org/x_1_all.deb',
    'http://unlisted.example.org/x_1_all.deb',
    'http://127.0.0.1:1/x_1_all.deb',
    '/unlisted.example.org/x_1_all.deb',
    '/HTTPS///unlisted.example.org/x_1_all.deb',
    `http://ann:secret@127.0.0.1:${origin.port}/debian/x_1_all.deb`,
  ]) {
    await agree(t, scene, { url })
    await agree(t, scene, { url, steered: !url.includes('127.0.0.1') })
    await agree(t, scene, { url, method: 'HEAD', fields: { 'Cache-Control': 'no-cache' } })
  }
  for (const says of ['', 'no-cache', 'only-if-cached']) {
    const fields: Record<string, string> = says === '' ? {} : { 'Cache-Control': says }
    await agree(t, { cache, origin: other }, { url: other.url('/x_1_all.deb'), fields })
  }
})

t.test('credentials that a client sends to two archives by a prefix', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    lookup: async () => ['127.0.0.1'],
    settings: { freshness: { floor: '0s' } },
  })
  const fields = { Authorization: `Basic ${Buffer.from('ann:secret').toString('base64')}` }
  const client = await cache.client()
  await client.request('GET', '/first.example.org/debian/x', {
    ...{ Host: `127.0.0.1:${cache.port}`, ...fields },
  })
  await client.response()
  for (const host of ['second.example.org', 'third.example.org']) {
    await agree(t, { cache, origin }, { url: `/${host}/debian/x`, fields })
  }
})

t.test('files of an adopted suite', async t => {
  const scene = await sceneOf(t, {})
  const { archive, cache, origin } = scene
  const { root, suite, release, index } = archive
  const twins = {
    'pool/main/t/one_1_all.deb': 'twin',
    'pool/main/t/two_1_all.deb': 'twin',
    'pool/main/t/changed_1_all.deb': 'before',
  }
  archive.serve(await archive.ofDay(1, { byHash: true, packages: twins }))
  await archive.update()
  await cache.warm(origin.url(`/${root}/pool/main/t/one_1_all.deb`))
  await cache.warm(origin.url(`/${root}/pool/main/t/changed_1_all.deb`))
  await cache.warm(origin.url(`/${root}/pool/main/t/unnamed_1_all.deb`))
  const files = await archive.ofDay(2, {
    byHash: true,
    packages: { ...twins, 'pool/main/t/changed_1_all.deb': 'after!' },
  })
  archive.clock.advance(hour)
  archive.serve(files)
  await archive.update()
  await archive.settle()
  const hashed = archive.hashed(files.get(index) ?? Buffer.alloc(0))
  const paths = [
    release,
    index,
    hashed,
    `${suite}/Release`,
    `${suite}/Release.gpg`,
    `${suite}/main/binary-all/Packages`,
    `${root}/pool/main/t/two_1_all.deb`,
    `${root}/pool/main/t/one_1_all.deb`,
    `${root}/pool/main/t/changed_1_all.deb`,
    `${root}/pool/main/t/unnamed_1_all.deb`,
    `${root}/pool/main/p/p_2_all.deb`,
  ]
  await agreeAll(t, scene, paths)
  archive.clock.advance(30 * hour)
  await agreeAll(t, scene, paths)
})

t.test('a signature of another Release file than the one that clients keep', async t => {
  const scene = await sceneOf(t, {})
  const { archive, origin } = scene
  const release = `${archive.suite}/Release`
  const signature = `${release}.gpg`
  const publish = async (day: number, signs: boolean) => {
    const files = await archive.ofDay(day)
    files.set(release, files.get(archive.release) ?? Buffer.alloc(0))
    files.delete(archive.release)
    if (signs) files.set(signature, Buffer.from('-----BEGIN PGP SIGNATURE-----\n'))
    archive.serve(files)
  }
  archive.remove([archive.release, signature])
  await publish(1, false)
  for (const path of [release, archive.index, release, archive.index]) {
    await archive.get(path)
    await archive.settle()
  }
  await publish(2, true)
  archive.remove([archive.index])
  await archive.get(release)
  await agreeAll(t, scene, [release, signature, archive.index])
  await agree(t, scene, { url: origin.url(`/${signature}`), method: 'HEAD' })
})

t.test('a file that is arriving, an origin that is slow, and a snapshot', async t => {
  const settings = {
    suites: { snapshot_days: 30 },
    timeouts: { revalidation: '1s', drain: '300ms' },
  }
  const scene = await sceneOf(t, {}, { settings })
  const { archive, cache, origin } = scene
  archive.serve(await archive.ofDay(1, { byHash: true }))
  await archive.update()
  archive.clock.advance(24 * hour)
  archive.serve(await archive.ofDay(2, { byHash: true }))
  await archive.update()
  await archive.settle()
  const at = `127.0.0.1:${origin.port}`
  for (const day of ['2025-03-13', '2025-03-14', '2025-03-15', '2035-01-01']) {
    for (const path of [archive.release, archive.index, 'debian/pool/main/p/p_1_all.deb']) {
      await agree(t, scene, { url: `/_cachesvc/snapshot/${day}/${at}/${path}` })
    }
  }
  for (const says of ['', 'only-if-cached', 'no-cache']) {
    const rest = new Gate()
    const path = `/debian/pool/main/a/arriving${says}_1_all.deb`
    origin.at(path, file({ content: 'a'.repeat(300_000), pauses: [{ at: 100_000, gate: rest }] }))
    const first = await cache.client()
    await first.request('GET', origin.url(path))
    await origin.arrived(path, 1)
    await cache.until(() => cache.working.fetches > 0)
    const fields: Record<string, string> = says === '' ? {} : { 'Cache-Control': says }
    const from = '127.0.0.2'
    await agree(t, scene, { url: origin.url(path), fields, from, meanwhile: () => rest.open() })
  }
  const slow = '/files/slow'
  origin.at(slow, file({ content: 'slow', etag: '"1"' }))
  await cache.warm(origin.url(slow))
  archive.clock.advance(30 * hour)
  const gate = new Gate()
  origin.at(slow, file({ content: 'slow', etag: '"1"', before: gate }))
  let answered = false
  void cache.get(origin.url(slow)).then(() => {
    answered = true
  })
  await cache.until(() => answered)
  const from = '127.0.0.2'
  await agree(t, scene, { url: origin.url(slow), from, meanwhile: () => gate.open() })
})

t.test('enough was compared, and every decision', t => {
  t.ok(compared >= 500, `${compared} requests`)
  for (const word of [
    ...['hit immutable', 'hit fresh', 'hit max-stale', 'hit offline', 'hit as-released'],
    ...['hit stale-origin-failed'],
    ...['asks stale', 'asks max-age', 'asks no-cache', 'asks min-fresh'],
    ...['miss absent', 'miss superseded', 'miss no-store', 'miss passthrough'],
    ...['miss authorization', 'miss own-fields'],
    ...['failed not-found-remembered', 'failed offline', 'failed only-if-cached'],
    ...['failed no-snapshot', 'failed signature-withheld', 'hit stale-suite-incomplete'],
    ...['refused clients', 'refused archives.clients', 'refused domains'],
    ...['refused loop', 'refused credentials'],
  ]) {
    t.ok(seen.has(word), word)
  }
  t.end()
})
