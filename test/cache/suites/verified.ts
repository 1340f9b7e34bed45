/**
 * Files compared with the indexes of their archive, on the wire: no client ever gets the whole of wrong content, and nothing
 * wrong is ever a hit.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { tinyArchive } from '../../fixtures/archive/tiny-archive.ts'
import { type Settings, TestCache } from '../../fixtures/cache/cache.ts'
import type { RawResponse } from '../../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { attempt } from '../../fixtures/process/command.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const program = join(import.meta.dirname, '../../../bin/cachesvc.js')
const base = 'debian/dists/stable'
const index = `${base}/main/binary-all/Packages.gz`
const small = 'pool/main/s/small_1_all.deb'
const large = 'pool/main/l/large_1_all.deb'
const contents: Readonly<Record<string, string>> = {
  [small]: 'small content',
  [large]: 'large content '.repeat(50_000),
}
const now = Date.parse('2025-03-14T12:00:00Z')
const modified = 'Wed, 01 Jan 2025 00:00:00 GMT'

interface Published {
  readonly packages?: Readonly<Record<string, string>>
  readonly date?: string
}

/** Puts an archive in place at an origin, by plain names. */
function publish(origin: ScriptedOrigin, { packages = contents, date }: Published = {}): void {
  const files = tinyArchive({ base, packages, root: 'debian', ...(date && { date }) })
  for (const [path, content] of files) {
    const name = path.replace(/Release$/, 'InRelease')
    origin.at(`/${name}`, file({ content, etag: `"${date}"`, lastModified: modified }))
  }
}

/** A cache whose client has updated from an archive. */
async function updated(t: Test, published: Published = {}, settings: Settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(now)
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  publish(origin, published)
  const url = (path: string): string => origin.url(`/debian/${path}`)
  const update = async (): Promise<RawResponse> => {
    await cache.warm(origin.url(`/${base}/InRelease`), { 'Cache-Control': 'max-age=0' })
    const answer = await cache.warm(origin.url(`/${index}`), { 'Cache-Control': 'max-age=0' })
    await adopted(cache)
    return answer
  }
  await update()
  return { origin, cache, clock, url, update }
}

/** Waits until no suite is being adopted. */
async function adopted(cache: TestCache): Promise<void> {
  await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
}

/** The content a client gets; undefined when it is not whole or not 200. */
async function whole(cache: TestCache, url: string): Promise<string | undefined> {
  try {
    const answer = await cache.get(url)
    return answer.status === 200 ? answer.text : undefined
  } catch {
    return undefined
  }
}

