import { cp, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import { seeded } from '../../../fixtures/chance/seeded-random.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import {
  all,
  keyOf,
  keysOf,
  numbered,
  openJournal,
  openReader,
} from '../../../fixtures/store/journal.ts'
import { sha256, until } from '../../../fixtures/store/opened.ts'

const keys = (numbers: Iterable<number>) => [...numbers].map(keyOf).sort()

t.test('what is live comes through with its last use, what is dead does not', async t => {
  const { journal, layout, clock } = await openJournal(t)
  for (let round = 0; round < 5; round += 1) {
    for (let n = 0; n < 500; n += 1) journal.put(numbered(n, { validated: round }))
    await journal.flush()
  }
  clock.advance(7 * 3_600_000)
  journal.touch(keyOf(7))
  for (let n = 100; n < 500; n += 1) journal.remove(keyOf(n))
  await journal.flush()
  const before = (await stat(layout.log)).size
  await journal.compact()
  t.ok((await stat(layout.log)).size < before / 15)
  t.equal(journal.position, (await stat(layout.log)).size)
  const found = async (from: typeof journal) =>
    (await all(from.walk())).sort((a, b) => a.key.localeCompare(b.key))
  const now = await found(journal)
  t.equal(now.length, 100)
  t.ok(now.every(one => one.validated === 4))
  t.equal(now.find(({ key }) => key === keyOf(7))?.lastUsed, clock.now())
  const text = await readFile(layout.log, 'utf8')
  t.notMatch(text, /"gone"|"uses"/)
  for (const damaged of [false, true]) {
    if (damaged) await writeFile(layout.snapshot, '')
    const { journal: again } = await openJournal(t, layout)
    t.strictSame(await found(again), now)
    for (const { key, lastUsed, ...entry } of now) t.match(await again.get(key), entry)
  }
})

t.test('it goes on while entries come and go', async t => {
  for (let seed = 1; seed <= 6; seed += 1) {
    const directory = join(t.testdir({}), String(seed))
    const { journal, layout } = await openJournal(t, { directory })
    const chance = seeded(seed)
    const plain = new Map<number, number>()
    const step = () => {
      const n = chance.below(4000)
      if (chance.below(3) === 0) {
        plain.delete(n)
        journal.remove(keyOf(n))
      } else {
        const validated = chance.below(1e9)
        plain.set(n, validated)
        journal.put(numbered(n, { validated }))
      }
    }
    for (let n = 0; n < 8000; n += 1) step()
    await journal.flush()
    let done = false
    const compacting = journal.compact().then(() => {
      done = true
    })
    while (!done) {
      for (let n = chance.below(200); n > 0; n -= 1) step()
      if (chance.below(3) === 0) await journal.flush()
      await new Promise(resolve => setImmediate(resolve))
    }
    await compacting
    for (let n = 0; n < 100; n += 1) step()
    const same = async (from: typeof journal, what: string) => {
      const found = (await all(from.walk())).map(({ key, validated }) => [key, validated])
      t.strictSame(
        new Map(found as [string, number][]),
        new Map([...plain].map(([n, v]) => [keyOf(n), v])),
        what,
      )
      t.equal(found.length, plain.size)
    }
    await same(journal, 'in memory')
    await journal.flush()
    await same((await openJournal(t, layout)).journal, 'with the snapshot')
    await writeFile(layout.snapshot, '')
    await same((await openJournal(t, layout)).journal, 'from the log alone')
  }
})

t.test('killed between any two steps it loses nothing', async t => {
  const { journal, layout } = await openJournal(t)
  for (let round = 0; round < 3; round += 1) {
    for (let n = 0; n < 50; n += 1) journal.put(numbered(n, { validated: round }))
    await journal.flush()
  }
  for (let n = 40; n < 50; n += 1) journal.remove(keyOf(n))
  await journal.close()
  const live = Array.from({ length: 40 }, (_, n) => n)
  let steps = 0
  for (let last = 1; ; last += 1) {
    const directory = join(t.testdirName, `killed-${last}`)
    await cp(layout.root, join(directory, basename(layout.root)), { recursive: true })
    const scripted = scriptedFiles()
    const { journal: dying } = await openJournal(t, { directory, files: scripted.files })
    scripted.calls.length = 0
    // From here on the process is as good as dead: nothing it asks for is done.
    scripted.decide = (_call, _about, count) => (count > last ? 'hang' : 'done')
    let done = false
    void dying.compact().then(() => {
      done = true
    })
    await until(() => done || scripted.calls.length > last)
    const { journal: next } = await openJournal(t, { directory })
    t.strictSame(await keysOf(next), keys(live), `after step ${last}`)
    t.ok((await all(next.walk())).every(({ validated }) => validated === 2))
    if (done) break
    steps += 1
  }
  t.ok(steps > 10, `${steps} steps`)
})

