import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readBounded } from '../../lib/files/bounded-file.ts'

t.test('a file within the bound is read whole, through a link as well', async t => {
  const path = join(t.testdir({ file: 'content', empty: '' }), 'file')
  symlinkSync(path, `${path}.link`)
  for (const name of [path, `${path}.link`]) {
    const { bytes, stats } = await readBounded(name, 7)
    t.equal(bytes.toString(), 'content')
    t.equal(stats.size, 7)
  }
  t.equal((await readBounded(path.replace(/file$/, 'empty'), 1)).bytes.length, 0)
})

t.test('a file beyond the bound, and what is no file, is refused at once', async t => {
  const directory = t.testdir({ large: 'x'.repeat(100_000) })
  const path = (name: string) => join(directory, name)
  mkdirSync(path('directory'))
  execFileSync('mkfifo', [path('fifo')])
  await t.rejects(readBounded(path('large'), 99_999), { message: /larger than 99999 bytes/ })
  await t.rejects(readBounded(path('directory'), 10), { message: /is not a regular file/ })
  await t.rejects(readBounded(path('fifo'), 10), { message: /is not a regular file/ })
  await t.rejects(readBounded('/dev/zero', 10), { message: /is not a regular file/ })
  await t.rejects(readBounded(path('missing'), 10), { code: 'ENOENT' })
})

const skip = process.platform === 'linux' ? false : 'needs /proc'

t.test('a file that says to have no size is bounded all the same', { skip }, async t => {
  // The kernel makes it while it is read.
  const status = '/proc/self/status'
  t.match((await readBounded(status, 65_536)).bytes.toString(), /^Name:/)
  await t.rejects(readBounded(status, 100), { message: /larger than 100 bytes/ })
})

t.test('a file that grows while it is read is read to its end', async t => {
  const path = join(t.testdir(), 'file')
  writeFileSync(path, 'a'.repeat(10_000))
  const reading = readBounded(path, 1_000_000)
  writeFileSync(path, 'b'.repeat(10_000), { flag: 'a' })
  t.ok([10_000, 20_000].includes((await reading).bytes.length))
})