t.test('what an index names is verified, and the answer and the explanation say so', async t => {
  const { cache, url } = await updated(t)
  for (const [path, content] of Object.entries(contents)) {
    const miss = await cache.warm(url(path))
    t.equal(miss.text, content ?? '')
    t.match(miss.fields.get('Cache-Status'), /fwd=uri-miss.*detail=absent; verified=index$/)
    const hit = await cache.get(url(path))
    t.equal(hit.text, content)
    t.equal(hit.fields.get('Cache-Status'), 'cachesvc; hit; detail=immutable; verified=index')
  }
  const { text } = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url(small))}`)
  t.match(text, /an index of .*dists\/stable, without a good signature/)

  const explained = ['--cache-dir', cache.directory, 'explain', url(small)]
  await attempt(process.execPath, [program, '--cache-dir', cache.directory, 'remove', url(small)])
  const { stdout } = await attempt(process.execPath, [program, ...explained])
  t.match(stdout.toString(), /^A request now +is fetched from the origin/, 'removed is removed')
  const again = await cache.get(url(small))
  t.equal(again.fields.get('X-Cache'), 'MISS', 'and so it is')
})

t.test('wrong content never reaches a client whole and is never stored', async t => {
  type Lie = (right: string) => Parameters<ScriptedOrigin['at']>[1]
  const lies: Readonly<Record<string, Lie>> = {
    'other bytes': right => file({ content: `X${right.slice(1)}`, lastModified: modified }),
    'other last byte': right => file({ content: `${right.slice(0, -1)}X`, lastModified: modified }),
    'more than there is': right =>
      file({ content: right, claims: right.length + 100, lastModified: modified }),
    'less than there is': right =>
      file({ content: right, claims: right.length - 5, lastModified: modified }),
    'a shorter file': right => file({ content: right.slice(0, -5), lastModified: modified }),
    'a longer file': right => file({ content: `${right}and more`, lastModified: modified }),
    'a longer file in chunks': right => reply({ content: `${right}and more`, framing: 'chunked' }),
    'a shorter file to the end': right => reply({ content: right.slice(0, -5), framing: 'close' }),
    'another package': () => file({ content: 'of another package' }),
  }
  const cases = Object.entries(lies).flatMap(([name, lie]) =>
    ['small', 'large'].map(size => {
      const path = `pool/main/${size}/${name.replaceAll(' ', '-')}_1_all.deb`
      const right = `${name} `.repeat(size === 'small' ? 2 : 40_000)
      return { name, lie, path, right }
    }),
  )
  const packages = Object.fromEntries(cases.map(({ path, right }) => [path, right]))
  const { origin, cache, url } = await updated(t, { packages })
  for (const { name, lie, path, right } of cases) {
    origin.at(`/debian/${path}`, lie(right))
    t.equal(await whole(cache, url(path)), undefined, `${name}, ${path}`)
    await cache.quiet()
    t.notOk((await cache.stored()).includes(url(path)), `${name} is not stored`)
    origin.at(`/debian/${path}`, file({ content: right, lastModified: modified }))
    await cache.until(async () => (await whole(cache, url(path))) !== undefined)
    t.equal(await whole(cache, url(path)), right, `${name}: the origin is itself again`)
  }
})

t.test('a wrong answer is counted, and not fetched again for each client', async t => {
  const { origin, cache, url } = await updated(t)
  origin.at(`/debian/${small}`, file({ content: 'wrong content', lastModified: modified }))
  for (let n = 0; n < 5; n += 1) t.equal(await whole(cache, url(small)), undefined)
  t.ok(origin.seen(`/debian/${small}`).length <= 2)
  const { text } = await cache.get('/_cachesvc/metrics')
  t.match(text, /cachesvc_wrong_content_total\{code="wrong-digest"\} [12]\n/)
  const answer = await cache.get(url(small))
  t.equal(answer.status, 520)
  t.match(answer.fields.get('Cache-Status'), 'detail=wrong-digest')
})

t.test('wrong content is an error after which apt does not try again, with its cause', async t => {
  const cut = 'pool/main/c/cut_1_all.deb'
  const packages: typeof contents = { ...contents, [cut]: 'more content '.repeat(50_000) }
  const { origin, cache, url, clock } = await updated(t, { packages })
  for (const [path, wrong, why] of [
    [
      small,
      'wrong content',
      'Hash Sum mismatch: the origin sent other content than the archive promises',
    ],
    [
      large,
      'short',
      'File has unexpected size: the origin sent content of another length than promised',
    ],
    [
      cut,
      'less content '.repeat(50_000),
      'Hash Sum mismatch: the origin sent other content than the archive promises',
    ],
  ] as const) {
    origin.at(`/debian/${path}`, file({ content: wrong, lastModified: modified }))
    t.equal(await whole(cache, url(path)), undefined)
    const answer = await cache.get(url(path))
    t.equal(answer.status, 520)
    t.equal(answer.reason, why)
    t.ok(answer.text.startsWith(`${why}. (${new URL(url(path)).host}, wrong-`))
    clock.advance(2001)
    origin.at(`/debian/${path}`, file({ content: packages[path] ?? '', lastModified: modified }))
    t.equal(await whole(cache, url(path)), packages[path])
  }
})

t.test('what a client keeps of wrong content is not joined to the right one', async t => {
  const { origin, cache, url } = await updated(t)
  const right = contents[large] ?? ''
  origin.at(`/debian/${large}`, file({ content: `X${right.slice(1)}`, lastModified: modified }))
  t.equal(await whole(cache, url(large)), undefined)
  origin.at(`/debian/${large}`, file({ content: right, lastModified: modified }))
  await cache.until(async () => (await whole(cache, url(large))) !== undefined)
  const rest = await cache.get(url(large), { Range: 'bytes=1000-', 'If-Range': modified })
  t.equal(rest.status, 200, 'all of it, from the start')
  t.equal(rest.text, right)
})

t.test('what was stored before its index was read is no hit when it is wrong', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], clock: new ManualClock(now) })
  const url = origin.url(`/debian/${small}`)
  origin.at(`/debian/${small}`, file({ content: 'wrong content', lastModified: modified }))
  t.equal((await cache.warm(url)).text, 'wrong content', 'nothing is known of this archive')
  publish(origin)
  await cache.warm(origin.url(`/${base}/InRelease`))
  await cache.warm(origin.url(`/${index}`))
  await adopted(cache)
  const answer = await cache.warm(url)
  t.equal(answer.text, contents[small])
  t.match(answer.fields.get('Cache-Status'), /fwd=stale.*detail=superseded/)
  t.not(answer.fields.get('Last-Modified'), modified)
  t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT')
})

t.test('a package rebuilt under its old name is fetched again after the update', async t => {
  const { origin, cache, url, update } = await updated(t, { date: 'Wed, 01 Jan 2025 00:00:00 UTC' })
  t.equal((await cache.warm(url(small))).text, contents[small])
  const rebuilt = { ...contents, [small]: 'rebuilt content' }
  publish(origin, { packages: rebuilt, date: 'Thu, 02 Jan 2025 00:00:00 UTC' })
  await cache.until(async () => {
    await update()
    return (await cache.get(url(small))).text === 'rebuilt content'
  })
  t.equal((await cache.get(url(small))).text, 'rebuilt content')
})

t.test('what an index names needs no confirmation, and an old version stays', async t => {
  const { origin, cache, url, clock, update } = await updated(t)
  await cache.warm(url(small))
  clock.advance(25 * 3_600_000)
  t.match((await cache.get(url(small))).fields.get('Cache-Status'), 'detail=immutable')
  const newer = { 'pool/main/s/small_2_all.deb': 'newer content' }
  publish(origin, { packages: newer, date: 'Sun, 02 Mar 2025 00:00:00 UTC' })
  origin.at(`/debian/${small}`, reply({ status: 404 }))
  await update()
  await update()
  t.equal(origin.seen(`/debian/${small}`).length, 1)
  const old = await cache.get(url(small))
  t.equal(old.text, contents[small])
  t.match(old.fields.get('Cache-Status'), 'detail=validated', 'no index names it any more')
  t.match((await cache.get(url(small))).fields.get('Cache-Status'), 'detail=immutable')
  t.equal(
    origin.seen(`/debian/${small}`).length,
    2,
    'that it is gone is asked once: the file stays',
  )
  clock.advance(3_600_001)
  const insisting = await cache.get(url(small), { 'Cache-Control': 'no-cache' })
  t.equal(insisting.status, 404, 'the origin’s own word for a client that insists')
})

t.test('content that lies under another name is not fetched again', async t => {
  const other = 'pool/main/o/other_1_all.deb'
  const packages = { ...contents, [other]: contents[small] ?? '' }
  const { origin, cache, url } = await updated(t, { packages })
  await cache.warm(url(small))
  const answer = await cache.get(url(other))
  t.equal(answer.text, contents[small])
  t.equal(answer.fields.get('X-Cache'), 'HIT')
  t.equal(origin.seen(`/debian/${other}`).length, 0)
})

t.test('an index that is not the one of the client’s Release is not served', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], clock: new ManualClock(now) })
  publish(origin)
  const lagging = file({ content: gzipSync('Package: old\n'), lastModified: modified })
  origin.at(`/${index}`, lagging)
  const ask = { 'Cache-Control': 'max-age=0' }
  await cache.warm(origin.url(`/${base}/InRelease`), ask)
  await adopted(cache)
  const answer = await cache.get(origin.url(`/${index}`), ask).catch(() => undefined)
  t.not(answer?.status, 200)
  publish(origin)
  await cache.until(async () => (await whole(cache, origin.url(`/${index}`))) !== undefined)
})

t.test('what is known outlives a restart, and what is damaged is made again', async t => {
  const { origin, cache, url } = await updated(t)
  await cache.restart()
  origin.at(`/debian/${small}`, file({ content: 'wrong content' }))
  t.equal(await whole(cache, url(small)), undefined)
  await cache.stop()
  const directory = join(cache.directory, 'v2/suites')
  for (const name of await readdir(directory)) await writeFile(join(directory, name), 'damaged')
  await cache.restart()
  await cache.get(origin.url(`/${base}/InRelease`))
  await adopted(cache)
  t.equal(await whole(cache, url(small)), undefined)
})

t.test('an explanation leaves no trace; a client has a damaged table made again', async t => {
  const { cache, url } = await updated(t)
  await cache.warm(url(small))
  await cache.stop()
  const directory = join(cache.directory, 'v2/suites')
  const tables = (await readdir(directory)).filter(name => name.endsWith('.table'))
  for (const name of tables) await writeFile(join(directory, name), 'damaged')
  await cache.restart()
  const held = () => Promise.all(tables.map(name => readFile(join(directory, name), 'latin1')))
  const { text } = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url(small))}`)
  t.match(text, 'is answered from the store')
  await adopted(cache)
  t.same(await held(), Array(tables.length).fill('damaged'))
  t.equal(await whole(cache, url(small)), contents[small])
  await cache.until(async () => !(await held()).includes('damaged'))
})