t.test('every step at which the disk can fail leaves the old log', async t => {
  const scripted = scriptedFiles()
  const { journal, layout } = await openJournal(t, { files: scripted.files })
  for (let n = 0; n < 50; n += 1) journal.put(numbered(n))
  await journal.flush()
  const unproven = [sha256(Buffer.from('x'))]
  await journal.mark({ durable: journal.position, unproven, clean: false })
  let failures = 0
  for (let at = 1; ; at += 1) {
    const from = scripted.calls.length
    scripted.decide = (call, _about, count) =>
      count === from + at && call !== 'close' ? { code: 'ENOSPC' } : 'done'
    const failed = await journal.compact().then(
      () => false,
      () => true,
    )
    scripted.decide = () => 'done'
    if (failed) failures += 1
    journal.put(numbered(100 + at))
    await journal.flush()
    t.equal((await openJournal(t, layout)).journal.table.count, 50 + at, `step ${at}`)
    if (scripted.calls.length - from < at) break
  }
  t.ok(failures > 5)
  t.strictSame(journal.durable.unproven, unproven)
})

t.test('content that was durable stays so, and what came later does not become it', async t => {
  const { journal, layout } = await openJournal(t)
  for (let n = 0; n < 20; n += 1) journal.put(numbered(n))
  await journal.flush()
  for (let n = 0; n < 10; n += 1) journal.put(numbered(n, { validated: 1 }))
  await journal.flush()
  await journal.mark({ durable: journal.position, unproven: [], clean: false })
  journal.put(numbered(30))
  await journal.flush()
  await journal.compact()
  const proven = (from: typeof journal) =>
    [...from.table.rows()].filter(row => from.table.offset(row) < from.durable.durable).length
  t.equal(proven(journal), 20)
  await writeFile(layout.snapshot, '')
  const { journal: again } = await openJournal(t, layout)
  t.equal(proven(again), 20)
})

t.test(
  'a log is compacted when more than half of it is dead, and not while it is being read',
  async t => {
    const { journal, layout } = await openJournal(t)
    const fields: [string, string][] = [['X-Long', 'x'.repeat(2000)]]
    for (let round = 0; round < 6; round += 1) {
      for (let n = 0; n < 1000; n += 1) journal.put(numbered(n, { fields, validated: round }))
      await journal.flush()
      await journal.tidy()
    }
    const { size } = await stat(layout.log)
    t.ok(size < 9_000_000, `${size} bytes`)
    for (let n = 0; n < 900; n += 1) journal.remove(keyOf(n))
    await journal.flush()
    const walk = journal.walk()
    await walk.next()
    await journal.compact()
    t.ok((await stat(layout.log)).size >= size)
    await walk.return(undefined)
    await journal.compact()
    t.ok((await stat(layout.log)).size < size / 10)
  },
)

t.test('after a failed flush only a log that was written anew is marked', async t => {
  const scripted = scriptedFiles()
  const { journal, layout } = await openJournal(t, { files: scripted.files })
  journal.put(numbered(1))
  await journal.flush()
  const durable = { durable: journal.position, unproven: [], clean: false }
  const { ino } = await stat(layout.log)
  scripted.decide = call => (call === 'fdatasync' ? { code: 'EIO' } : 'done')
  await t.rejects(journal.mark(durable), { code: 'EIO' })
  scripted.decide = () => 'done'
  await t.rejects(journal.mark(durable), { message: /could not be flushed/ })
  await journal.tidy()
  t.not((await stat(layout.log)).ino, ino)
  await journal.mark({ ...durable, durable: journal.position })
  await journal.close()
  t.strictSame(await (await openReader(t.testdirName)).get(keyOf(1)), numbered(1))
})

t.test('an entry whose line was damaged goes with the old log', async t => {
  const { journal, layout, freed } = await openJournal(t)
  for (let n = 0; n < 3; n += 1) journal.put(numbered(n))
  await journal.flush()
  const text = await readFile(layout.log)
  text.fill(0, text.indexOf(keyOf(1)), text.indexOf(keyOf(1)) + 5)
  await writeFile(layout.log, text)
  await journal.compact()
  t.equal(journal.table.count, 2)
  t.equal(journal.peek(keyOf(1)), undefined)
  t.strictSame(freed, [numbered(1).digest])
  t.strictSame(await keysOf(journal), keys([0, 2]))
})
