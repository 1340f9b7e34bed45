import t from 'tap'
import { Alarm } from '../../lib/async/alarm.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

function counted() {
  const clock = new ManualClock(0)
  let timers = 0
  const counting = {
    now: () => clock.now(),
    elapsed: () => clock.elapsed(),
    after: (delay: number, action: () => void) => {
      timers += 1
      return clock.after(delay, action)
    },
  }
  return { clock, alarm: new Alarm(counting), timers: () => timers }
}

t.test('it rings once, at the deadline set last', t => {
  const { clock, alarm } = counted()
  const rung: string[] = []
  alarm.set(100, () => rung.push(`first at ${clock.elapsed()}`))
  clock.advance(50)
  alarm.set(100, () => rung.push(`later at ${clock.elapsed()}`))
  clock.advance(99)
  t.strictSame(rung, [])
  clock.advance(1)
  t.strictSame(rung, ['later at 150'])
  alarm.set(100, () => rung.push('never'))
  alarm.set(10, () => rung.push(`sooner at ${clock.elapsed()}`))
  clock.advance(1000)
  t.strictSame(rung, ['later at 150', 'sooner at 160'])
  t.end()
})

t.test('the wall clock has no part in it', t => {
  const { clock, alarm } = counted()
  let rung = false
  alarm.set(100, () => {
    rung = true
  })
  clock.set(1_000_000)
  clock.advance(99)
  t.notOk(rung)
  clock.advance(1)
  t.ok(rung)
  t.end()
})

t.test('cleared or closed it is silent', t => {
  const { clock, alarm } = counted()
  for (const end of ['clear', 'close'] as const) {
    alarm.set(10, () => t.fail(end))
    alarm[end]()
    clock.advance(10)
  }
  let rung = false
  alarm.set(10, () => {
    rung = true
  })
  clock.advance(10)
  t.ok(rung, 'and can be set again')
  t.end()
})

t.test('a thousand deadlines cost one timer while none passes', t => {
  const { clock, alarm, timers } = counted()
  for (let i = 0; i < 1000; i += 1) {
    alarm.set(1000, () => t.fail())
    alarm.clear()
    clock.advance(0.5)
  }
  t.equal(timers(), 1)
  t.end()
})
