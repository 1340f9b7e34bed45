/**
 * Archives whose Release file or indexes give the SHA-512 and no SHA-256, on the wire: what changes under its name is noticed, and
 * wrong content reaches no client whole, as with others.
 */
import t, { type Test } from 'tap'
import { hexOf, type TinyOptions, tinyArchive } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { scriptedFiles } from '../../fixtures/store/files.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const base = 'debian/dists/stable'
const index = `${base}/main/binary-all/Packages.gz`
const small = 'pool/main/s/small_1_all.deb'
const large = 'pool/main/l/large_1_all.deb'
const contents: Readonly<Record<string, string>> = {
  [small]: 'small content',
  [large]: 'large content '.repeat(50_000),
}
const modified = 'Wed, 01 Jan 2025 00:00:00 GMT'
const first = 'Sat, 01 Feb 2025 10:00:00 UTC'
const second = 'Sun, 02 Feb 2025 10:00:00 UTC'
const confirmed = { 'Cache-Control': 'max-age=0' }

type Algorithms = Pick<TinyOptions, 'release' | 'index'>

const archives: Readonly<Record<string, Algorithms>> = {
  'SHA-512 in the index alone': { release: ['SHA256'], index: ['MD5sum', 'SHA512'] },
  'SHA-512 in the Release file alone': { release: ['MD5Sum', 'SHA512'], index: ['SHA256'] },
  'SHA-512 in both': { release: ['SHA512'], index: ['SHA512'] },
}

async function started(t: Test, algorithms: Algorithms, disk = scriptedFiles()) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock, disk: { files: disk.files } })
  const publish = (packages: Readonly<Record<string, string>>, date: string): void => {
    for (const [path, content] of tinyArchive({
      ...{ base, packages, root: 'debian', date, packings: ['.gz'], ...algorithms },
    })) {
      const name = path.replace(/Release$/, 'InRelease')
      origin.at(`/${name}`, file({ content, etag: `"${date}"`, lastModified: modified }))
    }
  }
  const whole = async (path: string, fields = {}): Promise<string | undefined> => {
    try {
      const answer = await cache.get(origin.url(`/${path}`), fields)
      return answer.status === 200 ? answer.content.toString('latin1') : undefined
    } catch {
      return undefined
    }
  }
  const adopted = (): Promise<void> =>
    cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
  const update = async (): Promise<void> => {
    await cache.warm(origin.url(`/${base}/InRelease`), confirmed)
    await adopted()
    await cache.warm(origin.url(`/${index}`))
    await adopted()
  }
  return { origin, cache, publish, whole, update }
}

for (const [name, algorithms] of Object.entries(archives)) {
  t.test(`${name}: wrong content reaches no client whole`, async t => {
    const { origin, cache, publish, whole, update } = await started(t, algorithms)
    publish(contents, first)
    await update()
    for (const [path, content] of Object.entries(contents)) {
      origin.at(`/debian/${path}`, file({ content: `X${content.slice(1)}`, etag: '"wrong"' }))
      t.equal(await whole(`debian/${path}`), undefined)
      await cache.quiet()
      origin.at(`/debian/${path}`, file({ content, etag: '"right"' }))
      await cache.until(async () => (await whole(`debian/${path}`)) !== undefined)
      const hit = await cache.get(origin.url(`/debian/${path}`))
      t.equal(hit.text, content)
      t.match(hit.fields.get('Cache-Status'), /^cachesvc; hit; .*verified=index$/)
    }
  })

  t.test(`${name}: a package that was built anew under its name is fetched`, async t => {
    const { origin, cache, publish, whole, update } = await started(t, algorithms)
    publish(contents, first)
    await update()
    for (const path of Object.keys(contents)) await cache.warm(origin.url(`/debian/${path}`))
    const rebuilt = { ...contents, [small]: 'small CONTENT' }
    publish(rebuilt, second)
    await update()
    t.equal(await whole(`debian/${small}`), rebuilt[small])
    t.equal(await whole(`debian/${large}`), contents[large])
    t.equal(origin.seen(`/debian/${large}`).length, 1, 'the other one is what it was')
    await cache.quiet()
    await cache.restart()
    const before = origin.seen(`/debian/${small}`).length
    t.equal(await whole(`debian/${small}`), rebuilt[small])
    t.equal(origin.seen(`/debian/${small}`).length, before, 'a hit after a restart')
  })

  t.test(`${name}: an index that is not that of the Release file is not given`, async t => {
    const { origin, cache, publish, whole, update } = await started(t, algorithms)
    publish(contents, first)
    await update()
    const old = await whole(index)
    publish({ [small]: 'another one' }, second)
    const next = origin.seen(`/${index}`).length
    await cache.warm(origin.url(`/${base}/InRelease`), confirmed)
    await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
    const given = await whole(index)
    t.ok(given !== undefined && given !== old, 'the client has the new Release')
    t.ok(origin.seen(`/${index}`).length > next)
  })
}

t.test('what was stored before its index was read is compared', async t => {
  const { origin, cache, publish, whole, update } = await started(
    t,
    archives['SHA-512 in both'] ?? {},
  )
  origin.at(`/debian/${small}`, file({ content: 'SMALL content', etag: '"1"' }))
  origin.at(`/debian/${large}`, file({ content: contents[large] ?? '', etag: '"1"' }))
  await cache.warm(origin.url(`/debian/${small}`))
  await cache.warm(origin.url(`/debian/${large}`))
  publish(contents, first)
  await update()
  t.equal(await whole(`debian/${small}`), contents[small])
  t.equal(await whole(`debian/${large}`), contents[large])
  t.equal(origin.seen(`/debian/${large}`).length, 1, 'it is right, and is not fetched again')
})

t.test('what is only half on disk is not hashed', async t => {
  const disk = scriptedFiles()
  const both = archives['SHA-512 in both'] ?? {}
  const { origin, cache, publish, whole, update } = await started(t, both, disk)
  publish(contents, first)
  await update()
  const digest = hexOf('sha256', contents[small] ?? '')
  disk.decide = (call, about) => (call === 'writev' && about.includes(digest) ? 'hang' : 'done')
  t.equal(await whole(`debian/${small}`), contents[small])
  for (const written of [false, true]) {
    if (written) {
      disk.decide = () => 'done'
      disk.release()
      await cache.quiet()
    }
    const hit = await cache.get(origin.url(`/debian/${small}`))
    t.equal(hit.text, contents[small])
    t.match(hit.fields.get('Cache-Status'), /^cachesvc; hit; /)
  }
  t.equal(origin.seen(`/debian/${small}`).length, 1)
})
