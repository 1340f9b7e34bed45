import { readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import t from 'tap'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { keyOf, keysOf, numbered, openJournal } from '../../../fixtures/store/journal.ts'
import { sha256 } from '../../../fixtures/store/opened.ts'

t.test('a snapshot spares reading the log, and one that is damaged is not believed', async t => {
  const { journal, layout } = await openJournal(t)
  const many = Array.from({ length: 3000 }, (_, n) => n)
  for (const n of many) journal.put(numbered(n))
  await journal.mark({ durable: 0, unproven: [sha256(Buffer.from('x'))], clean: false })
  await journal.flush()
  await journal.snapshot()
  journal.put(numbered(5000))
  journal.remove(keyOf(3))
  await journal.flush()
  const check = async (what: string, believed: boolean) => {
    const scripted = scriptedFiles()
    const { journal: again } = await openJournal(t, { ...layout, files: scripted.files })
    const found = scripted.calls.filter(call => call === `readv ${layout.log}`).length
    t.equal(found <= 2, believed, `${what}: ${found} reads of the log`)
    const live = [...many.filter(n => n !== 3), 5000]
    t.strictSame(await keysOf(again), live.map(keyOf).sort(), what)
    t.match(again.table, { count: 3000, contents: 3000 }, what)
    t.strictSame(again.durable.unproven, [sha256(Buffer.from('x'))])
  }
  await check('as it was written', true)
  const whole = await readFile(layout.snapshot)
  for (const at of [3, 20, 60, 4096, 4096 + 64 * 1000 + 9, whole.length - 1]) {
    const torn = Buffer.from(whole)
    torn.writeUInt8(torn.readUInt8(at) ^ 1, at)
    await writeFile(layout.snapshot, torn)
    await check(`byte ${at}`, false)
  }
  await writeFile(layout.snapshot, whole.subarray(0, -64))
  await check('cut', false)
  await check('gone', false)
})

t.test('a snapshot of another log is not believed', async t => {
  const { journal, layout } = await openJournal(t)
  journal.put(numbered(1))
  await journal.close()
  await rm(layout.log)
  const { journal: again } = await openJournal(t, layout)
  t.equal(again.table.count, 0)
})

t.test('a snapshot that was refused once is never used', async t => {
  const { journal, layout } = await openJournal(t)
  const store = async (to: typeof journal, from: number, end: number) => {
    for (let n = from; n < end; n += 1) to.put(numbered(n))
    await to.flush()
    await to.mark({ durable: to.position, unproven: [], clean: false })
  }
  await store(journal, 0, 20)
  const { position } = journal
  await store(journal, 20, 40)
  await journal.close()
  // A power cut: the table is there, and of the log only the beginning.
  await truncate(layout.log, position)
  const { journal: again } = await openJournal(t, layout)
  t.equal(again.table.count, 20)
  await t.rejects(stat(layout.snapshot), { code: 'ENOENT' })
  await store(again, 100, 150)
  t.ok(again.position > journal.position, 'the log is longer than the table says')
  const { journal: third } = await openJournal(t, layout)
  t.strictSame(await keysOf(third), await keysOf(again))
  t.equal(third.table.count, 70)
})
