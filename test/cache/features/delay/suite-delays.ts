/**
 * Delay and hold over the wire: what clients get at each hour of an archive that changes.
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type ChangingArchive,
  type ChangingOptions,
  changingArchives,
} from '../../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import { attempt } from '../../../fixtures/process/command.ts'

const program = join(import.meta.dirname, '../../../../bin/cachesvc.js')

t.setTimeout(600_000)

const minute = 60_000
const hour = 60 * minute
/** The hour 0 of all archives here; the Release file of day n is dated n hours later. */
const begin = Date.UTC(2025, 0, 1)

async function delayed(
  t: Test,
  about: object,
  options: Omit<ChangingOptions, 'archives'> = {},
): Promise<ChangingArchive> {
  const archives = await changingArchives(t, {
    ...options,
    now: begin,
    settings: { verification: { interval: '0s' }, ...options.settings },
    archives: { debian: about },
  })
  return archives('debian')
}

/** Lets time pass until so many hours after the beginning, by elapsed time; `begun` is what had elapsed there. */
function passUntil({ clock }: ChangingArchive, hours: number): void {
  const left = hours * hour - clock.elapsed()
  if (left > 0) clock.advance(left)
}

/** Publishes the generation of an hour. */
async function publish(archive: ChangingArchive, hours: number, more = ''): Promise<void> {
  archive.serve(await archive.ofDay(hours, { byHash: true, more }))
}

function detailOf(archive: ChangingArchive): Promise<string | undefined> {
  return archive.get(archive.release).then(({ fields }) => fields.get('Cache-Status'))
}

t.test('ten generations: what a client gets at each hour', async t => {
  const archive = await delayed(t, { delay: '23h30m' })
  const { clock, cache } = archive
  const events: Readonly<Record<number, () => Promise<void> | void>> = {
    29: () => cache.restart(),
    35: () => clock.set(clock.now() + 365 * 24 * hour),
    36: () => cache.restart(),
    41: () => clock.set(clock.now() - 365 * 24 * hour),
    42: () => clock.set(clock.now() - 12 * hour),
    47: () => cache.restart(),
    54: () => clock.set(clock.now() + 12 * hour),
  }
  // A generation comes every six hours, and is old enough a day later: both sides of each change.
  for (let hours = 0; hours <= 84; hours += hours % 6 === 0 ? 5 : 1) {
    passUntil(archive, hours)
    if (hours % 6 === 0 && hours < 60) await publish(archive, hours)
    passUntil(archive, hours + 1 / 6)
    await events[hours]?.()
    const newest = Math.min(54, 6 * Math.floor((hours - 24) / 6))
    const expected = { day: String(Math.max(0, newest)), fits: true }
    t.strictSame(await archive.update(), expected, `hour ${hours}`)
  }
})

t.test('a suite that is excepted is given at once', async t => {
  const archive = await delayed(t, { delay: '24h', except: ['sta*'] })
  await publish(archive, 0)
  await archive.update()
  passUntil(archive, 1)
  await publish(archive, 1)
  await archive.until('1', t)
  t.strictSame(
    archive.cache.log.lines.filter(({ message }) => message.includes('generation')),
    [],
  )
})

