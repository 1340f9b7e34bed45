import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WatchedFile } from '../../lib/files/watched-file.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

function watched(t: Test) {
  const directory = join(t.testdir(), 'state')
  mkdirSync(directory)
  const path = join(directory, 'file')
  const clock = new ManualClock(0)
  const seen = { changes: 0, writes: 0, failures: 0 }
  const file = new WatchedFile({
    path,
    clock,
    readAgain: async () => {
      seen.changes += 1
    },
    write: () => {
      seen.writes += 1
      return writeFile(path, `${seen.writes}`)
    },
    reportFailure: () => {
      seen.failures += 1
    },
  })
  t.teardown(() => file.close())
  return { directory, path, clock, seen, file }
}

t.test('a change of another process is told once, and its own writes are none', async t => {
  const { path, file, seen } = watched(t)
  await file.look()
  t.ok(await file.write())
  await file.check()
  t.equal(seen.changes, 0)
  writeFileSync(path, 'from elsewhere')
  await file.check()
  await file.check()
  t.equal(seen.changes, 1)
  rmSync(path)
  await file.check()
  t.equal(seen.changes, 2, 'a file that is removed has changed')
})

t.test('what could not be written is written again after a minute, or at the end', async t => {
  const { directory, path, clock, file, seen } = watched(t)
  rmSync(directory, { recursive: true })
  t.notOk(await file.write())
  t.equal(seen.failures, 1)
  mkdirSync(directory)
  clock.advance(59_999)
  await file.check()
  t.notOk(existsSync(path))
  clock.advance(1)
  await file.check()
  t.equal(readFileSync(path, 'utf8'), '2')
  rmSync(directory, { recursive: true })
  t.notOk(await file.write())
  mkdirSync(directory)
  await file.close()
  t.equal(readFileSync(path, 'utf8'), '4')
})

t.test('calls that come while the file is written share the next write', async t => {
  const { file, seen } = watched(t)
  const first = file.write()
  await new Promise(resolve => setImmediate(resolve))
  await Promise.all([first, file.write(), file.write(), file.write()])
  t.equal(seen.writes, 2)
})

t.test('the watch looks every second until it is closed', async t => {
  const { path, clock, file, seen } = watched(t)
  await file.look()
  file.watch()
  writeFileSync(path, 'from elsewhere')
  clock.advance(1000)
  await file.close()
  t.equal(seen.changes, 1)
  writeFileSync(path, 'and once more')
  clock.advance(10_000)
  t.equal(seen.changes, 1)
})
