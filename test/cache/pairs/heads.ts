/**
 * HEAD together with what chooses the answer: it has the status and the fields of the GET that follows, and leaves the store as it was.
 */
import t, { type Test } from 'tap'
import { type ChangingArchive, changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { disputed, disputedSuite } from '../../fixtures/archive/disputed-suite.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { startNodes } from '../../fixtures/features/shared/nodes.ts'
import type { RawClient } from '../../fixtures/http/raw-client.ts'
import { file, reply, type Script, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(300_000)

const hour = 3_600_000
const deb = '/debian/pool/main/h/hello_1_all.deb'
const insist = { 'Cache-Control': 'max-age=0' }

interface Stage {
  readonly cache: TestCache
  /** A URL, or a path of the cache. */
  readonly url: string
  readonly fields?: Readonly<Record<string, string>>
  /** The address of the client. */
  readonly from?: string
  readonly status?: number
  /** Stored by the answer: another node had it, and no origin. */
  readonly taken?: true
  /** Of the content that GET gives. */
  readonly text: RegExp
}

/** An archive of which a newer generation waits. */
async function waiting(t: Test, about: object, undated = false): Promise<Stage> {
  const archive = (
    await changingArchives(t, { now: Date.UTC(2025, 0, 1), archives: { debian: about } })
  )('debian')
  for (const day of [1, 2]) {
    archive.serve(await archive.ofDay(day, { undated }))
    archive.clock.advance(hour)
    await archive.update()
  }
  return stageOf(archive, archive.release, /^Version: 1$/m)
}

function stageOf({ cache, origin }: ChangingArchive, path: string, text: RegExp): Stage {
  return { cache, url: origin.url(`/${path}`), fields: insist, text }
}

/** A cache before an archive of two origins. */
async function mirrored(t: Test, first: Script, second: Script): Promise<Stage> {
  const origins = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const settings = { archives: [{ origins: origins.map(one => one.url('/debian')) }] }
  const cache = await TestCache.start(t, { origins, settings })
  origins[0]?.at(deb, first)
  origins[1]?.at(deb, second)
  return { cache, url: origins[0]?.url(deb) ?? '', text: /hello/ }
}

const stages: Readonly<Record<string, (t: Test) => Promise<Stage>>> = {
  'a delay': t => waiting(t, { delay: '24h' }),
  'a hold': t => waiting(t, { hold: '2024-12-31' }),
  'a delay, without dates': t => waiting(t, { delay: '24h' }, true),
  'a snapshot': async t => {
    const archive = (
      await changingArchives(t, {
        archives: {},
        settings: { suites: { snapshot_days: 30 }, verification: { interval: '0s' } },
      })
    )('debian')
    archive.serve(await archive.ofDay(1))
    await archive.until('1', t)
    archive.clock.advance(30 * hour)
    archive.serve(await archive.ofDay(2))
    await archive.until('2', t)
    const url = `/_cachesvc/snapshot/2025-03-14/127.0.0.1:${archive.origin.port}/${archive.release}`
    return { cache: archive.cache, url, text: /^Version: 1$/m }
  },
  'a bucket that has the file, and an origin that is down': async t => {
    const { origin, bucket, nodes } = await startNodes(t, { count: 2 })
    const [one, two] = nodes
    if (one === undefined || two === undefined) throw new Error('no node')
    origin.at(deb, file({ content: 'hello', etag: '"1"' }))
    const url = origin.url(deb)
    await one.cache.warm(url)
    await one.cache.until(() => bucket.entries.has(url))
    origin.at(deb, answer => answer.reset())
    return { cache: two.cache, url, taken: true, text: /hello/ }
  },
  'a mirror that has not the file': t =>
    mirrored(t, reply({ status: 404 }), file({ content: 'hello', etag: '"1"' })),
  'a mirror that answers HEAD alone with 404': t => {
    const there = file({ content: 'hello', etag: '"1"' })
    const not = reply({ status: 404 })
    return mirrored(t, answer => (answer.request.method === 'HEAD' ? not : there)(answer), not)
  },
  'indexes that contradict each other': async t => {
    const [one, other] = ['main/binary-i386', 'main/binary-amd64']
    const { has, update, gets, cache, url, clock } = await disputedSuite(t, [one, other])
    has(one)
    await update(2, one)
    await gets(2)
    await update(4, other)
    has(other)
    clock.advance(120_000)
    return { cache, url: url(disputed), from: '127.0.0.4', text: /binary-amd64/ }
  },
  'a package that the adopted index names anew': async t => {
    const archive = (await changingArchives(t))('debian')
    const path = 'pool/main/x/x_1_all.deb'
    for (const [day, content] of ['the old one', 'another one'].entries()) {
      archive.serve(await archive.ofDay(day + 1, { packages: { [path]: content } }))
      await archive.until(`${day + 1}`, t)
      if (day === 0) await archive.cache.warm(archive.origin.url(`/debian/${path}`))
    }
    return { ...stageOf(archive, `debian/${path}`, /^another one$/), fields: {} }
  },
  'an origin that is left alone, and a stored file': async t => {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(Date.now())
    const cache = await TestCache.start(t, { origins: [origin], clock })
    const index = '/debian/dists/stable/InRelease'
    origin.at(index, file({ content: 'release', etag: '"1"' }))
    await cache.warm(origin.url(index))
    clock.advance(hour)
    origin.at(index, reply({ status: 429, fields: { 'Retry-After': '60' } }))
    await cache.get(origin.url(index), insist)
    return { cache, url: origin.url(index), fields: insist, text: /release/ }
  },
  'an origin that is left alone, and a file that is not stored': async t => {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(Date.now())
    const cache = await TestCache.start(t, { origins: [origin], clock })
    origin.at('*', reply({ status: 429, fields: { 'Retry-After': '60' } }))
    await cache.get(origin.url('/debian/pool/other.deb'))
    return { cache, url: origin.url(deb), status: 503, text: /answered 429 a moment ago/ }
  },
}

for (const [name, stageFor] of Object.entries(stages)) {
  t.test(`HEAD is answered as GET is: ${name}`, async t => {
    const { cache, url, fields = {}, from, status = 200, text, taken } = await stageFor(t)
    const client = await cache.client(from === undefined ? {} : { localAddress: from })
    const host = url.startsWith('/') ? `127.0.0.1:${cache.port}` : new URL(url).host
    const ask = async (method: 'HEAD' | 'GET') => {
      await client.request(method, url, { Host: host, ...fields })
      return client.response({ to: method })
    }
    const before = await cache.stored()
    const head = await ask('HEAD')
    await cache.quiet()
    const after = taken ? [url] : before
    t.strictSame(await cache.stored(), after, 'HEAD stores and removes nothing')
    const got = await ask('GET')
    t.strictSame([head.status, got.status], [status, status])
    t.match(got.text, text)
    for (const field of ['Content-Length', 'ETag', 'Last-Modified']) {
      if (got.fields.get('X-Cache')?.startsWith('MISS') && field !== 'Content-Length') continue
      t.equal(head.fields.get(field), got.fields.get(field), field)
    }
  })
}

t.test('HEAD with Range is answered as HEAD is, whatever is stored', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))
  for (const state of ['absent', 'stored']) {
    const head = await cache.head(origin.url(deb), { Range: 'bytes=0-1' })
    t.strictSame([head.status, head.fields.get('Content-Length')], [200, '5'], state)
    await cache.warm(origin.url(deb))
  }
})

