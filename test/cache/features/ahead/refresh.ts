/**
 * Scheduled refresh: which suites origins are asked about without a client, when, and what a client then gets.
 */
import t, { type Test } from 'tap'
import { isWithin } from '../../../../lib/cache/features/ahead/refresh.ts'
import {
  type ChangingArchive,
  type ChangingOptions,
  changingArchive,
} from '../../../fixtures/archive/changing-archive.ts'
import { reply } from '../../../fixtures/http/scripted-origin.ts'
import { atRest } from '../../../fixtures/time/until.ts'

t.setTimeout(300_000)

const minute = 60_000
const hour = 60 * minute

async function archiveWith(
  t: Test,
  suites: object,
  { settings = {}, ...options }: ChangingOptions = {},
): Promise<ChangingArchive> {
  return changingArchive(t, {
    ...options,
    settings: { suites, verification: { interval: '0s' }, ...settings },
  })
}

/** Lets time pass, some minutes at a time; on the way what the schedule has begun comes to its end. */
async function pass(archive: ChangingArchive, minutes: number, step = 5): Promise<void> {
  const { cache, clock } = archive
  for (let n = 0; n < minutes; n += step) {
    clock.advance(step * minute)
    await idle(archive)
  }
  await cache.quiet()
}

/** Waits in true time until the schedule waits for no origin, and what came of that is adopted. */
async function idle({ cache }: ChangingArchive): Promise<void> {
  const deadline = Date.now() + 60_000
  const count = (words: string) => cache.log.lines.filter(({ message }) => message === words).length
  do {
    await atRest(() => cache.log.lines.length)
    if (Date.now() > deadline) throw new Error('a refresh has no end')
  } while (count('asking the origin of a suite by schedule') !== count('refreshed a suite'))
  const adopted = async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0
  await cache.until(adopted, () => false)
}

function questions({ origin, release }: ChangingArchive): number {
  return origin.seen(`/${release}`).length
}

/** The figure of `cachesvc_suite_refreshes_total` for a result. */
async function refreshes({ cache }: ChangingArchive, result: string): Promise<number> {
  const { text } = await cache.get('/_cachesvc/metrics')
  const line = new RegExp(`^cachesvc_suite_refreshes_total\\{result="${result}"\\} (\\d+)`, 'm')
  return Number(line.exec(text)?.[1] ?? 0)
}

t.test('off unless a setting says so', async t => {
  const archive = await archiveWith(t, {})
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const asked = questions(archive)
  archive.serve(await archive.ofDay(2))
  await pass(archive, 90)
  t.equal(questions(archive), asked)
})

t.test(
  'a new generation is adopted before a client comes, also while the origin is away',
  async t => {
    const archive = await archiveWith(t, { refresh: '30m' })
    const { origin, release, index, cache } = archive
    archive.serve(await archive.ofDay(1))
    await archive.update()
    const files = await archive.ofDay(2)
    archive.serve(files)
    await pass(archive, 40)
    t.equal(await refreshes(archive, 'updated'), 1)
    await archive.settle()
    const fetched = origin.seen(`/${index}`).length
    for (const path of [release, index]) origin.at(`/${path}`, reply({ status: 500, content: '' }))
    t.strictSame(await archive.update(), { day: '2', fits: true })
    t.equal(origin.seen(`/${index}`).length, fetched, 'the index was there')
    t.equal(await refreshes(archive, 'failed'), 0)
    await pass(archive, 70)
    t.equal(await refreshes(archive, 'failed'), 2, 'a failing origin is asked once in an interval')
    t.strictSame(await archive.update(), { day: '2', fits: true })
    const { facts } = cache.log.lines.find(({ message }) => message === 'refreshed a suite') ?? {}
    t.match(facts, { result: 'updated' })
  },
)

t.test('an interval begins with the last answer of the origin, whichever side asked', async t => {
  const archive = await archiveWith(t, { refresh: '30m' })
  archive.serve(await archive.ofDay(1))
  await archive.update()
  for (let n = 0; n < 4; n += 1) {
    await pass(archive, 20)
    await archive.update()
  }
  t.equal(await refreshes(archive, 'confirmed'), 0)
  await pass(archive, 120)
  const count = await refreshes(archive, 'confirmed')
  t.ok(count === 3 || count === 4, `${count} in two hours`)
})

t.test('suites that no client has asked for lately are left alone', async t => {
  const archive = await archiveWith(t, { refresh: '1h', refresh_for: '5h' })
  archive.serve(await archive.ofDay(1))
  await archive.update()
  await pass(archive, 10 * 60)
  const count = await refreshes(archive, 'confirmed')
  t.ok(count === 4 || count === 5, `${count}: a refresh is no use`)
  await archive.update()
  await pass(archive, 70)
  t.equal(await refreshes(archive, 'confirmed'), count + 1, 'a client has come back')
  await archive.cache.restart()
  await pass(archive, 5 * 60)
  const more = await refreshes(archive, 'confirmed')
  t.ok(more >= 2 && more <= 4, `${more} after a restart`)
})

t.test('within times of the day, not while offline, and from a reload on', async t => {
  const now = new Date(2025, 2, 14, 12).getTime()
  const suites = { refresh: '30m', refresh_between: '22:00-06:00' }
  const archive = await archiveWith(t, suites, { now })
  archive.serve(await archive.ofDay(1))
  await archive.update()
  await pass(archive, 9 * 60)
  t.equal(await refreshes(archive, 'confirmed'), 0)
  await pass(archive, 65)
  t.equal(await refreshes(archive, 'confirmed'), 1)
  const settings = { freshness: { floor: '0s' }, verification: { interval: '0s' } }
  t.strictSame(await archive.cache.reload({ ...settings, suites, offline: true }), [])
  await pass(archive, 65)
  t.equal(await refreshes(archive, 'confirmed'), 1)
  t.strictSame(await archive.cache.reload({ ...settings, suites: { refresh: '10m' } }), [])
  await pass(archive, 25)
  t.ok((await refreshes(archive, 'confirmed')) >= 2)
})

t.test('a clock that is set changes nothing', async t => {
  for (const to of [-30 * 24 * hour, 5 * hour]) {
    const archive = await archiveWith(t, { refresh: '30m' })
    archive.serve(await archive.ofDay(1))
    await archive.update()
    await pass(archive, 70)
    const before = await refreshes(archive, 'confirmed')
    archive.clock.set(archive.clock.now() + to)
    await pass(archive, 70)
    const count = (await refreshes(archive, 'confirmed')) - before
    t.ok(count >= 1 && count <= 3, `${count} after ${to}`)
  }
})

t.test('times of the day', async t => {
  const at = (hours: number, minutes = 0): number => new Date(2025, 2, 14, hours, minutes).getTime()
  const night = { from: 22 * 60, until: 6 * 60 }
  const noon = { from: 12 * 60, until: 13 * 60 + 30 }
  const cases = [
    [night, 22, 0, true],
    [night, 21, 59, false],
    [night, 0, 0, true],
    [night, 5, 59, true],
    [night, 6, 0, false],
    [noon, 12, 0, true],
    [noon, 13, 29, true],
    [noon, 13, 30, false],
    [noon, 0, 0, false],
  ] as const
  for (const [times, hours, minutes, is] of cases) {
    t.equal(isWithin(at(hours, minutes), times), is, `${hours}:${minutes}`)
  }
})
