/** The rules of a configuration are made anew when the machine has become another one, and not before. */
import t from 'tap'
import { RulesInForce } from '../../lib/cache/rules-in-force.ts'
import { configOf } from '../fixtures/cache/cache.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const minute = 60_000

t.test('rules stay as long as what they were made of', async t => {
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const listening = { ports: [3142] }
  const rules = new RulesInForce(
    { config: configOf({}, '/nowhere') },
    {
      listening,
      clock,
      secure: false,
    },
  )
  rules.refresh()
  const first = rules.current()
  clock.advance(10 * minute)
  t.equal(rules.current(), first)
  listening.ports = [3143]
  clock.advance(minute)
  const second = rules.current()
  t.not(second, first)
  clock.advance(10 * minute)
  t.equal(rules.current(), second)
})
