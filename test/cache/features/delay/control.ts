/**
 * The commands `release` and `changes`, and where a delay is shown.
 */
import t, { type Test } from 'tap'
import {
  type ChangingArchive,
  changingArchives,
} from '../../../fixtures/archive/changing-archive.ts'

t.setTimeout(300_000)

const hour = 3600 * 1000
const begin = Date.UTC(2025, 0, 1)

async function delayed(t: Test, about: object): Promise<ChangingArchive> {
  const archives = await changingArchives(t, {
    now: begin,
    settings: { verification: { interval: '0s' } },
    archives: { debian: about },
  })
  return archives('debian')
}

async function publishAt(archive: ChangingArchive, hours: number): Promise<void> {
  const { clock } = archive
  clock.advance(Math.max(0, hours * hour - clock.elapsed()))
  archive.serve(await archive.ofDay(hours, { byHash: true }))
}

/** What the service answers a command about the archive. */
async function ask(archive: ChangingArchive, request: object): Promise<unknown> {
  const of = `127.0.0.1:${archive.origin.port}/debian`
  return archive.cache.command({ of, suites: [], ...request })
}

t.test('one that has just come is let through, with who and why', async t => {
  const archive = await delayed(t, { delay: '24h' })
  const { cache } = archive
  await publishAt(archive, 0)
  await archive.update()
  await publishAt(archive, 1)
  t.strictSame(await archive.update(), { day: '0', fits: true })
  await publishAt(archive, 2)
  const release = { do: 'release', by: 'ann', reason: 'a fix\nof curl' }
  t.match(await ask(archive, release), {
    code: 0,
    out: /dists\/stable: 2 generations waited, clients get that of 2025-01-01 02:00/,
  })
  await archive.settle()
  t.strictSame(await archive.update(), { day: '2', fits: true })
  const line = cache.log.lines.find(({ message }) => /^an operator lets/.test(message))
  t.match(line?.facts, { by: 'ann', reason: 'a fix of curl', waiting: 2 })
  await publishAt(archive, 3)
  t.strictSame(await archive.update(), { day: '2', fits: true }, 'the next one waits')
  await cache.restart()
  t.strictSame(await archive.update(), { day: '2', fits: true })
  const { text } = await cache.get('/_cachesvc/cache')
  t.match(text, /delay of 1d; clients get one that was let through by ann \(a fix of curl\)/)
})

for (const undated of [false, true]) {
  const name = undated ? 'without a date' : 'with dates'
  t.test(`clients never go back after several generations were let through, ${name}`, async t => {
    const archive = await delayed(t, { delay: '24h' })
    const { clock } = archive
    const publish = async (hours: number): Promise<void> => {
      clock.advance(Math.max(0, hours * hour - clock.elapsed()))
      archive.serve(await archive.ofDay(hours, { byHash: true, undated }))
    }
    await publish(0)
    await archive.update()
    for (const hours of [1, 2, 3]) {
      await publish(hours)
      t.strictSame(await archive.update(), { day: '0', fits: true })
    }
    await ask(archive, { do: 'release', by: 'ann' })
    await archive.settle()
    for (let update = 0; update < 3; update += 1) {
      t.strictSame(await archive.update(), { day: '3', fits: true }, `update ${update}`)
    }
    await archive.cache.restart()
    t.strictSame(await archive.update(), { day: '3', fits: true }, 'after a restart')
    await publish(4)
    t.strictSame(await archive.update(), { day: '3', fits: true }, 'the next one waits')
    await publish(29)
    await archive.until('4', t)
  })
}

t.test('all are let through until a moment', async t => {
  const archive = await delayed(t, { delay: '24h', hold: '2024-12-31' })
  await publishAt(archive, 0)
  await archive.update()
  await publishAt(archive, 1)
  t.strictSame(await archive.update(), { day: '0', fits: true })
  const until = begin + 10 * hour
  t.match(await ask(archive, { do: 'release', until, by: 'bob' }), { code: 0, out: /open until/ })
  await archive.settle()
  t.strictSame(await archive.update(), { day: '1', fits: true })
  await archive.cache.restart()
  await publishAt(archive, 9)
  await archive.until('9', t)
  await publishAt(archive, 11)
  t.strictSame(await archive.update(), { day: '9', fits: true })
  archive.clock.set(begin)
  t.strictSame(await archive.update(), { day: '9', fits: true }, 'a clock that is set back')
})

t.test('what waits is shown', async t => {
  const archive = await delayed(t, { delay: '24h' })
  const { cache, origin, release } = archive
  await publishAt(archive, 0)
  await archive.update()
  const page = async () => (await cache.get('/_cachesvc/cache')).text
  t.match(
    await page(),
    /Delayed: delay of 1d; clients get the first one seen; no newer one is waiting/,
  )
  await publishAt(archive, 5)
  await archive.update()
  await page()
  await cache.until(
    async () => /the newest changes/.test(await page()),
    () => false,
  )
  const words =
    /that of 2025-01-01 05:00 UTC waits, first seen .* ago, to be given in (1 day|2[34] )/
  t.match(await page(), words)
  t.match(await page(), /the newest changes 0 packages, 0 new and 0 gone among them/)
  const { text } = await cache.get(
    `/_cachesvc/explain?url=${encodeURIComponent(origin.url(`/${release}`))}`,
  )
  t.match(text, words)
  t.match(await ask(archive, { do: 'status' }), { out: /Delayed +http.*stable: delay of 1d/ })
  t.match(await ask(archive, { do: 'status', json: true }), { out: /"because": "delayed"/ })
  t.equal(await cache.metric('cachesvc_waiting_generations'), 1)
  let threads = 0
  const onThread = (): void => {
    threads += 1
  }
  process.on('worker', onThread)
  t.teardown(() => process.off('worker', onThread))
  t.match(await ask(archive, { do: 'changes' }), {
    code: 0,
    out: /stable: that of 2025-01-01 05:00.* waits and changes 0 packages\n/,
  })
  t.equal(threads, 1, 'the indexes are read in a thread, so that clients do not wait')
  t.match(await ask(archive, { do: 'changes', json: true }), { out: /"changes": \[\]/ })
})

t.test('what cannot be done', async t => {
  const archive = await delayed(t, { delay: '24h' })
  await publishAt(archive, 0)
  t.match(await ask(archive, { do: 'release' }), {
    code: 1,
    complaints: [/no suite of .* is known/],
  })
  await archive.update()
  const cases: ReadonlyArray<readonly [object, RegExp]> = [
    [{ do: 'release', suites: ['sid'] }, /known are stable/],
    [{ do: 'changes', of: 'nowhere.example.org' }, /no suite of nowhere/],
    [{ do: 'release', until: begin - 1 }, /is past/],
  ]
  for (const [request, words] of cases) {
    t.match(await ask(archive, request), { complaints: [words] })
  }
  t.match(await ask(archive, { do: 'changes', suites: ['stable'] }), {
    code: 0,
    out: /nothing waits/,
  })
  const origins = [`127.0.0.1:${archive.origin.port}/debian`]
  await archive.cache.reload({ archives: [{ origins }], verification: { interval: '0s' } })
  t.match(await ask(archive, { do: 'release' }), { complaints: [/no delay and no hold/] })
})
