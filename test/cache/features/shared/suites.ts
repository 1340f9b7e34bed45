/**
 * Suites at several nodes with one bucket: all give the generation that the newest pointer names, verified by each of them.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { asked, ChangingArchive } from '../../../fixtures/archive/changing-archive.ts'
import { type Node, type Nodes, startNodes } from '../../../fixtures/features/shared/nodes.ts'
import type { RawResponse } from '../../../fixtures/http/raw-client.ts'
import { reply } from '../../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.setTimeout(300_000)

interface Lab extends Omit<Nodes, 'clock'> {
  readonly archives: readonly ChangingArchive[]
  readonly clock: ManualClock
  readonly archiveAt: (node: Node) => ChangingArchive
}

async function lab(t: Test, count: number, settings: object = {}): Promise<Lab> {
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const all = await startNodes(t, {
    count,
    clock,
    settings: { freshness: { floor: '0s' }, ...settings },
  })
  const { origin } = all
  const archiveAt = ({ cache }: Node) =>
    new ChangingArchive({ origin, cache, clock, root: 'debian' })
  return { ...all, clock, archives: all.nodes.map(archiveAt), archiveAt }
}

function nth<T>(list: readonly T[], i: number): T {
  const found = list[i]
  if (found === undefined) throw new Error('no such node')
  return found
}

/** The Release file as a client gets it that has no reason to insist. */
function given(archive: ChangingArchive): Promise<RawResponse> {
  return archive.cache.get(archive.origin.url(`/${archive.release}`))
}

function dayOf({ text }: RawResponse): string {
  return /^Version: (\d+)/m.exec(text)?.[1] ?? text
}

function idOf({ origin, suite }: ChangingArchive): string {
  return createHash('sha256')
    .update(origin.url(`/${suite}`))
    .digest('hex')
}

t.test(
  'a node gives the generation that another has adopted, without asking the origin',
  async t => {
    const { archives, origin, bucket } = await lab(t, 2)
    const [one, two] = [nth(archives, 0), nth(archives, 1)]
    one.serve(await one.ofDay(1, { byHash: true }))
    for (const archive of archives) t.strictSame(await archive.update(), { day: '1', fits: true })
    const second = await one.ofDay(2, { byHash: true })
    one.serve(second)
    t.strictSame(await one.update(), { day: '2', fits: true })
    t.equal(bucket.suites.get(idOf(one))?.date, Date.UTC(2025, 0, 1, 2))
    const before = origin.requests.length
    for (const file of second.keys()) origin.at(`/${file}`, reply({ status: 503 }))
    t.equal(dayOf(await given(two)), '2')
    const index = second.get(one.index) ?? Buffer.alloc(0)
    t.ok((await two.get(two.hashed(index))).content.equals(index))
    t.equal(origin.requests.length, before)
  },
)

t.test('an empty node with the origin down gives what the others had', async t => {
  const all = await lab(t, 2)
  const { archives, origin, bucket } = all
  const one = nth(archives, 0)
  const files = await one.ofDay(1, { byHash: true })
  one.serve(files)
  await one.update()
  const [name = ''] = [...files.keys()].filter(file => file.includes('/pool/'))
  await one.get(name)
  await one.settle()
  await one.cache.until(() => bucket.entries.has(origin.url(`/${name}`)) && bucket.suites.size > 0)
  for (const file of files.keys()) origin.at(`/${file}`, answer => answer.reset())
  const third = all.archiveAt(await all.add())
  t.strictSame(await third.update(), { day: '1', fits: true })
  t.equal((await third.get(name)).text, 'content 1 of debian')
  const index = files.get(one.index) ?? Buffer.alloc(0)
  t.ok((await third.get(third.hashed(index))).content.equals(index))
})

t.test('an origin that goes back is judged against the pointer', async t => {
  const { archives } = await lab(t, 2)
  const [one, two] = [nth(archives, 0), nth(archives, 1)]
  one.serve(await one.ofDay(1, { byHash: true }))
  for (const archive of archives) await archive.update()
  one.serve(await one.ofDay(3, { byHash: true }))
  await one.update()
  one.serve(await one.ofDay(2, { byHash: true }))
  t.strictSame(await two.update(), { day: '3', fits: true })
  t.strictSame(await two.update(), { day: '3', fits: true })
})

t.test(
  'a pointer that names no Release file is not followed, and does not stop updates',
  async t => {
    const { archives, bucket } = await lab(t, 2)
    const [one, two] = [nth(archives, 0), nth(archives, 1)]
    one.serve(await one.ofDay(1, { byHash: true }))
    for (const archive of archives) await archive.update()
    const pointer = bucket.suites.get(idOf(one))
    if (pointer === undefined) throw new Error('nothing points to the suite')
    const garbage = Buffer.from('Suite: other\n')
    const digest = createHash('sha256').update(garbage).digest('hex')
    bucket.blobs.set(digest, garbage)
    const date = Date.UTC(2099, 0)
    const release = pointer.release.map(entry => ({ ...entry, digest, size: garbage.length }))
    bucket.suites.set(idOf(one), { ...pointer, release, date, etag: '"hostile"' })
    t.strictSame(await two.update(), { day: '1', fits: true })
    two.serve(await two.ofDay(2, { byHash: true }))
    await two.until('2', t)
    t.equal(
      bucket.suites.get(idOf(one))?.date,
      Date.UTC(2025, 0, 1, 2),
      'the pointer is right again',
    )
    t.equal(dayOf(await given(one)), '2')
  },
)

t.test(
  'a pointer from the future to what is not there is left, and does not stop the next',
  async t => {
    const { archives, bucket, clock } = await lab(t, 2)
    const [one, two] = [nth(archives, 0), nth(archives, 1)]
    one.serve(await one.ofDay(1, { byHash: true }))
    for (const archive of archives) await archive.update()
    const pointer = bucket.suites.get(idOf(one))
    if (pointer === undefined) throw new Error('nothing points to the suite')
    const release = pointer.release.map(entry => ({ ...entry, digest: 'a'.repeat(64) }))
    const date = Date.UTC(2099, 0)
    bucket.suites.set(idOf(one), { ...pointer, release, date, etag: '"hostile"' })
    const questions = () => bucket.asked.filter(what => what === `blob ${'a'.repeat(64)}`).length
    for (let round = 0; round < 6; round += 1) {
      t.strictSame(await two.update(), { day: '1', fits: true })
      clock.advance(6000)
    }
    const before = questions()
    t.ok(before >= 3)
    t.strictSame(await two.update(), { day: '1', fits: true })
    t.equal(questions(), before, 'it is asked for no more')
    two.serve(await two.ofDay(2, { byHash: true }))
    await two.until('2', t)
    t.equal(bucket.suites.get(idOf(one))?.date, Date.UTC(2025, 0, 1, 2))
  },
)

t.test('a bucket that is away holds no update up', async t => {
  const { archives, bucket } = await lab(t, 1)
  const one = nth(archives, 0)
  one.serve(await one.ofDay(1))
  await one.update()
  bucket.mood = 'away'
  one.serve(await one.ofDay(2))
  t.strictSame(await one.update(), { day: '2', fits: true })
  bucket.mood = 'hangs'
  one.serve(await one.ofDay(3))
  const getting = one.cache.get(one.origin.url(`/${one.release}`), asked)
  let done = false
  void getting.finally(() => {
    done = true
  })
  await one.cache.until(() => done)
  t.match((await getting).text, /Version: [23]/)
})
