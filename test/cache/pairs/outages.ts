/**
 * What is given while no origin is asked, together with the places where content is besides.
 */
import t from 'tap'
import { changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { startNodes } from '../../fixtures/features/shared/nodes.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'

t.setTimeout(120_000)

const hour = 3_600_000

t.test('offline, what only the bucket has is 504, and what is stored is given', async t => {
  const { origin, bucket, nodes } = await startNodes(t, { count: 2 })
  const [one, two] = nodes
  if (one === undefined || two === undefined) throw new Error('no node')
  const [mine, other] = ['/debian/pool/mine_1_all.deb', '/debian/pool/other_1_all.deb']
  for (const path of [mine, other]) origin.at(path, file({ content: path, etag: '"1"' }))
  await one.cache.warm(origin.url(other))
  await two.cache.warm(origin.url(mine))
  await one.cache.until(() => bucket.entries.size === 2)
  const asked = origin.requests.length
  await two.cache.reload({ offline: true })
  t.match(await two.cache.get(origin.url(mine)), { status: 200, text: mine })
  t.equal((await two.cache.get(origin.url(other))).status, 504)
  t.equal(origin.requests.length, asked)
})

t.test('offline, a snapshot of a day has what is stored of it', async t => {
  const settings = { suites: { snapshot_days: 30 }, verification: { interval: '0s' } }
  const archive = (await changingArchives(t, { settings }))('debian')
  const { cache, origin, clock } = archive
  for (const day of [1, 2]) {
    archive.serve(await archive.ofDay(day, { byHash: true }))
    await archive.until(`${day}`, t)
    clock.advance(30 * hour)
  }
  await cache.reload({ freshness: { floor: '0s' }, ...settings, offline: true })
  const asked = origin.requests.length
  const asOf = async (path: string) =>
    cache.get(`/_cachesvc/snapshot/2025-03-14/127.0.0.1:${origin.port}/${path}`)
  const release = await asOf(archive.release)
  t.match(release.text, /^Version: 1$/m)
  const index = await asOf(archive.index)
  const { createHash } = await import('node:crypto')
  t.ok(release.text.includes(createHash('sha256').update(index.content).digest('hex')))
  t.equal((await asOf('debian/pool/main/p/p_1_all.deb')).status, 504, 'what is not stored is said')
  t.equal(origin.requests.length, asked)
})

t.test('offline, an index is given by its digest that is stored by its name alone', async t => {
  const archive = (await changingArchives(t, { archives: {} }))('debian')
  const { cache, origin } = archive
  const files = await archive.ofDay(1)
  archive.serve(files)
  await archive.until('1', t)
  await cache.reload({ freshness: { floor: '0s' }, offline: true })
  const asked = origin.requests.length
  const index = files.get(archive.index) ?? Buffer.alloc(0)
  const answer = await archive.get(archive.hashed(index))
  t.equal(answer.status, 200)
  t.ok(answer.content.equals(index))
  t.equal(origin.requests.length, asked)
})
