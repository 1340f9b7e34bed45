import t from 'tap'
import { repeat } from '../../lib/async/repeat.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.test('a task runs after every interval until it is stopped', async t => {
  const clock = new ManualClock(0)
  const runs: number[] = []
  const stop = repeat(clock, 10, () => void runs.push(clock.now()))
  clock.advance(9)
  t.strictSame(runs, [])
  clock.advance(21)
  t.strictSame(runs, [10, 20, 30])
  stop()
  clock.advance(100)
  t.equal(runs.length, 3)
})

t.test('the next interval begins when a task has ended', async t => {
  const clock = new ManualClock(0)
  let end = () => {}
  let runs = 0
  const stop = repeat(clock, 10, () => {
    runs += 1
    return new Promise(resolve => {
      end = resolve
    })
  })
  clock.advance(50)
  t.equal(runs, 1)
  end()
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(10)
  t.equal(runs, 2)
  stop()
  end()
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(50)
  t.equal(runs, 2, 'a task that runs when it is stopped is the last')
})

t.test('an interval that is a function is asked for anew each time', t => {
  const clock = new ManualClock(0)
  const runs: number[] = []
  let next = 0
  const stop = repeat(
    clock,
    () => {
      next += 10
      return next
    },
    () => void runs.push(clock.now()),
  )
  clock.advance(60)
  t.strictSame(runs, [10, 30, 60])
  stop()
  t.end()
})
