/**
 * `/_cachesvc/snapshot/<date>/<archive>/…`: suites as they were on a day.
 */
import t, { type Test } from 'tap'
import {
  type ChangingArchive,
  changingArchive,
  type DayOptions,
} from '../fixtures/archive/changing-archive.ts'
import { type Files, hexOf } from '../fixtures/archive/tiny-archive.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'

const hour = 3600 * 1000

/** An archive that was updated on 14, 15 and 16 March 2025, with the files of those days. */
async function threeDays(
  t: Test,
  options: DayOptions = {},
): Promise<{ readonly archive: ChangingArchive; readonly days: readonly Files[] }> {
  const settings = { suites: { snapshot_days: 30 }, verification: { interval: '0s' } }
  const now = Date.parse('2025-03-14T23:30:00Z')
  const archive = await changingArchive(t, { settings, now })
  const days: Files[] = []
  for (const [day, wait] of [1, 24, 0].entries()) {
    const files = await archive.ofDay(day + 1, options)
    days.push(files)
    archive.serve(files)
    await archive.until(`${day + 1}`, t)
    archive.clock.advance(wait * hour)
  }
  return { archive, days }
}

/** A file as of a date, asked for as apt does with our address in sources.list. */
function asOf(
  { cache, origin }: ChangingArchive,
  date: string,
  path: string,
): Promise<RawResponse> {
  return cache.get(`/_cachesvc/snapshot/${date}/127.0.0.1:${origin.port}/${path}`)
}

t.test('each day has its Release file and the index that names', async t => {
  for (const byHash of [true, false]) {
    const { archive, days } = await threeDays(t, { byHash })
    const cases = [
      ['2025-03-14', 0],
      ['2025-03-15', 1],
      ['2025-03-16', 2],
    ] as const
    for (const [date, day] of cases) {
      for (const path of [archive.release, archive.index]) {
        const { status, content } = await asOf(archive, date, path)
        t.equal(status, 200, `${date} ${path}`)
        t.ok(days[day]?.get(path)?.equals(content), `${date} ${path}`)
      }
      const index = days[day]?.get(archive.index) ?? Buffer.alloc(0)
      const hashed = await asOf(archive, date, archive.hashed(index))
      t.ok(hashed.content.equals(index), `${date} by hash`)
      const { origin, cache } = archive
      const path = `_cachesvc/snapshot/${date}/127.0.0.1:${origin.port}/${archive.index}`
      const asked = encodeURIComponent(`http://127.0.0.1:${cache.port}/${path}`)
      const { text } = await cache.get(`/_cachesvc/explain?url=${asked}`)
      t.match(text, archive.hashed(index), 'explain tells which file that is')
    }
  }
})

t.test(
  'an ID of apt is a second: the end of a day is that day, in the middle it is what clients got then',
  async t => {
    const { archive, days } = await threeDays(t)
    const cases = [
      ['20250314T235959Z', 0],
      ['20250315T000000Z', 0],
      ['20250315T003000Z', 0],
      ['20250315T120000Z', 1],
      ['20250315T235959Z', 1],
      ['20250317T000000Z', 2],
    ] as const
    for (const [id, day] of cases) {
      for (const path of [archive.release, archive.index, `/${archive.index}`]) {
        const { status, content } = await asOf(archive, id, path)
        const slashes = path.startsWith('/') ? path.slice(1) : path
        t.equal(status, 200, `${id} ${path}`)
        t.ok(days[day]?.get(slashes)?.equals(content), `${id} ${path}`)
      }
    }
    const early = await asOf(archive, '20250314T000000Z', archive.release)
    t.equal(early.status, 404)
    t.match(early.text, /oldest generation .* 2025-03-14/)
  },
)

t.test('everything else', async t => {
  const { archive, days } = await threeDays(t)
  await t.test(
    'packages are those of their names, from the origin when they are not stored',
    async t => {
      const path = `${archive.root}/pool/main/p/p_1_all.deb`
      const first = await asOf(archive, '2025-03-14', path)
      t.equal(first.text, 'content 1 of debian')
      await archive.settle()
      t.equal((await asOf(archive, '2025-03-14', path)).fields.get('X-Cache'), 'HIT')
      t.equal(first.fields.get('Content-Security-Policy'), 'sandbox')
    },
  )

  await t.test('what is not there is 404, with a sentence', async t => {
    const { release, suite } = archive
    const cases = [
      ['2025-03-13', release, /oldest generation .* 2025-03-14/],
      ['2025-03-13', archive.index, /oldest generation/],
      ['2025-03-18', release, /future/],
      ['2025-03-15', `${suite}/Release.gpg`, /does not name/],
      ['2025-03-15', `${suite}/main/binary-all/Packages.xz`, /does not name/],
      [
        '2025-03-15',
        'other/dists/sid/InRelease',
        /Nothing is kept of this suite: set suites\.snapshot_days/,
      ],
    ] as const
    for (const [date, path, words] of cases) {
      const { status, text } = await asOf(archive, date, path)
      t.equal(status, 404, path)
      t.match(text, words)
    }
    const lines = archive.cache.log.lines.filter(
      ({ facts }) => facts?.['because'] === 'no-snapshot',
    )
    t.equal(lines.length, cases.length, 'and a reason word')
  })

  await t.test(
    'dates that are none, archives that may not be reached, and clients without a host',
    async t => {
      const { cache, release, origin } = archive
      for (const date of [
        '2025-3-14',
        '2025-02-30',
        'today',
        '',
        '20250314',
        '2025-03-14T00',
        '..',
      ]) {
        t.equal((await asOf(archive, date, release)).status, 400, date)
      }
      const refused = await cache.get(`/_cachesvc/snapshot/2025-03-14/192.168.1.1/debian/InRelease`)
      t.equal(refused.status, 403)
      const far = await asOf(archive, '2025-03-14', `%2e%2e/%2e%2e/_cachesvc/metrics`)
      t.not(far.status, 200)
      const own = await cache.get(`/_cachesvc/snapshot/2025-03-14/_cachesvc/metrics`)
      t.equal(own.status, 404)
      const twice = `/_cachesvc/snapshot/2025-03-14/_cachesvc/snapshot/2025-03-14/127.0.0.1:${origin.port}/x`
      t.equal((await cache.get(twice)).status, 404)
    },
  )

  await t.test('generations are still there after a restart', async t => {
    await archive.cache.restart()
    const { content } = await asOf(archive, '2025-03-14', archive.release)
    t.ok(days[0]?.get(archive.release)?.equals(content))
  })
})

t.test('an index no client had asked for is fetched by its digest', async t => {
  const archive = await changingArchive(t)
  const { origin, suite, release, clock } = archive
  const path = `${suite}/main/i18n/Translation-en`
  const content = Buffer.from('Package: p\n')
  const digest = hexOf('sha256', content)
  const files = await archive.ofDay(1, { byHash: true })
  const line = ` ${digest} ${content.length} main/i18n/Translation-en\n`
  files.set(release, Buffer.concat([files.get(release) ?? Buffer.alloc(0), Buffer.from(line)]))
  files.set(`${suite}/main/i18n/by-hash/SHA256/${digest}`, content)
  archive.serve(files)
  await archive.update()
  const today = new Date(clock.now()).toISOString().slice(0, 10)
  t.equal((await asOf(archive, today, path)).text, content.toString())
  t.equal(origin.seen(`/${path}`).length, 0)
})
