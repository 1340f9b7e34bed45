/**
 * A package about which the indexes of its suite contradict each other, and policies that change, together with other sources of content.
 */
import { join } from 'node:path'
import t from 'tap'
import { changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { disputed, disputedSuite } from '../../fixtures/archive/disputed-suite.ts'
import { TestCache } from '../../fixtures/cache/cache.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'
import { attempt } from '../../fixtures/process/command.ts'

t.setTimeout(120_000)

const [one, other] = ['main/binary-i386', 'main/binary-amd64'] as const
const both = [one, other]
const hour = 3_600_000
const program = join(import.meta.dirname, '../../../bin/cachesvc.js')

t.test(
  'an origin that cannot be asked: each client gets what its index names, or an error',
  async t => {
    for (const how of ['offline', '429', 'reset'] as const) {
      const { origin, cache, clock, has, update, gets } = await disputedSuite(t, both)
      has(one)
      await update(2, one)
      await update(4, other)
      t.match(await gets(2), { status: 200, text: `that of ${one}` })
      clock.advance(hour)
      if (how === '429') {
        origin.at('*', reply({ status: 429, fields: { 'Retry-After': '60' } }))
        origin.at(`/debian/${disputed}`, reply({ status: 429, fields: { 'Retry-After': '60' } }))
      } else origin.at(`/debian/${disputed}`, answer => answer.reset())
      if (how === 'offline') await cache.reload({ freshness: { other: '1m' }, offline: true })
      t.match(await gets(2), { status: 200, text: `that of ${one}` }, how)
      const refused = await gets(4)
      t.ok(refused.status >= 400, `${how}: ${refused.status}`)
      t.match(await gets(2), { status: 200, text: `that of ${one}` }, `${how}, still`)
    }
  },
)

t.test('with `verify: off` a disputed package is what the origin has', async t => {
  const suite = await disputedSuite(t, both)
  const { origin, cache, clock, has, update, gets } = suite
  has(one)
  await update(2, one)
  await update(4, other)
  t.equal((await gets(4)).status, 520)
  const origins = [origin.url('/debian')]
  await cache.reload({ freshness: { other: '1m' }, archives: [{ origins, verify: 'off' }] })
  for (const n of [2, 4]) t.match(await gets(n), { status: 200, text: `that of ${one}` })
  await cache.reload({ freshness: { other: '1m' } })
  await cache.until(() => cache.working.adoptions === 0)
  clock.advance(hour)
  await update(2, one)
  await update(4, other)
  t.match(await gets(2), { status: 200, text: `that of ${one}` })
  t.equal((await gets(4)).status, 520, 'compared again')
})

t.test('with `verify: off` nothing is kept of a day, which the answer says', async t => {
  const archives = { debian: { verify: 'off' } }
  const archive = (
    await changingArchives(t, { archives, settings: { suites: { snapshot_days: 30 } } })
  )('debian')
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const { cache, origin, release } = archive
  const answer = await cache.get(
    `/_cachesvc/snapshot/2025-03-14/127.0.0.1:${origin.port}/${release}`,
  )
  t.equal(answer.status, 404)
  t.match(answer.text, /Nothing is kept of this suite/)
})

t.test(
  'a snapshot has the index of its day, and a disputed package is that of a client’s index',
  async t => {
    const settings = () => ({ suites: { snapshot_days: 30 } })
    const suite = await disputedSuite(t, both, { settings })
    const { origin, cache, has, update, client } = suite
    has(one)
    await update(2, one)
    await update(4, other)
    const prefix = `/_cachesvc/snapshot/2025-03-14/127.0.0.1:${origin.port}/debian`
    const host = { Host: `127.0.0.1:${cache.port}` }
    for (const [n, status] of [
      [2, 200],
      [4, 520],
    ] as const) {
      const answer = await (await client(n)).get(`${prefix}/${disputed}`, host)
      t.equal(answer.status, status, `client ${n}`)
      if (status === 200) t.equal(answer.text, `that of ${one}`)
      await cache.quiet()
    }
  },
)

t.test('a bundle of a suite has the disputed package as far as it is stored', async t => {
  const { origin, cache, has, update, gets, url } = await disputedSuite(t, both)
  has(one)
  await update(2, one)
  await update(4, other)
  t.match(await gets(2), { status: 200 })
  await cache.stop()
  const bundle = join(t.testdir({}), 'bundle.tar')
  const run = (directory: string, ...words: readonly string[]) =>
    attempt(process.execPath, [program, '--cache-dir', directory, ...words])
  t.match(await run(cache.directory, 'export', bundle), { code: 0 })
  const elsewhere = await TestCache.start(t, { origins: [origin], settings: { offline: true } })
  await elsewhere.stop()
  t.match(await run(elsewhere.directory, 'import', bundle), { code: 0 })
  await elsewhere.restart()
  t.match(await elsewhere.get(url(disputed)), { status: 200, text: `that of ${one}` })
})
