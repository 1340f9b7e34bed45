import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ManualClock, systemClock } from '../../../lib/async/clock.ts'
import { askOwner, type ControlHandler, openControl } from '../../../lib/cache/cli/admin-socket.ts'
import { createMemoryLog } from '../../../lib/log/log.ts'

const clock = systemClock

async function owned(t: Test, handle: ControlHandler, directory = t.testdir()) {
  const log = createMemoryLog()
  const control = await openControl(directory, { clock, log, handle })
  t.teardown(() => control.close())
  return { directory, control, log }
}

t.test('a request and its answer', async t => {
  const { directory, control, log } = await owned(t, async request => ({ got: request }))
  t.strictSame(await askOwner(directory, { a: ['ü', 1] }, clock), {
    answer: { got: { a: ['ü', 1] } },
  })
  const many = await Promise.all(
    Array.from({ length: 10 }, (_, n) => askOwner(directory, n, clock)),
  )
  t.strictSame(
    many.map(reply => reply?.answer),
    Array.from({ length: 10 }, (_, n) => ({ got: n })),
  )
  t.equal(statSync(join(directory, 'control')).mode & 0o777, 0o600)
  t.strictSame(log.lines, [])
  await control.close()
  t.notOk(existsSync(join(directory, 'control')))
})

t.test('nobody there is no error; a dead owner is nobody', async t => {
  const directory = t.testdir()
  t.equal(await askOwner(directory, 1, clock), undefined)
  t.equal(await askOwner(join(directory, 'absent'), 1, clock), undefined)
  const { control } = await owned(t, async () => 1, directory)
  await control.close()
  writeFileSync(join(directory, 'control'), 'left behind')
  t.equal(await askOwner(directory, 1, clock), undefined)
  await owned(t, async () => 'new', directory)
  t.strictSame(await askOwner(directory, 1, clock), { answer: 'new' })
})

t.test('what the owner refuses is told with its reason', async t => {
  const { directory } = await owned(t, async () => {
    throw new Error('not today')
  })
  await t.rejects(askOwner(directory, 1, clock), { message: 'not today' })
  const silly = 'x'.repeat(300 * 1024)
  await t.rejects(askOwner(directory, silly, clock), 'a line that is too long')
})

t.test('whoever connects and says nothing, or nonsense, harms nobody', async t => {
  const { directory } = await owned(t, async () => 'fine')
  const path = join(directory, 'control')
  for (const text of ['', 'nonsense\n', '{"a"', '\n\n\n', '\0'.repeat(1000)]) {
    const socket = createConnection({ path })
    socket.on('error', () => undefined)
    socket.end(text)
    await new Promise(resolve => socket.resume().on('close', resolve))
  }
  t.strictSame(await askOwner(directory, 1, clock), { answer: 'fine' })
})

t.test('an owner that does not answer is given up', async t => {
  const manual = new ManualClock(0)
  let asked = () => undefined as unknown
  const began = new Promise(resolve => {
    asked = () => resolve(undefined)
  })
  const { directory } = await owned(t, () => {
    asked()
    return new Promise(() => undefined)
  })
  const reply = askOwner(directory, 1, manual)
  await began
  manual.advance(10_000)
  await t.rejects(reply, { message: /does not answer/ })
})

t.test(
  'without a place for the socket the owner goes on',
  { skip: process.getuid?.() === 0 && 'root may write anywhere' },
  async t => {
    const directory = t.testdir()
    chmodSync(directory, 0o500)
    const { log } = await owned(t, async () => 1, directory)
    t.match(log.lines, [{ level: 'warn', message: /commands cannot ask/ }])
    chmodSync(directory, 0o700)
  },
)
