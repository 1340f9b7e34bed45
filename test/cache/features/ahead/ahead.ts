/**
 * Warm upgrades: what is fetched ahead of requests once a suite has a new generation, and what is not.
 */
import t, { type Test } from 'tap'
import {
  type ChangingArchive,
  type ChangingOptions,
  changingArchive,
} from '../../../fixtures/archive/changing-archive.ts'
import { reply } from '../../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../../fixtures/time/gate.ts'

t.setTimeout(600_000)

const hour = 3600 * 1000
const warm = { days: 7, files: 100, size: '1M' }

/** An archive and a cache that fetches ahead. */
async function archiveWith(
  t: Test,
  { settings = {}, ...options }: ChangingOptions = {},
): Promise<ChangingArchive> {
  return changingArchive(t, {
    ...options,
    settings: { suites: { warm }, verification: { interval: '0s' }, ...settings },
  })
}

/** Packages q to x of a version, by their paths. */
function others(version: number, names = 'qrstuvwx'): Record<string, string> {
  const path = (name: string): string => `pool/main/${name}/${name}_${version}_all.deb`
  return Object.fromEntries([...names].map(name => [path(name), `${name} ${version}`]))
}

/** What the origin was asked for below pool/. */
function asked({ origin, root }: ChangingArchive, name: string, version: number): number {
  return origin.seen(`/${root}/pool/main/${name}/${name}_${version}_all.deb`).length
}

/**
 * Waits until it is so. The clock goes 25 times as fast as time, and no faster: a thread has to begin, and a client to be answered,
 * before their own time is over.
 */
async function slowly(
  { clock }: ChangingArchive,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + 60_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`it never came about: ${condition}`)
    clock.advance(500)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** The facts of the lines that end a run, waiting for as many. */
async function ended(archive: ChangingArchive, count = 1) {
  const found = () =>
    archive.cache.log.lines.filter(({ message }) => message === 'fetched packages ahead')
  await slowly(archive, () => found().length >= count)
  return found().map(({ facts }) => facts)
}

t.test('packages that clients asked for come in their new versions, and no others', async t => {
  const archive = await archiveWith(t)
  const { cache, origin, root } = archive
  archive.serve(await archive.ofDay(1, { packages: others(1) }))
  await archive.update()
  await archive.get(`${root}/pool/main/p/p_1_all.deb`)
  await archive.get(`${root}/pool/main/q/q_1_all.deb`)
  await archive.settle()
  archive.serve(await archive.ofDay(2, { packages: others(2) }))
  await archive.until('2', t)
  t.match(await ended(archive), [{ used: 2, newer: 2, fetched: 2, failed: 0, left: 0 }])
  t.equal(asked(archive, 'r', 2), 0, 'not asked for before')
  for (const name of ['p', 'q']) {
    t.equal(asked(archive, name, 2), 1)
    const answer = await archive.get(`${root}/pool/main/${name}/${name}_2_all.deb`)
    t.equal(answer.fields.get('X-Cache'), 'HIT')
    t.match(answer.fields.get('Cache-Status'), /verified/)
    t.equal(asked(archive, name, 2), 1)
  }
  const { text } = await cache.get('/_cachesvc/metrics')
  t.match(text, 'cachesvc_fetched_ahead_total{result="fetched"} 2')
  t.match(text, /cachesvc_fetched_ahead_bytes_total [1-9]/)
  t.equal(origin.seen(`/${root}/pool/main/p/p_1_all.deb`).length, 1)
})

t.test('what no client asks for any more is not fetched for ever', async t => {
  const archive = await archiveWith(t, { settings: { suites: { warm: { ...warm, days: 1 } } } })
  const { root, clock } = archive
  archive.serve(await archive.ofDay(1))
  await archive.update()
  await archive.get(`${root}/pool/main/p/p_1_all.deb`)
  await archive.settle()
  for (const number of [2, 3]) {
    clock.advance(10 * hour)
    archive.serve(await archive.ofDay(number))
    await archive.until(`${number}`, t)
    await ended(archive, number - 1)
    t.equal(asked(archive, 'p', number), 1, `day ${number}`)
  }
  // Only by being fetched ahead was it used in the last day.
  clock.advance(10 * hour)
  archive.serve(await archive.ofDay(4))
  await archive.until('4', t)
  clock.advance(60_000)
  await archive.settle()
  t.equal(asked(archive, 'p', 4), 0)
})

t.test('what a client gets while it is fetched ahead was used then', async t => {
  const archive = await archiveWith(t, { settings: { suites: { warm: { ...warm, days: 1 } } } })
  const { root, clock, cache, origin } = archive
  archive.serve(await archive.ofDay(1))
  await archive.update()
  await archive.get(`${root}/pool/main/p/p_1_all.deb`)
  await archive.settle()
  clock.advance(10 * hour)
  const [path, content] = ['pool/main/p/p_2_all.deb', '2'.repeat(200_000)]
  archive.serve(await archive.ofDay(2, { packages: { [path]: content } }))
  const gate = new Gate()
  origin.at(`/${root}/${path}`, reply({ content, pauses: [{ at: 100_000, gate }] }))
  await archive.until('2', t)
  await slowly(archive, () => asked(archive, 'p', 2) > 0)
  const client = await cache.client()
  await client.request('GET', origin.url(`/${root}/${path}`))
  t.match(await client.head(), { status: 200 })
  gate.open()
  await ended(archive)
  clock.advance(10 * hour)
  archive.serve(await archive.ofDay(3))
  await archive.until('3', t)
  await ended(archive, 2)
  // More than a day after the first version was used, less than a day after the second.
  clock.advance(12 * hour)
  archive.serve(await archive.ofDay(4))
  await archive.until('4', t)
  t.match(await ended(archive, 3), [{ fetched: 1 }, { fetched: 1 }, { fetched: 1 }])
})

