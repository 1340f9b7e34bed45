import { mock } from 'node:test'
import t from 'tap'
import { systemClock } from '../../lib/async/clock.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.test('a manual clock keeps appointments in their order and only when they are due', t => {
  const clock = new ManualClock(1000)
  const kept: string[] = []
  clock.after(30, () => kept.push('later'))
  clock.after(10, () => {
    kept.push(`first at ${clock.now()}`)
    clock.after(5, () => kept.push(`follow-up at ${clock.now()}`))
  })
  const cancel = clock.after(10, () => kept.push('cancelled'))
  cancel()
  clock.advance(20)
  t.strictSame(kept, ['first at 1010', 'follow-up at 1015'])
  t.equal(clock.now(), 1020)
  clock.advance(10)
  t.strictSame(kept.at(-1), 'later')
  t.end()
})

t.test('a timer may be longer than those of Node, and for ever', t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const day = 86_400_000
  const kept: string[] = []
  systemClock.after(60 * day, () => kept.push('in 60 days'))
  systemClock.after(Number.POSITIVE_INFINITY, () => kept.push('never'))
  const cancel = systemClock.after(40 * day, () => kept.push('cancelled'))
  const pass = (days: number) => {
    for (let i = 0; i < days; i += 1) mock.timers.tick(day)
  }
  pass(30)
  cancel()
  pass(29)
  t.strictSame(kept, [])
  pass(2)
  t.strictSame(kept, ['in 60 days'])
  pass(400)
  t.strictSame(kept, ['in 60 days'])
  t.end()
})