t.test(
  'HEAD alone records nothing in a build; a locked build answers it from the record',
  async t => {
    const archive = (await changingArchives(t))('debian')
    const { cache, origin } = archive
    archive.serve(await archive.ofDay(1))
    const build = (act: string) =>
      cache.command({ do: 'build', act, name: 'image', file: '', json: false })
    await build('record')
    const prefix = `/_cachesvc/build/image/127.0.0.1:${origin.port}`
    const pool = 'debian/pool/main/p/p_1_all.deb'
    t.equal((await cache.head(`${prefix}/${pool}`)).status, 200)
    const release = await cache.get(`${prefix}/${archive.release}`)
    await archive.settle()
    t.match(await build('lock'), { complaints: [/p_1_all\.deb/] }, 'which lock says')
    archive.serve(await archive.ofDay(2))
    await archive.until('2', t)
    const head = await cache.head(`${prefix}/${archive.release}`)
    t.strictSame(
      [head.status, head.fields.get('Content-Length')],
      [200, `${release.content.length}`],
    )
    t.equal(
      head.fields.get('ETag'),
      (await cache.get(`${prefix}/${archive.release}`)).fields.get('ETag'),
    )
    t.equal((await cache.head(`${prefix}/${pool}`)).status, 409)
  },
)

t.test('a head that is late comes to HEAD as well, and stores nothing', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const client: RawClient = await cache.client()
  origin.at(deb, async answer => {
    await new Promise<void>(resolve => void clock.after(20_000, resolve))
    await file({ content: 'hello', etag: '"1"' })(answer)
  })
  await client.request('HEAD', origin.url(deb))
  let status = 0
  void client.response({ to: 'HEAD' }).then(answer => {
    status = answer.status
  })
  await cache.until(() => status > 0)
  t.equal(status, 200)
  t.ok(clock.elapsed() < 30_000, 'while apt waits')
  t.strictSame(await cache.stored(), [])
})
