import { appendFile, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import t from 'tap'
import { encodeRecord } from '../../../../lib/cache/store/catalogue/entry-log.ts'
import { nameOf } from '../../../../lib/cache/store/key.ts'
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

const hour = 3_600_000
const keys = (...numbers: number[]) => numbers.map(keyOf).sort()

t.test('an entry is there at once, in the log soon, and after a restart', async t => {
  const { journal, layout, clock } = await openJournal(t)
  t.equal(journal.get(keyOf(1)), undefined, 'known without the disk')
  const entry = numbered(1)
  journal.put(entry)
  t.equal(journal.peek(keyOf(1)), entry)
  t.equal(journal.get(keyOf(1)), entry)
  await journal.flush()
  await journal.close()
  const { journal: again } = await openJournal(t, layout)
  t.equal(again.peek(keyOf(1)), undefined, 'not in memory yet')
  t.strictSame(await Promise.all([again.get(keyOf(1)), again.get(keyOf(1))]), [entry, entry])
  t.strictSame(again.peek(keyOf(1)), entry)
  t.match(await all(again.walk()), [{ ...entry, lastUsed: clock.now() }])
  t.ok(again.remove(keyOf(1)))
  t.equal(again.get(keyOf(1)), undefined)
  await again.close()
  const { journal: third } = await openJournal(t, layout)
  t.equal(third.get(keyOf(1)), undefined)
})

t.test('the last of many states of one key wins, and they cost one line', async t => {
  const { journal, layout } = await openJournal(t)
  for (let n = 0; n < 20; n += 1) journal.put(numbered(1, { validated: n }))
  await journal.flush()
  t.equal((await readFile(layout.log, 'utf8')).trim().split('\n').length, 2, 'after the header')
  for (let n = 20; n < 40; n += 1) {
    journal.put(numbered(1, { validated: n }))
    if (n % 3 === 0) await journal.flush()
  }
  const { journal: again } = await openJournal(t, layout)
  t.match(await again.get(keyOf(1)), { validated: 39 })
  t.match(again.table, { count: 1, contents: 1 })
})

t.test('the digest nobody names any more is told', async t => {
  const { journal, freed } = await openJournal(t)
  const shared = Buffer.from('shared')
  const digest = sha256(shared)
  journal.put(numbered(1, { digest }))
  journal.put(numbered(2, { digest }))
  journal.put(numbered(1))
  t.strictSame(freed, [])
  t.notOk(journal.remove(keyOf(2), sha256(Buffer.from('other'))), 'it names another')
  t.ok(journal.remove(keyOf(2), digest))
  t.strictSame(freed, [digest])
  journal.put(numbered(3, { digest }))
  journal.put(numbered(4, { digest }))
  await journal.flush()
  await journal.get(keyOf(3))
  journal.removeRows(journal.table.referring(digest))
  t.strictSame(freed, [digest, digest])
  t.equal(journal.peek(keyOf(3)), undefined)
  t.strictSame(await keysOf(journal), keys(1))
})

t.test('a use is written down in batches and at most every six hours', async t => {
  const { journal, layout, clock } = await openJournal(t)
  journal.put(numbered(1))
  await journal.flush()
  const { position } = journal
  clock.advance(5 * hour)
  journal.touch(keyOf(1))
  clock.advance(60_000)
  clock.advance(hour)
  journal.touch(keyOf(1))
  journal.touch('http://archive.example.org/never-stored')
  const moment = clock.now()
  t.equal((await all(journal.walk()))[0]?.lastUsed, moment, 'known before it is written')
  const [listed] = (await all(journal.list())).flat()
  t.strictSame(Object.keys(listed ?? {}), ['key', 'size', 'digest', 'lastUsed'])
  t.equal(listed?.lastUsed, moment)
  t.equal(journal.position, position, 'not yet on disk')
  clock.advance(60_000)
  await until(() => journal.position > position)
  const { journal: again, clock: later } = await openJournal(t, layout)
  t.equal((await all(again.walk()))[0]?.lastUsed, moment)
  const written = journal.position
  clock.advance(6 * hour)
  journal.touch(keyOf(1))
  clock.advance(60_000)
  await until(() => journal.position > written)
  later.set(moment + hour)
  const before = again.position
  again.touch(keyOf(1))
  await again.flush()
  t.equal(again.position, before, 'a restart does not forget when it was used')
})

t.test('damaged lines are passed over and said, once', async t => {
  const { journal, layout } = await openJournal(t)
  for (let n = 0; n < 5; n += 1) {
    journal.put(numbered(n))
    await journal.flush()
  }
  const text = await readFile(layout.log, 'latin1')
  const lines = text.split('\n')
  const damaged = [
    ...lines.slice(0, 2),
    lines[2]?.replace('hello', 'x').slice(0, -7),
    '\0'.repeat(100),
    'x'.repeat(3_000_000),
    ...lines.slice(3, 5),
    '',
    lines[5]?.slice(0, -30),
  ]
  await writeFile(layout.log, damaged.join('\n'))
  const { journal: again, log } = await openJournal(t, layout)
  t.strictSame(await keysOf(again), keys(0, 2, 3))
  t.match(log.lines, [{ level: 'warn', facts: { lines: 3 } }])
  again.put(numbered(7))
  await again.flush()
  const { journal: third } = await openJournal(t, layout)
  t.strictSame(await keysOf(third), keys(0, 2, 3, 7), 'a line after a torn one is read')
})

t.test('an entry that turns out to be none when it is read is absent, and goes', async t => {
  const { journal, layout, log } = await openJournal(t)
  for (const n of [1, 2]) journal.put(numbered(n))
  await journal.close()
  const text = await readFile(layout.log)
  text.fill(0, text.indexOf(keyOf(1)), text.indexOf(keyOf(1)) + 5)
  await writeFile(layout.log, text)
  const { journal: again, log: told } = await openJournal(t, layout)
  t.equal(again.table.count, 2, 'the snapshot knows it')
  t.equal(await again.get(keyOf(1)), undefined)
  t.match(told.lines, [{ level: 'warn', message: 'not an entry; treated as absent' }])
  t.equal(again.table.count, 1)
  t.ok(await again.get(keyOf(2)))
  t.strictSame(log.lines, [])
})

t.test('keys whose names agree are never taken for one another', async t => {
  const { journal, layout } = await openJournal(t)
  journal.put(numbered(1))
  await journal.flush()
  const row = journal.table.find(nameOf(keyOf(1))) ?? -1
  const place = { offset: journal.table.offset(row), length: journal.table.length(row) }
  journal.table.put({
    name: nameOf(keyOf(2)),
    ...place,
    used: 1,
    digest: numbered(1).digest,
    size: 1,
  })
  t.equal(await journal.get(keyOf(2)), undefined)
  t.ok(layout)
})

t.test(
  'a disk that fails costs nothing that memory can hold, and what it left is cut off',
  async t => {
    const scripted = scriptedFiles()
    const { journal, layout, failures, clock } = await openJournal(t, { files: scripted.files })
    journal.put(numbered(1))
    await journal.flush()
    const { position } = journal
    for (const fate of [{ code: 'ENOSPC' }, { code: 'EIO' }] as const) {
      scripted.decide = call => (call === 'writev' ? fate : 'done')
      journal.put(numbered(2, { validated: 5 }))
      journal.remove(keyOf(1))
      await t.rejects(journal.flush(), fate)
      t.equal(journal.position, position, 'the position stays')
      t.match(await journal.get(keyOf(2)), { validated: 5 })
      t.equal(journal.get(keyOf(1)), undefined)
    }
    clock.advance(25)
    await until(() => failures.length > 0)
    // What a failed append may have left: a whole line, which must not come back.
    await appendFile(layout.log, encodeRecord({ is: 'entry', entry: numbered(9), used: 1 }))
    scripted.decide = () => 'done'
    await journal.flush()
    t.equal((await stat(layout.log)).size, journal.position)
    const { journal: again } = await openJournal(t, layout)
    t.strictSame(await keysOf(again), keys(2))
  },
)

t.test('what the disk cannot read is not taken for removed', async t => {
  const { journal, layout } = await openJournal(t)
  const many = Array.from({ length: 6000 }, (_, n) => n)
  for (const n of many) journal.put(numbered(n))
  await journal.flush()
  const scripted = scriptedFiles()
  let reads = 0
  scripted.decide = (call, about) => {
    if (call !== 'readv' || about !== layout.log) return 'done'
    reads += 1
    return reads === 3 ? { code: 'EIO' } : 'done'
  }
  const { journal: again, log } = await openJournal(t, { ...layout, files: scripted.files })
  t.ok(again.incomplete)
  t.ok(again.table.count > 1000 && again.table.count < 6000, 'what can be read is there')
  t.match(log.lines[0], { message: 'the disk cannot read a part of the log of entries' })
  again.put(numbered(7000))
  await again.flush()
  await again.compact()
  await again.close()
  await t.rejects(stat(layout.snapshot), { code: 'ENOENT' }, 'and nothing is written down about it')
  const { journal: third } = await openJournal(t, layout)
  t.equal(third.table.count, 6001)
})

t.test('an entry the disk cannot read now stays', async t => {
  const scripted = scriptedFiles()
  const { journal } = await openJournal(t, { files: scripted.files })
  journal.put(numbered(1))
  await journal.flush()
  const { journal: again } = await openJournal(t, {
    directory: t.testdirName,
    files: scripted.files,
  })
  for (const code of ['EIO', 'ESTALE', 'EMFILE']) {
    scripted.decide = () => ({ code })
    await t.rejects(Promise.resolve(again.get(keyOf(1))), { code })
  }
  scripted.decide = () => 'done'
  t.ok(await again.get(keyOf(1)))
})

t.test('a reader sees what the owner writes, and writes nothing', async t => {
  const { journal, layout } = await openJournal(t)
  const nowhere = await openReader(`${layout.directory}/nowhere`)
  t.equal(nowhere.get(keyOf(1)), undefined)
  t.strictSame(await keysOf(nowhere), [])
  journal.put(numbered(1))
  await journal.flush()
  const reader = await openReader(layout.directory)
  t.strictSame(await reader.get(keyOf(1)), numbered(1))
  journal.put(numbered(1, { validated: 1 }))
  journal.put(numbered(2))
  await journal.flush()
  await appendFile(layout.log, 'half a li')
  await reader.refresh()
  t.match(await reader.get(keyOf(1)), { validated: 1 })
  t.ok(await reader.get(keyOf(2)))
  await truncate(layout.log, journal.position)
  journal.remove(keyOf(1))
  await journal.flush()
  await journal.compact()
  journal.put(numbered(3))
  await journal.flush()
  await reader.refresh()
  t.strictSame(await keysOf(reader), keys(2, 3))
})