t.test('a delay is said: in the field, in the log', async t => {
  const archive = await delayed(t, { delay: '24h' })
  const { cache } = archive
  await publish(archive, 0)
  await archive.update()
  passUntil(archive, 1)
  await publish(archive, 1)
  t.strictSame(await archive.update(), { day: '0', fits: true })
  t.match(await detailOf(archive), 'detail=suite-delayed')
  const fresh = await cache.get(archive.origin.url(`/${archive.release}`))
  t.match(
    fresh.fields.get('Cache-Status'),
    'detail=suite-delayed',
    'without a question to the origin',
  )
  const [line] = cache.log.lines.filter(
    ({ message }) => message === 'a new generation of a suite waits',
  )
  t.match(line?.facts, { suite: /dists\/stable$/, date: '2025-01-01T01:00:00.000Z' })
  const before = archive.origin.seen(`/${archive.release}`).length
  const { status } = await cache.head(archive.origin.url(`/${archive.release}`), {
    'Cache-Control': 'no-cache',
  })
  t.equal(status, 200)
  await archive.update()
  const [, last] = archive.origin.seen(`/${archive.release}`).slice(before - 1)
  t.match(last?.fields.get('If-None-Match'), /^"/, 'the origin is asked about the one that waits')
  passUntil(archive, 30)
  t.strictSame(await archive.update(), { day: '1', fits: true })
  t.match(await detailOf(archive), /detail=(validated|fresh)/)
  t.ok(
    cache.log.lines.some(
      ({ message, facts }) =>
        message === 'clients get a generation that waited' && facts?.['because'] === 'ripe',
    ),
  )
})

t.test('Valid-Until: the delay gives way, with a warning', async t => {
  const archive = await delayed(t, { delay: '10d' })
  const { cache } = archive
  const until = (hours: number): string =>
    `Valid-Until: ${new Date(begin + hours * hour).toUTCString().replace('GMT', 'UTC')}\n`
  for (const hours of [0, 72, 144, 168]) {
    passUntil(archive, hours)
    await publish(archive, hours, until(hours + 168))
    passUntil(archive, hours + 0.1)
    const { day, fits } = await archive.update()
    t.ok(fits)
    t.equal(day, hours < 168 ? '0' : '72', `hour ${hours}`)
  }
  t.ok(
    cache.log.lines.some(
      ({ level, message }) => level === 'warn' && /ahead of its time/.test(message),
    ),
  )
})

t.test('a hold, over restarts and clocks', async t => {
  const archive = await delayed(t, { hold: '2025-01-01' })
  const { cache, clock } = archive
  for (const [hours, expected] of [
    [0, 0],
    [23, 23],
    [24, 23],
    [60, 23],
  ] as const) {
    passUntil(archive, hours)
    await publish(archive, hours)
    passUntil(archive, hours + 0.1)
    t.strictSame(await archive.update(), { day: String(expected), fits: true }, `hour ${hours}`)
  }
  t.match(await detailOf(archive), 'detail=suite-held')
  for (const to of [400 * 24 * hour, -420 * 24 * hour]) {
    clock.set(clock.now() + to)
    await cache.restart()
    t.strictSame(await archive.update(), { day: '23', fits: true })
  }
})

t.test('a release that a bundle or a delay that is switched on finds in place', async t => {
  const archive = await delayed(t, {})
  await publish(archive, 0)
  await archive.update()
  passUntil(archive, 1)
  await publish(archive, 1)
  await archive.until('1', t)
  const origins = [`127.0.0.1:${archive.origin.port}/debian`]
  const settings = { freshness: { floor: '0s' }, verification: { interval: '0s' } }
  await archive.cache.reload({ ...settings, archives: [{ origins, delay: '24h' }] })
  passUntil(archive, 2)
  await publish(archive, 2)
  t.strictSame(await archive.update(), { day: '1', fits: true }, 'nothing is taken back')
  await archive.cache.reload({ ...settings, archives: [{ origins }] })
  await archive.until('2', t)
})

t.test('the other form of a Release file is not a way around', async t => {
  const archive = await delayed(t, { delay: '24h' })
  const { cache, origin, suite } = archive
  await publish(archive, 0)
  await archive.update()
  const files = await archive.ofDay(1)
  archive.serve(files)
  archive.serve(new Map([[`${suite}/Release`, files.get(archive.release) ?? Buffer.alloc(0)]]))
  for (const name of ['Release', 'Release.gpg']) {
    const { status, text } = await cache.get(origin.url(`/${suite}/${name}`))
    t.equal(status, 404)
    t.match(text, /delay or a hold/)
  }
  t.equal(origin.seen(`/${suite}/Release`).length, 0)
  t.strictSame(await archive.update(), { day: '0', fits: true })
})

t.test(
  'indexes that wait are stored, and given by their digest to clients that have the newest from elsewhere',
  async t => {
    const archive = await delayed(t, { delay: '24h' })
    await publish(archive, 0)
    await archive.update()
    passUntil(archive, 1)
    const files = await archive.ofDay(1, { byHash: true })
    archive.serve(files)
    await archive.update()
    const index = files.get(archive.index) ?? Buffer.alloc(0)
    archive.remove([archive.hashed(index), archive.index])
    const { status, content, fields } = await archive.get(archive.hashed(index))
    t.equal(status, 200)
    t.equal(hexOf('sha256', content), hexOf('sha256', index))
    t.equal(fields.get('X-Cache'), 'HIT')
    t.strictSame(
      await archive.update(),
      { day: '0', fits: true },
      'the origin has the older index no more',
    )
  },
)

t.test('a bundle brings a newer generation: it waits as any other', async t => {
  for (const about of [{ delay: '24h' }, { hold: '2024-12-31' }]) {
    const archive = await delayed(t, about)
    const { cache, origin } = archive
    await publish(archive, 0)
    await archive.update()
    await cache.stop()
    const elsewhere = await TestCache.start(t, { origins: [origin], clock: archive.clock })
    passUntil(archive, 1)
    await publish(archive, 1)
    for (const path of [archive.release, archive.index])
      await elsewhere.warm(origin.url(`/${path}`))
    await elsewhere.stop()
    const bundle = join(t.testdir({}), 'bundle.tar')
    const run = (directory: string, word: string) =>
      attempt(process.execPath, [program, '--cache-dir', directory, word, bundle])
    t.match(await run(elsewhere.directory, 'export'), { code: 0 })
    t.match(await run(cache.directory, 'import'), { code: 0 })
    await cache.restart()
    t.strictSame(await archive.update(), { day: '0', fits: true })
    t.ok(cache.log.lines.some(({ message }) => message === 'a new generation of a suite waits'))
    if (!('delay' in about)) continue
    passUntil(archive, 30)
    await archive.until('1', t)
  }
})

t.test('a form whose generation is kept no more is still no way around', async t => {
  const archive = await delayed(t, { delay: '90m' })
  const { cache, origin, suite } = archive
  const release = origin.url(`/${suite}/Release`)
  const both = async (hours: number): Promise<void> => {
    const files = await archive.ofDay(hours, { byHash: true })
    files.set(`${suite}/Release`, files.get(archive.release) ?? Buffer.alloc(0))
    archive.serve(files)
  }
  await both(0)
  // Both forms are stored before the suite is adopted.
  await Promise.all([archive.get(archive.release), archive.get(`${suite}/Release`)])
  await archive.settle()
  await archive.update()
  const dayOf = async () => /^Version: (\d+)/m.exec((await cache.get(release)).text)?.[1]
  const first = await dayOf()
  for (let hours = 1; hours < 9; hours += 1) {
    passUntil(archive, hours)
    await both(hours)
    await archive.update()
  }
  if (first === undefined) return
  t.equal(first, '0')
  passUntil(archive, 9)
  await both(9)
  t.not(
    await cache
      .get(release, { 'Cache-Control': 'no-cache' })
      .then(({ text }) => /^Version: (\d+)/m.exec(text)?.[1]),
    '9',
  )
})

t.test('a Release file that an operator removes', async t => {
  const archive = await delayed(t, { delay: '24h' })
  const { cache } = archive
  await publish(archive, 0)
  await archive.update()
  passUntil(archive, 1)
  await publish(archive, 1)
  await archive.update()
  t.match(await cache.command({ do: 'remove', of: archive.origin.url(`/${archive.release}`) }), {
    code: 0,
  })
  await archive.settle()
  const { day, fits } = await archive.update()
  t.ok(fits)
  t.equal(day, '1', 'an operator who removes it gets the next one as the first')
})

t.test('a suite that may not be adopted is not delayed, and that is said', async t => {
  const archive = await delayed(t, { delay: '24h', verify: 'require' })
  const { cache, clock } = archive
  await publish(archive, 0)
  await archive.get(archive.release)
  await archive.settle()
  const health = async () => (await cache.get('/_cachesvc/healthz')).text
  t.notMatch(await health(), /has no effect/)
  clock.advance(2 * minute)
  await publish(archive, 1)
  t.match((await archive.get(archive.release)).text, /^Version: 1$/m)
  t.match(await health(), /the delay or hold of \S+dists\/stable has no effect/)
})
