/**
 * What a hostile Release file costs: an index that cannot be read is read once; and how often a Release is adopted.
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { changingArchive } from '../../fixtures/archive/changing-archive.ts'
import { hexOf, releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const base = '/debian/dists/stable'
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

t.test('a Release whose indexes have come before it is adopted once', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1, { byHash: true }))
  await archive.update()
  for (const day of [2, 3]) {
    const files = await archive.ofDay(day, { byHash: true })
    const release = hexOf('sha256', files.get(archive.release) ?? '')
    archive.serve(files)
    await archive.get(archive.release)
    await archive.settle()
    const adopted = archive.cache.log.lines.filter(
      ({ message, facts }) => message === 'adopted a suite' && facts?.['release'] === release,
    )
    t.equal(adopted.length, 1)
  }
})
