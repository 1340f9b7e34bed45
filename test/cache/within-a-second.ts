/**
 * Files that their origin replaces within the second of their Last-Modified. The origin knows whole seconds and answers 304 to a question
 * with that date, so the cache asks without it.
 */
import t from 'tap'
import { longestHold } from '../../lib/cache/suites/suite.ts'
import { formatDate } from '../../lib/http/message/date.ts'
import { changingArchive } from '../fixtures/archive/changing-archive.ts'
import { releaseOf } from '../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const lastModified = 'Fri, 14 Mar 2025 12:00:00 GMT'
const moment = Date.parse(lastModified)
const insist = { 'Cache-Control': 'no-cache' }
const files = [
  '/debian/dists/stable/InRelease',
  '/debian/dists/stable/main/binary-all/Packages',
  '/debian/pool/main/x/x_1_all.deb',
  '/debian/installer/linux',
]

interface Row {
  readonly name: string
  /** What the origin sends beside Last-Modified. */
  readonly date?: string
  readonly etag?: string
  /** When it is received, after Last-Modified. */
  readonly later?: number
  /** Whether the origin is asked with the date. */
  readonly asksWithDate: boolean
}

const rows: readonly Row[] = [
  { name: 'Date is of the same second', date: lastModified, later: 5000, asksWithDate: false },
  { name: 'Date is before it', date: 'Fri, 14 Mar 2025 11:59:00 GMT', asksWithDate: false },
  { name: 'Date is a second later', date: 'Fri, 14 Mar 2025 12:00:01 GMT', asksWithDate: true },
  { name: 'without a Date, received in that second', asksWithDate: false },
  { name: 'a Date that is none, received in that second', date: 'now', asksWithDate: false },
  { name: 'without a Date, received a second later', later: 1000, asksWithDate: true },
  { name: 'with an entity tag', date: lastModified, etag: '"1"', asksWithDate: true },
]

t.test('a date is sent only when a change would have shown', async t => {
  for (const { name, date, etag, later = 0, asksWithDate } of rows) {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(moment + later)
    const cache = await TestCache.start(t, { origins: [origin], clock })
    const about = {
      lastModified,
      ...(etag === undefined ? {} : { etag }),
      ...(date === undefined ? {} : { fields: { Date: date } }),
    }
    for (const path of files) {
      origin.at(path, file({ content: 'first', ...about }))
      await cache.warm(origin.url(path))
      origin.at(path, file({ content: 'again', ...about }))
      const { status, text } = await cache.get(origin.url(path), insist)
      t.equal(status, 200)
      t.equal(text, asksWithDate ? 'first' : 'again', `${name}: ${path}`)
      const asked = origin.seen(path).at(-1)?.fields.get('If-Modified-Since')
      t.equal(asked, asksWithDate ? lastModified : undefined, `${name}: ${path}`)
    }
  }
})

t.test('the same content that came once more is asked about with its date', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(moment)
  const cache = await TestCache.start(t, { origins: [origin], clock })
  for (const path of files) {
    origin.at(path, file({ content: 'same', lastModified }))
    await cache.warm(origin.url(path))
  }
  clock.advance(5000)
  for (const path of files) {
    for (const asked of [undefined, lastModified, lastModified]) {
      const { text, fields } = await cache.get(origin.url(path), insist)
      t.equal(text, 'same')
      t.equal(fields.get('Last-Modified'), lastModified)
      t.equal(origin.seen(path).at(-1)?.fields.get('If-Modified-Since'), asked, path)
      await cache.quiet()
    }
  }
})

t.test('a wrong index that is mended within the second', async t => {
  const archive = await changingArchive(t, { now: moment })
  const { origin, release, suite, index, clock } = archive
  const publish = (n: number, there: string, moment = formatDate(clock.now())) => {
    const date = new Date(Date.UTC(2025, 0, 1, n)).toUTCString().replace('GMT', 'UTC')
    const named = [[`${index.slice(suite.length + 1)}`, Buffer.from(`index ${n}`)]] as const
    const content = `Version: ${n}\n${releaseOf(named, ['SHA256'], date)}`
    origin.at(`/${release}`, file({ content, etag: `"${n}"` }))
    const about = { lastModified: moment, fields: { Date: moment } }
    origin.at(`/${index}`, file({ content: there, ...about }))
    return moment
  }
  publish(1, 'index 1')
  await archive.update()
  await archive.update()
  const published = publish(2, 'index 0')
  t.equal((await archive.update()).day, '1', 'held back')
  publish(2, 'index 2', published)
  await archive.until('2', t)
  t.ok(clock.now() - moment < longestHold, 'it was not given without its index')
})