t.test('off unless asked for, and offline', async t => {
  for (const settings of [{ suites: {} }, { offline: true }]) {
    const archive = await archiveWith(t)
    const { cache, origin, root } = archive
    archive.serve(await archive.ofDay(1))
    await archive.update()
    await archive.get(`${root}/pool/main/p/p_1_all.deb`)
    await archive.settle()
    const next = await archive.ofDay(2)
    archive.serve(next)
    const domains = { domains: [`127.0.0.1:${origin.port}`] }
    if ('suites' in settings) {
      await cache.reload({ ...domains, ...settings, freshness: { floor: '0s' } })
      await archive.until('2', t)
      await archive.settle()
    }
    t.equal(asked(archive, 'p', 2), 0)
  }
})

t.test('files and bytes have a limit for each day', async t => {
  const cases = [
    { limit: { ...warm, files: 3 }, fetched: 3 },
    { limit: { ...warm, size: '1M' }, fetched: 2, large: true },
  ]
  for (const { limit, fetched, large } of cases) {
    const archive = await archiveWith(t, { settings: { suites: { warm: limit } } })
    const { root, clock } = archive
    const pad = large ? 'x'.repeat(400_000) : ''
    const padded = (version: number): Record<string, string> =>
      Object.fromEntries(
        Object.entries(others(version)).map(([path, content]) => [path, content + pad]),
      )
    archive.serve(await archive.ofDay(1, { packages: padded(1) }))
    await archive.update()
    for (const path of Object.keys(others(1))) {
      await archive.get(`${root}/${path}`)
      // A file was used first when it was stored.
      await archive.cache.quiet()
      clock.advance(1000)
    }
    await archive.settle()
    archive.serve(await archive.ofDay(2, { packages: padded(2) }))
    await archive.until('2', t)
    t.match(await ended(archive), [{ used: 8, newer: 8, fetched, left: 8 - fetched }])
    t.equal(asked(archive, 'x', 2), 1, 'those used last come first')
    archive.serve(await archive.ofDay(3, { packages: padded(3) }))
    await archive.until('3', t)
    t.match((await ended(archive, 2)).at(-1), { fetched: 0 }, 'the same day')
    if (large) continue
    clock.advance(24 * hour)
    archive.serve(await archive.ofDay(4, { packages: padded(4) }))
    await archive.until('4', t)
    t.match((await ended(archive, 3)).at(-1), { fetched }, 'the next day')
  }
})

t.test('an origin that fails is left alone after a while', async t => {
  const archive = await archiveWith(t)
  const { root } = archive
  archive.serve(await archive.ofDay(1, { packages: others(1) }))
  await archive.update()
  for (const path of Object.keys(others(1))) await archive.get(`${root}/${path}`)
  await archive.settle()
  const next = await archive.ofDay(2, { packages: others(2) })
  archive.serve(next, path => !path.includes('/pool/'))
  await archive.until('2', t)
  t.match(await ended(archive), [{ newer: 8, fetched: 0, failed: 5, left: 3 }])
})

t.test(
  'nothing is begun while a client waits for a file, and what it waits for comes first',
  async t => {
    const archive = await archiveWith(t, {
      settings: {
        suites: { warm },
        timeouts: { content: '10m', client_stalled: '1h', client_idle: '1h' },
      },
    })
    const { cache, clock, origin, root } = archive
    archive.serve(await archive.ofDay(1))
    await archive.update()
    await archive.get(`${root}/pool/main/p/p_1_all.deb`)
    await archive.settle()
    const gate = new Gate()
    const slow = `/${root}/pool/main/s/slow_1_all.deb`
    origin.at(slow, async answer => {
      await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n!<arch>\n')
      await gate.pass()
      await answer.write('b')
    })
    const client = archive.get(slow.slice(1))
    await origin.arrived(slow)
    archive.serve(await archive.ofDay(2))
    await slowly(archive, async () => {
      return (await archive.get(archive.release)).text.includes('Version: 2')
    })
    await slowly(archive, () => {
      return cache.log.lines.some(({ message }) => /were found/.test(message))
    })
    for (let look = 0; look < 50; look += 1) {
      clock.advance(100)
      await new Promise(resolve => setImmediate(resolve))
    }
    t.equal(asked(archive, 'p', 2), 0)
    gate.open()
    t.equal((await client).text, '!<arch>\nb')
    t.match(await ended(archive), [{ fetched: 1 }])
  },
)
