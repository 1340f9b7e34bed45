/** Indexes that no client has used before, of which the adopted Release says what they are. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { releaseOf } from '../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const base = 'debian/dists/stable'
const lastModified = 'Wed, 01 Jan 2025 00:00:00 GMT'
const used = gzipSync('Package: used\n')
const unused = {
  'main/binary-arm64/Packages.gz': gzipSync('Package: arm\n'),
  'main/Contents-amd64.gz': gzipSync('bin/a main/a\n'.repeat(20_000)),
  'main/i18n/Translation-en': Buffer.from('Package: used\n'),
} as const

t.test('an index that the adopted Release contradicts reaches no client whole', async t => {
  for (const when of ['right after the Release', 'an hour later, from another connection']) {
    await t.test(when, async t => {
      const origin = await ScriptedOrigin.listen(t)
      const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
      const cache = await TestCache.start(t, { origins: [origin], clock })
      const names = ['main/binary-all/Packages.gz', ...Object.keys(unused)]
      const contents = [used, ...Object.values(unused)]
      const listed = names.map((name, i) => [name, contents[i] ?? used] as const)
      origin.at(`/${base}/InRelease`, file({ content: releaseOf(listed), lastModified }))
      origin.at(`/${base}/${names[0]}`, file({ content: used, lastModified }))
      const ask = { 'Cache-Control': 'max-age=0' }
      await cache.warm(origin.url(`/${base}/InRelease`), ask)
      await cache.warm(origin.url(`/${base}/${names[0]}`), ask)
      await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
      if (when.startsWith('an hour')) clock.advance(3_600_000)
      for (const [name, content] of Object.entries(unused)) {
        const wrong = Buffer.concat([content.subarray(0, -1), Buffer.from('X')])
        origin.at(`/${base}/${name}`, file({ content: wrong, lastModified }))
        const answer = await cache.get(origin.url(`/${base}/${name}`), ask).catch(() => undefined)
        t.notOk(answer?.status === 200 && answer.content.equals(wrong), name)
      }
      await cache.quiet()
      const stored = await cache.stored()
      for (const name of Object.keys(unused))
        t.notOk(stored.includes(origin.url(`/${base}/${name}`)), name)
    })
  }
})
