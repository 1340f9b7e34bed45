import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { settle } from '../../../fixtures/store/growing.ts'
import { all, keyOf, keysOf, numbered, openJournal } from '../../../fixtures/store/journal.ts'
import { until } from '../../../fixtures/store/opened.ts'

const keys = (numbers: Iterable<number>) => [...numbers].map(keyOf).sort()

/** A journal that has 20 entries and appends 20 more: some whole lines of these are in the file, and the append is not over. */
async function appending(t: Test) {
  const scripted = scriptedFiles()
  const opened = await openJournal(t, { files: scripted.files })
  const { journal, layout } = opened
  for (let n = 0; n < 20; n += 1) journal.put(numbered(n))
  await journal.flush()
  let writes = 0
  scripted.decide = (call, about) => {
    if (call !== 'writev' || about !== layout.log) return 'done'
    writes += 1
    return writes === 1 ? { part: 2500 } : 'hang'
  }
  for (let n = 20; n < 40; n += 1) journal.put(numbered(n))
  const flushed = journal.flush()
  await until(() => writes === 2)
  return { ...opened, scripted, flushed, live: keys(Array.from({ length: 40 }, (_, n) => n)) }
}

t.test('entries whose lines are just being appended come through', async t => {
  const { journal, layout, scripted, flushed, live } = await appending(t)
  const compacting = journal.compact()
  await until(() => scripted.calls.includes(`writev ${layout.log}.new`))
  await settle()
  scripted.release()
  await Promise.all([flushed, compacting])
  t.strictSame(await keysOf(journal), live)
  t.strictSame(await keysOf((await openJournal(t, layout)).journal), live)
})

t.test('a walk finds entries whose lines are just being appended', async t => {
  const { journal, scripted, flushed, live } = await appending(t)
  const walk = journal.walk()
  const found = [(await walk.next()).value?.key]
  scripted.release()
  await flushed
  for await (const { key } of walk) found.push(key)
  t.strictSame(found.sort(), live)
})

t.test('a walk that begins while the new log takes its place finds every entry', async t => {
  for (const step of ['fdatasync', 'rename'] as const) {
    const scripted = scriptedFiles()
    const directory = join(t.testdirName, step)
    const { journal, layout } = await openJournal(t, { directory, files: scripted.files })
    const many = Array.from({ length: 3000 }, (_, n) => n)
    for (const n of many) journal.put(numbered(n))
    await journal.flush()
    let hangs = false
    scripted.decide = (call, about) => {
      if (call !== step || about !== `${layout.log}.new`) return 'done'
      hangs = true
      return 'hang'
    }
    const compacting = journal.compact()
    await until(() => hangs)
    const walk = journal.list()
    const first = walk.next()
    await settle()
    scripted.release()
    await compacting
    const { value = [] } = await first
    const found = [...value, ...(await all(walk)).flat()].map(({ key }) => key)
    t.strictSame(found.sort(), keys(many), step)
    t.notOk(journal.incomplete)
  }
})

t.test('a log that is closed while it is read is not taken for a damaged one', async t => {
  const { journal, log } = await openJournal(t)
  for (let n = 0; n < 3000; n += 1) journal.put(numbered(n))
  await journal.flush()
  const walk = journal.walk()
  await walk.next()
  await journal.close()
  await t.rejects(all(walk), /closed/)
  t.notOk(journal.incomplete)
  t.strictSame(log.lines, [])
})
