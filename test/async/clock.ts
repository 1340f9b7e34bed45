import t from 'tap'
import { ManualClock } from '../../lib/async/clock.ts'

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
