/**
 * What a hostile Release file costs: an index that cannot be read is read once; how often a Release is adopted; and indexes in packings
 * that are not read.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { day } from '../../../lib/async/clock.ts'
import { changingArchive } from '../../fixtures/archive/changing-archive.ts'
import { hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const base = '/debian/dists/stable'
const later = 'Sat, 15 Mar 2025 12:00:00 UTC'
const modified = 'Wed, 01 Jan 2025 00:00:00 GMT'

async function served(t: Parameters<typeof TestCache.start>[0], release: Buffer) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock })
  origin.at(`${base}/InRelease`, file({ content: release, lastModified: modified }))
  const get = async (path: string): Promise<void> => {
    await cache.warm(origin.url(`${base}/${path}`))
    await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
  }
  const logged = (text: string) =>
    cache.log.lines.filter(line => JSON.stringify(line).includes(text)).length
  return { origin, clock, get, logged, warnings: () => logged('verification of a suite') }
}

t.test('an index that cannot be read is read once, however often it is named', async t => {
  const index = gzipSync('Package: x\n').subarray(0, 20)
  const named = Array.from(
    { length: 50 },
    (_, n) => [`c${n}/binary-all/Packages.gz`, index] as const,
  )
  const { origin, get, warnings } = await served(t, releaseOf(named))
  origin.at(`${base}/c0/binary-all/Packages.gz`, file({ content: index, lastModified: modified }))
  await get('InRelease')
  await get('c0/binary-all/Packages.gz')
  t.equal(warnings(), 1)
})

t.test('nothing is said of the Release file of a component', async t => {
  const { origin, get, warnings } = await served(t, releaseOf([]))
  const path = 'main/binary-amd64/Release'
  const content = 'Archive: stable\nComponent: main\nArchitecture: amd64\n'
  origin.at(`${base}/${path}`, file({ content, lastModified: modified }))
  await get(path)
  t.equal(warnings(), 0)
  await get('InRelease')
  t.equal(warnings(), 1, 'an InRelease that names no files is another matter')
})

t.test(
  'an index packed with bzip2 or lzma is served and not read, and the log says so once',
  async t => {
    const named = [
      ['main/binary-all/Packages.bz2', Buffer.from('BZh9 and more')],
      ['contrib/binary-all/Packages.lzma', Buffer.from(']\0\0\x80\0 and more')],
    ] as const
    const { origin, clock, get, logged, warnings } = await served(t, releaseOf(named))
    for (const [path, content] of named) {
      origin.at(`${base}/${path}`, file({ content, lastModified: modified }))
    }
    await get('InRelease')
    for (const [path] of named) await get(path)
    t.equal(logged('an index is served and not read'), 1)
    t.equal(logged('packed with bzip2, which is not read'), 1, 'with the reason')
    t.equal(warnings(), 0)
    t.ok(logged('adopted a suite') > 0, 'the Release file is adopted')
    clock.advance(day)
    origin.at(`${base}/InRelease`, file({ content: releaseOf(named, ['SHA256'], later) }))
    await get('InRelease')
    t.equal(logged('an index is served and not read'), 1, 'also when the suite is adopted anew')
  },
)

const forms = ['InRelease', 'Release', 'Release with Release.gpg'] as const
for (const form of forms) {
  for (const byHash of [true, false]) {
    t.test(`an update is adopted once: ${form}, ${byHash ? 'by hash' : 'by name'}`, async t => {
      const archive = await changingArchive(t)
      const { suite, cache, origin } = archive
      const release = form === 'InRelease' ? archive.release : `${suite}/Release`
      const get = async (day: number): Promise<number> => {
        const files = await archive.ofDay(day, { byHash })
        const content = files.get(archive.release) ?? Buffer.alloc(0)
        files.delete(archive.release)
        files.set(release, content)
        if (form.endsWith('gpg')) files.set(`${suite}/Release.gpg`, Buffer.from(`signature ${day}`))
        archive.serve(files)
        await archive.get(release)
        if (form.endsWith('gpg')) await archive.get(`${suite}/Release.gpg`)
        const packed = files.get(archive.index) ?? Buffer.alloc(0)
        await archive.get(byHash ? archive.hashed(packed) : archive.index)
        await archive.settle()
        return cache.log.lines.filter(
          ({ message, facts }) =>
            message === 'adopted a suite' && facts?.['release'] === hexOf('sha256', content),
        ).length
      }
      origin.at(`/${archive.release}`, reply({ status: 404, content: 'none' }))
      await get(1)
      for (const day of [2, 3]) t.equal(await get(day), 1)
      const all = cache.log.lines.filter(({ message }) => message === 'adopted a suite')
      // The first one with each of its files that comes; the others once.
      const first = form.endsWith('gpg') ? 3 : 2
      t.ok(all.length <= first + 2, `${all.length} adoptions`)
    })
  }
}