t.test('an archive for which it is switched off is left alone', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const archives = [{ origins: [`127.0.0.1:${origin.port}/debian`], verify: 'off' }]
  const cache = await TestCache.start(t, { origins: [origin], settings: { archives } })
  publish(origin)
  await cache.warm(origin.url(`/${base}/InRelease`))
  await cache.warm(origin.url(`/${index}`))
  await adopted(cache)
  origin.at(`/debian/${small}`, file({ content: 'wrong content' }))
  t.equal(await whole(cache, origin.url(`/debian/${small}`)), 'wrong content')
})

t.test('room is made of files that no adopted index names before those that one names', async t => {
  const { origin, cache, url } = await updated(t, {}, { retention: { size: '2M' } })
  origin.at(`/debian/${large}`, file({ content: contents[large] ?? '' }))
  t.equal((await cache.warm(url(large))).text, contents[large])
  for (let n = 0; n < 10; n += 1) {
    const path = `/debian/doc/${n}.txt`
    origin.at(path, file({ content: Buffer.alloc(300_000, `${n} `) }))
    await cache.warm(origin.url(path))
  }
  await cache.until(async () => ((await cache.metric('cachesvc_stored_bytes')) ?? 0) <= 2 << 20)
  t.equal((await cache.get(url(large))).fields.get('X-Cache'), 'HIT', 'named, and used longest ago')
  t.ok((await cache.stored()).length < 13)
})
