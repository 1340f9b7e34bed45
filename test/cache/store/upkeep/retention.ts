import { readdir, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { ManualClock } from '../../../../lib/async/clock.ts'
import { temporaryPrefix } from '../../../../lib/atomic-file.ts'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import { Marks, Naming, scheduleSweeps } from '../../../../lib/cache/store/upkeep/retention.ts'
import { createMemoryLog } from '../../../../lib/log/log.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  keep,
  opened,
  until,
} from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'
const day = 86_400_000

/** Makes a file look as if it had been written so long ago. */
async function age(path: string, now: number, by: number): Promise<void> {
  const moment = new Date(now - by)
  await utimes(path, moment, moment)
}

t.test('what nobody used for long goes, with its content if nobody else names it', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  await store.counted()
  const shared = bytesOf(1000)
  const alone = await keep(store, `${key}?alone`, bytesOf(700))
  const old = await keep(store, `${key}?old`, shared)
  const young = await keep(store, `${key}?young`, shared)
  for (const one of [alone, old]) await age(layout.entry(one.key), clock.now(), 31 * day)
  for (const one of [alone, old]) await age(layout.blob(one.digest), clock.now(), 31 * day)
  t.strictSame(await store.sweep({ unusedDays: 30, now: clock.now() }), {
    entriesKept: 1,
    entriesRemoved: 2,
    blobsKept: 1,
    blobsRemoved: 1,
    bytesFreed: 700,
    leftoversRemoved: 0,
  })
  t.equal(await store.get(old.key), undefined)
  t.strictSame(await store.get(young.key), young)
  t.ok((await contentBytes(await store.content(young)))?.equals(shared))
  t.match(await store.usage(), { objects: 1, blobs: 1, bytes: 1000 })
})

t.test('a use that is not yet on disk counts', async t => {
  const { store, directory, clock } = await opened(t)
  const entry = await keep(store, key, bytesOf(10))
  await age(new Layout(directory).entry(key), clock.now(), 31 * day)
  clock.advance(day)
  store.touch(key)
  t.match(await store.sweep({ unusedDays: 30, now: clock.now() }), { entriesKept: 1 })
  t.strictSame(await store.get(key), entry)
})

t.test('zero days keep entries for ever', async t => {
  const { store, directory, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  await age(new Layout(directory).entry(key), clock.now(), 3000 * day)
  t.match(await store.sweep({ unusedDays: 0, now: clock.now() }), {
    entriesKept: 1,
    blobsKept: 1,
  })
})

t.test('temporary files of entries go when they are old; foreign files stay', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const entry = await keep(store, key, bytesOf(10))
  const shelf = dirname(layout.entry(key))
  const [old, young] = [join(shelf, `${temporaryPrefix}1-x`), join(shelf, `${temporaryPrefix}2-x`)]
  const foreign = join(dirname(layout.blob(entry.digest)), 'README')
  for (const path of [old, young, foreign]) await writeFile(path, '')
  for (const path of [old, foreign]) await age(path, clock.now(), day)
  t.match(await store.sweep({ unusedDays: 30, now: clock.now() }), { leftoversRemoved: 1 })
  t.notOk((await readdir(shelf)).includes(`${temporaryPrefix}1-x`))
  t.ok(await stat(young))
  t.ok(await stat(foreign))
})

t.test('an entry written during a sweep keeps an old content alive', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  // Old contents nobody names, and for each an entry that begins to name it at some moment of the sweep.
  const contents = Array.from({ length: 60 }, () => bytesOf(100))
  for (const content of contents) {
    const entry = await keep(store, key, content)
    await age(layout.blob(entry.digest), clock.now(), day)
  }
  await store.remove(key)
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  const named: string[] = []
  for (const [n, content] of contents.entries()) {
    const { stored } = await store.put(entryOf(`${key}/${n}`, content))
    if (stored) named.push(`${key}/${n}`)
  }
  const swept = await sweeping
  for (const one of named) {
    const entry = await store.get(one)
    t.ok(entry !== undefined && (await store.content(entry)) !== undefined, one)
  }
  t.equal(swept.blobsRemoved, contents.length - named.length, 'the others were gone before')
})

t.test('a commit during a sweep keeps its content', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const contents = Array.from({ length: 30 }, () => bytesOf(100))
  for (const content of contents) {
    const entry = await keep(store, key, content)
    await age(layout.blob(entry.digest), clock.now(), day)
  }
  await store.remove(key)
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  const entries = await Promise.all(contents.map((one, n) => keep(store, `${key}/${n}`, one)))
  await sweeping
  for (const entry of entries) t.ok(await store.content(entry))
})

t.test('a sweep that is told to stop stops', async t => {
  const { store, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  const signal = AbortSignal.abort(new Error('later'))
  const swept = store.sweep({ unusedDays: 30, now: clock.now(), signal })
  await t.rejects(swept, { message: 'later' })
})

t.test('sweeps come every day, after a failed one too, until they are stopped', async t => {
  const clock = new ManualClock(0)
  const log = createMemoryLog()
  const runs: number[] = []
  const nothing = {
    entriesKept: 0,
    entriesRemoved: 0,
    blobsKept: 0,
    blobsRemoved: 0,
    bytesFreed: 0,
    leftoversRemoved: 0,
  }
  const stop = scheduleSweeps(
    async () => {
      runs.push(clock.now())
      if (runs.length === 2) throw new Error('the disk is busy')
      return nothing
    },
    { clock, log },
  )
  for (let n = 0; n < 3; n += 1) {
    clock.advance(day)
    await until(() => log.lines.length === n + 1)
    await new Promise(resolve => setImmediate(resolve))
  }
  t.strictSame(runs, [15 * 60_000, 2 * day, 3 * day])
  t.match(log.lines[1], { level: 'warn', facts: { because: 'the disk is busy' } })
  stop()
  clock.advance(10 * day)
  t.equal(runs.length, 3)
})

t.test('the daily sweep of a store asks for the days anew', async t => {
  const { store, directory, clock, log } = await opened(t)
  await keep(store, key, bytesOf(10))
  await age(new Layout(directory).entry(key), clock.now(), 40 * day)
  let days = 0
  store.sweepDaily(() => days)
  clock.advance(15 * 60_000)
  await until(() => log.lines.some(line => line.message === 'retention: swept'))
  t.ok(await store.get(key))
  days = 30
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(day)
  await until(async () => (await store.get(key)) === undefined)
})

t.test('marks cover whoever is writing when a sweep begins', t => {
  const naming = new Naming()
  const digest = 'ab'.repeat(32)
  const done = naming.start(digest)
  const again = naming.start(digest)
  done()
  t.ok(naming.begin().has(digest), 'still being written by the other')
  again()
  const marks = naming.begin()
  t.notOk(marks.has(digest))
  naming.start(digest)
  t.ok(marks.has(digest))
  naming.end(marks)
  naming.start('cd'.repeat(32))
  t.notOk(marks.has('cd'.repeat(32)))
  t.notOk(new Marks().has(digest))
  t.end()
})
