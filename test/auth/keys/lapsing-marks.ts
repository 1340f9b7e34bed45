/**
 * Marks in a file that processes share: lines at its end, lines that are cut off, files of the version before.
 */
import { appendFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LapsingMarks } from '../../../lib/auth/keys/lapsing-marks.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)
const later = { until: start + 1000, before: 0 }

function lab(t: Test) {
  const path = join(t.testdir(), 'marks')
  const clock = new ManualClock(start)
  const failures: string[] = []
  const open = async () => {
    const marks = new LapsingMarks({
      path,
      clock,
      largest: 1_000_000,
      legacy: ({ all }) => {
        if (!Array.isArray(all)) throw new Error('it is of another form')
        return all.map(mark => [String(mark), later] as const)
      },
      failed: (error, doing) => failures.push(`${doing}: ${error}`),
    })
    t.teardown(() => marks.close())
    await marks.load()
    return marks
  }
  const text = () => readFileSync(path, 'utf8')
  return { path, clock, failures, open, text, inode: () => statSync(path).ino }
}

const names = (marks: LapsingMarks) => [...marks].map(([mark]) => mark).sort()

t.test('a mark is one line at the end, and the file is not replaced', async t => {
  const { open, text, inode } = lab(t)
  const marks = await open()
  marks.set('a', later)
  t.ok(await marks.save())
  const [before, file] = [text(), inode()]
  marks.set('b', { until: start + 5, before: start })
  t.ok(await marks.save())
  t.equal(text(), `${before}["b",${start + 5},${start}]\n`)
  t.equal(inode(), file)
})

t.test('lines that say nothing any more go when they are most of the file', async t => {
  const { open, clock, text, inode } = lab(t)
  const marks = await open()
  for (let i = 0; i < 1100; i += 1) marks.set(`m${i}`, later)
  await marks.save()
  const file = inode()
  for (let i = 0; i < 1100; i += 1) marks.remove(`m${i}`)
  clock.advance(1000)
  marks.set('new', { until: start + 5000, before: 0 })
  await marks.save()
  t.not(inode(), file, 'written anew')
  t.equal(text(), `{"version":2}\n["new",${start + 5000}]\n`)
})

t.test('two processes read each other line by line', async t => {
  const { open, inode } = lab(t)
  const [one, other] = [await open(), await open()]
  one.set('a', later)
  await one.save()
  await other.check()
  const file = inode()
  for (const turn of [1, 2, 3]) {
    one.set(`one-${turn}`, later)
    await one.save()
    other.set(`other-${turn}`, later)
    await other.save()
  }
  await one.check()
  t.strictSame(names(one), names(other))
  t.equal(names(one).length, 7)
  t.strictSame(names(await open()), names(one), 'and the file has them all')
  for (const marks of [one, other]) await marks.check()
  const settled = inode()
  for (const marks of [one, other]) await marks.check()
  t.equal(inode(), settled, 'they do not write for each other without end')
  t.ok(file > 0)
})

t.test('the file is replaced by another process while marks are entered', async t => {
  const { open, path } = lab(t)
  const marks = await open()
  marks.set('own', later)
  await marks.save()
  writeFileSync(`${path}.new`, `{"version":2}\n["theirs",${start + 1000}]\n`)
  renameSync(`${path}.new`, path)
  marks.set('more', later)
  t.ok(await marks.save())
  t.strictSame(names(marks), ['more', 'own', 'theirs'])
  t.strictSame(names(await open()), ['more', 'own', 'theirs'])
})

t.test(
  'a last line that was not finished counts as not written, and no line continues it',
  async t => {
    const { open, path, text, failures } = lab(t)
    const head = `{"version":2}\n["a",${start + 1000}]\n`
    for (const rest of ['["b"', '["b",1]', '\0\0\0', '[']) {
      writeFileSync(path, head + rest)
      const marks = await open()
      t.strictSame(names(marks), ['a'], rest)
      marks.set('c', later)
      t.ok(await marks.save())
      t.equal(text(), `${head}["c",${start + 1000}]\n`)
      await marks.close()
    }
    t.strictSame(failures, [])
  },
)

t.test('a line cut off by another process while we run is not continued either', async t => {
  const { open, path, text } = lab(t)
  const marks = await open()
  marks.set('a', later)
  await marks.save()
  appendFileSync(path, '["half')
  marks.set('b', later)
  t.ok(await marks.save())
  t.strictSame(names(await open()), ['a', 'b'])
  t.notMatch(text(), /half/)
})

t.test('what is not ours is refused, wherever it stands', async t => {
  const { open, path } = lab(t)
  const line = `["a",${start}]`
  for (const content of [
    '',
    'x\n',
    `${line}\n`,
    `{"version":3}\n${line}\n`,
    `{"version":2}\nx\n${line}\n`,
    `{"version":2}\n\n${line}\n`,
    '{"version":2}\n["a"]\n',
    '{"version":2}\n["a","1"]\n',
    '{"version":2}\n["a",1,null]\n',
    '{"version":2}\n[7,1]\n',
    '{"version":2}\n{"a":1}\n',
    '{"version":2}',
    '{"version":1}',
    `{"version":2}\n${' '.repeat(1_000_000)}`,
  ]) {
    writeFileSync(path, content)
    await t.rejects(open(), Error, JSON.stringify(content.slice(0, 40)))
  }
})

t.test('a file of version 1 is read, and replaced at the next write', async t => {
  const { open, path, text } = lab(t)
  writeFileSync(path, '{"version":1,"all":["x","y"]}')
  const marks = await open()
  t.strictSame(names(marks), ['x', 'y'])
  t.match(text(), /^\{"version":1/, 'reading changes nothing')
  marks.set('z', later)
  await marks.save()
  t.match(text(), /^\{"version":2\}\n/)
  t.strictSame(names(await open()), ['x', 'y', 'z'])
})

t.test('of several lines of one mark the latest counts', async t => {
  const { open, path } = lab(t)
  const lines = [
    ['a', 9, 5],
    ['a', 8, 6],
    ['a', 7, 6],
    ['b', 2],
    ['b', 3],
    ['b', 1],
  ]
  writeFileSync(path, ['{"version":2}', ...lines.map(line => JSON.stringify(line)), ''].join('\n'))
  const marks = await open()
  t.strictSame(marks.get('a'), { until: 8, before: 6 })
  t.strictSame(marks.get('b'), { until: 3, before: 0 })
})
