/**
 * Work that gives way: until none has come for a moment, but not for ever, and not more than so much.
 */
import t from 'tap'
import { Lull } from '../../lib/async/lull.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

function lulled() {
  const clock = new ManualClock(0)
  const lull = new Lull(clock)
  const gone: string[] = []
  const wait = (name: string, size = 1, most = 100): void => {
    const work = async () => {
      gone.push(name)
    }
    void lull.run(work, size, most)
  }
  const after = async (time: number): Promise<readonly string[]> => {
    clock.advance(time)
    await new Promise(setImmediate)
    return gone.splice(0)
  }
  return { lull, wait, after }
}

t.test('it goes on when none has come for a moment', async t => {
  const { wait, after } = lulled()
  wait('a')
  t.strictSame(await after(15), [])
  wait('b')
  t.strictSame(await after(15), [], 'b has come meanwhile')
  t.strictSame(await after(20), ['a', 'b'])
  wait('c')
  t.strictSame(await after(20), ['c'])
  t.strictSame(await after(10_000), [])
})

t.test('what has waited for a second goes on while others come', async t => {
  const { wait, after } = lulled()
  const gone: string[] = []
  for (let n = 0; n < 120; n += 1) {
    wait(`${n}`)
    gone.push(...(await after(10)))
  }
  t.ok(gone.length >= 18 && gone.length <= 21, `${gone.length}`)
  t.strictSame(gone, Array.from(gone.keys(), String), 'in their order')
})

t.test('when more waits than may, what came first goes on', async t => {
  const { wait, after } = lulled()
  for (const name of ['a', 'b', 'c']) wait(name, 40)
  t.strictSame(await after(0), ['a'])
  wait('d', 10, 0)
  t.strictSame(await after(0), ['b', 'c', 'd'], 'nothing may wait')
})

t.test('at the end all goes on, and nothing waits any more', async t => {
  const { lull, wait, after } = lulled()
  wait('a')
  wait('b')
  lull.end()
  wait('c')
  t.strictSame(await after(0), ['a', 'b', 'c'])
})

t.test('eight are done at once, the others in their order', async t => {
  const lull = new Lull(new ManualClock(0))
  const begun: number[] = []
  const ends: Array<() => void> = []
  const done: number[] = []
  for (let n = 0; n < 20; n += 1) {
    const work = (): Promise<void> => {
      begun.push(n)
      return new Promise(end => ends.push(end))
    }
    void lull.run(work, 1, 0).then(() => done.push(n))
  }
  t.equal(begun.length, 8)
  for (let n = 0; n < 20; n += 1) {
    ends[n]?.()
    await new Promise(setImmediate)
    t.equal(begun.length, Math.min(20, 9 + n))
    t.equal(done.length, n + 1)
  }
  t.strictSame(begun, Array.from(begun.keys()))
})
