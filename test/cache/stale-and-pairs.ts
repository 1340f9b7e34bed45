/**
 * Decisions about what may have changed, on the wire: whether stale files may be served, files that belong together, and dates.
 */
import t, { type Test } from 'tap'
import { ManualClock } from '../../lib/async/clock.ts'
import { type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const release = '/debian/dists/stable/InRelease'
const other = '/debian/doc/constitution.txt'
const date = 'Wed, 01 Jan 2025 00:00:00 GMT'
const insist = { 'Cache-Control': 'max-age=0' }

async function begun(t: Test, settings: Settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  origin.at('*', file({ content: 'first', etag: '"1"', lastModified: date }))
  return { origin, cache, url: origin.url(release) }
}

t.test('an origin that forbids stale answers is obeyed where the setting says so', async t => {
  for (const [serve_stale, now] of [
    ['always', 200],
    ['permitted', 504],
  ] as const) {
    const { origin, cache } = await begun(t, { freshness: { serve_stale, floor: '0s' } })
    const fields = { 'Cache-Control': 'max-age=60, must-revalidate' }
    for (const [path, given, status] of [
      [release, fields, now],
      [other, {}, 200],
    ] as const) {
      const url = origin.url(path)
      origin.at(path, file({ content: 'first', etag: '"1"', fields: given }))
      await cache.warm(url)
      origin.at(path, answer => answer.reset())
      t.equal((await cache.get(url, insist)).status, status, `${serve_stale} ${path}`)
      t.equal((await cache.get(url)).status, 200, 'while it is fresh there is nothing to confirm')
    }
  }
})

t.test('Release and Release.gpg are confirmed every time', async t => {
  const { origin, cache } = await begun(t)
  for (const name of ['Release', 'Release.gpg']) {
    const path = `/debian/dists/stable/${name}`
    origin.at(path, file({ content: 'first', etag: '"1"' }))
    await cache.warm(origin.url(path))
    origin.at(path, file({ content: 'second', etag: '"2"' }))
    t.equal((await cache.get(origin.url(path))).text, 'second', name)
  }
})

t.test('other content under the same date is given another date', async t => {
  const { origin, cache, url } = await begun(t)
  const dateOf = async () => (await cache.warm(url, insist)).fields.get('Last-Modified')
  t.equal(await dateOf(), date)
  for (const [content, moved] of [
    ['other', 'Wed, 01 Jan 2025 00:00:01 GMT'],
    ['a third', 'Wed, 01 Jan 2025 00:00:02 GMT'],
  ] as const) {
    origin.at(release, reply({ content, fields: { 'Last-Modified': date } }))
    t.equal(await dateOf(), moved)
    t.equal((await cache.get(url)).fields.get('Last-Modified'), moved, 'as long as it is the same')
  }
})
