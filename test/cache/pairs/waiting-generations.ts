/**
 * A delay, or a hold, together with what else decides what clients get: a generation waits as ever, and what is given fits together.
 */
import t, { type Test } from 'tap'
import {
  ChangingArchive,
  type ChangingOptions,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { disputedSuite } from '../../fixtures/archive/disputed-suite.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { startNodes } from '../../fixtures/features/shared/nodes.ts'
import { file, reply, type Script, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

const hour = 3_600_000
const now = Date.UTC(2025, 0, 1)
const delay = '24h'

/** Clients have day 1, and day 2 waits since an hour. */
async function waiting(
  t: Test,
  { about, ...options }: Omit<ChangingOptions, 'archives'> & { about?: object } = {},
): Promise<ChangingArchive> {
  const archives = { debian: { delay, ...about } }
  const archive = (await changingArchives(t, { now, archives, ...options }))('debian')
  for (const day of [1, 2]) {
    archive.serve(await archive.ofDay(day, { byHash: true }))
    archive.clock.advance(hour)
    t.strictSame(await archive.update(), { day: '1', fits: true })
  }
  return archive
}

async function settledAt(archive: ChangingArchive, hours: number) {
  archive.clock.advance(hours * hour)
  await archive.update()
  return archive.update()
}

t.test(
  'a build that is recorded while a generation waits has that of the other clients',
  async t => {
    const archive = await waiting(t)
    const { cache, origin } = archive
    const build = (act: string) =>
      cache.command({ do: 'build', act, name: 'image', file: '', json: false })
    await build('record')
    const within = async (path: string) =>
      (await cache.get(`/_cachesvc/build/image/127.0.0.1:${origin.port}/${path}`)).content
    const files = [archive.release, archive.index]
    const first = [await within(files[0] ?? ''), await within(files[1] ?? '')]
    t.match(String(first[0]), /^Version: 1$/m)
    await archive.settle()
    t.match(await build('lock'), { code: 0, complaints: [] })
    t.strictSame(await settledAt(archive, 30), { day: '2', fits: true }, 'others go on')
    for (const [i, path] of files.entries()) {
      t.ok((await within(path)).equals(first[i] ?? Buffer.alloc(0)), path)
    }
  },
)

t.test('a build that is recorded while a generation comes of age has one generation', async t => {
  const archive = await waiting(t)
  const { cache, origin } = archive
  await cache.command({ do: 'build', act: 'record', name: 'image', file: '', json: false })
  const within = async (path: string) =>
    cache.get(`/_cachesvc/build/image/127.0.0.1:${origin.port}/${path}`)
  const { text } = await within(archive.release)
  t.match(text, /^Version: 1$/m)
  t.strictSame(await settledAt(archive, 30), { day: '2', fits: true })
  t.match((await within(archive.release)).text, /^Version: 1$/m)
  const index = await within(archive.index)
  t.equal(index.status, 200)
  const { createHash } = await import('node:crypto')
  t.ok(text.includes(createHash('sha256').update(index.content).digest('hex')), 'its own index')
})

for (const how of ['offline', 'paused', 'silent'] as const) {
  t.test(`a generation comes of age while the origin cannot be asked: ${how}`, async t => {
    const archive = await waiting(t)
    const { cache, origin } = archive
    const settings = {
      freshness: { floor: '0s' },
      verification: { interval: '0s' },
      archives: [{ origins: [`127.0.0.1:${origin.port}/debian`], delay }],
    }
    const away: Script =
      how === 'silent'
        ? () => new Promise<void>(() => {})
        : reply({ status: 429, fields: { 'Retry-After': '86400' } })
    for (const path of (await archive.ofDay(1, { byHash: true })).keys())
      origin.at(`/${path}`, away)
    for (const path of (await archive.ofDay(2, { byHash: true })).keys())
      origin.at(`/${path}`, away)
    if (how === 'offline') await cache.reload({ ...settings, offline: true })
    const days = new Set<string>()
    for (let hours = 0; hours < 33; hours += 11) {
      archive.clock.advance(11 * hour)
      let answered = false
      const update = archive.update().finally(() => {
        answered = true
      })
      await cache.until(
        () => answered,
        () => how === 'silent' && cache.working.adoptions === 0,
      )
      const { day, fits } = await update
      t.ok(fits, `after ${hours} hours day ${day} fits`)
      days.add(day)
    }
    t.strictSame([...days], ['1', '2'], 'it was fetched while it waited')
  })
}

t.test('at two nodes of a bucket neither gives what waits at the other', async t => {
  const clock = new ManualClock(now)
  const all = await startNodes(t, { count: 2, clock, settings: { freshness: { floor: '0s' } } })
  const { origin, nodes } = all
  const settings = {
    freshness: { floor: '0s' },
    archives: [{ origins: [`127.0.0.1:${origin.port}/debian`], delay }],
  }
  const at = ({ cache }: { cache: TestCache }) =>
    new ChangingArchive({ origin, cache, clock, root: 'debian' })
  for (const { cache } of nodes) t.strictSame(await cache.reload(settings), [])
  const archives = nodes.map(at)
  const [one, two] = archives
  if (one === undefined || two === undefined) throw new Error('no node')
  one.serve(await one.ofDay(1, { byHash: true }))
  for (const archive of archives) t.strictSame(await archive.update(), { day: '1', fits: true })
  clock.advance(hour)
  one.serve(await one.ofDay(2, { byHash: true }))
  for (let hours = 2; hours < 24; hours += 7) {
    for (const archive of archives) {
      t.strictSame(await archive.update(), { day: '1', fits: true }, `hour ${hours}`)
    }
    clock.advance(7 * hour)
  }
  // The first one to have it points to it.
  for (const archive of archives) {
    await archive.update()
    t.strictSame(await archive.update(), { day: '2', fits: true }, 'old enough')
  }
  one.serve(await one.ofDay(26, { byHash: true }))
  t.strictSame(await one.update(), { day: '2', fits: true })
  await nodes[0]?.cache.command({ do: 'release', of: origin.url('/debian'), reason: 'test' })
  await one.update()
  t.strictSame(await two.update(), { day: '2', fits: true }, 'released at the other node alone')
})

t.test('a snapshot of a day has what clients got on it, not what waited', async t => {
  const archive = await waiting(t, {
    settings: { suites: { snapshot_days: 30 }, verification: { interval: '0s' } },
  })
  const asOf = async (date: string) =>
    (
      await archive.cache.get(
        `/_cachesvc/snapshot/${date}/127.0.0.1:${archive.origin.port}/${archive.release}`,
      )
    ).text
  t.match(await asOf('2025-01-01'), /^Version: 1$/m)
  t.strictSame(await settledAt(archive, 30), { day: '2', fits: true })
  t.match(await asOf('2025-01-01'), /^Version: 1$/m)
  t.match(await asOf('2025-01-02'), /^Version: 2$/m)
})

t.test('a quota that is full keeps what waits and what clients have', async t => {
  const archive = await waiting(t, { settings: { retention: { size: '2M', object_size: '1M' } } })
  const { cache, origin } = archive
  for (let n = 0; n < 12; n += 1) {
    const path = `/debian/pool/main/h/hello_${n}_all.deb`
    origin.at(path, file({ content: Buffer.alloc(300_000, `${n} `), etag: `"${n}"` }))
    await cache.warm(origin.url(path))
  }
  for (const day of [1, 2]) archive.remove((await archive.ofDay(day, { byHash: true })).keys())
  origin.at(`/${archive.release}`, answer => answer.reset())
  t.strictSame(await archive.update(), { day: '1', fits: true })
  t.strictSame(await settledAt(archive, 30), { day: '2', fits: true }, 'from the store alone')
})

t.test('a mirror that is ahead, or behind, does not end the delay', async t => {
  const origins = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const [first, second] = origins
  if (first === undefined || second === undefined) throw new Error('no origin')
  const clock = new ManualClock(now)
  const archives = [{ origins: origins.map(one => `127.0.0.1:${one.port}/debian`), delay }]
  const settings = { freshness: { floor: '0s' }, archives }
  const cache = await TestCache.start(t, { origins, clock, settings })
  const at = (origin: ScriptedOrigin) =>
    new ChangingArchive({ origin, cache, clock, root: 'debian' })
  const [one, two] = [at(first), at(second)]
  const day = (n: number) => one.ofDay(n, { byHash: true })
  one.serve(await day(1))
  two.serve(await day(1))
  t.strictSame(await one.update(), { day: '1', fits: true })
  two.serve(await day(2))
  const healthy = await day(1)
  for (const path of healthy.keys()) first.at(`/${path}`, reply({ status: 503 }))
  for (let hours = 0; hours < 20; hours += 5) {
    clock.advance(5 * hour)
    t.strictSame(await one.update(), { day: '1', fits: true })
  }
  one.serve(healthy)
  clock.advance(hour)
  t.strictSame(await one.update(), { day: '1', fits: true }, 'the one that is behind is back')
  clock.advance(8 * hour)
  one.serve(await day(2))
  await one.until('2', t)
})

t.test(
  'of indexes that contradict each other clients get what those of their generation name',
  async t => {
    const [one, other] = ['main/binary-i386', 'main/binary-amd64']
    const archives = (root: string) => ({
      archives: [{ origins: [root.replace('http://', '')], delay }],
    })
    const { publish, has, update, gets, clock, url, cache } = await disputedSuite(t, [one, other], {
      settings: archives,
    })
    has(one)
    await update(2, one)
    await update(4, other)
    clock.advance(hour)
    publish(20)
    for (const [client, index] of [
      [2, one],
      [4, other],
    ] as const)
      await update(client, index)
    t.match(
      (await cache.get(url('dists/stable/InRelease'))).text,
      /01 Feb 2025/,
      'the newer one waits',
    )
    t.match(await gets(2), { status: 200, text: `that of ${one}` })
    t.equal((await gets(4)).status, 520, 'the origin has that of the other')
    has(other)
    clock.advance(120_000)
    t.match(await gets(4), { status: 200, text: `that of ${other}` })
    clock.advance(30 * hour)
    for (const [client, index] of [
      [2, one],
      [4, other],
    ] as const)
      await update(client, index)
    t.match(
      (await cache.get(url('dists/stable/InRelease'))).text,
      /21 Feb 2025/,
      'and is old enough',
    )
    t.match(await gets(4), { status: 200, text: `that of ${other}` })
    t.equal((await gets(2)).status, 520)
  },
)
