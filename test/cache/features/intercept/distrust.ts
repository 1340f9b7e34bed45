import t from 'tap'
import { DistrustMemory } from '../../../../lib/cache/features/intercept/interceptor.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.test('a client is remembered for a host and a while', async t => {
  const clock = new ManualClock(1000)
  const memory = new DistrustMemory(clock, () => 60_000)
  memory.remember('192.0.2.1', 'a.example')
  clock.advance(1000)
  memory.remember('192.0.2.2', 'a.example')
  t.equal(memory.has('192.0.2.1', 'a.example'), true)
  t.equal(memory.has('192.0.2.1', 'b.example'), false)
  t.equal(memory.has('192.0.2.3', 'a.example'), false)
  t.strictSame(memory.list(), [
    { client: '192.0.2.2', host: 'a.example', since: 2000 },
    { client: '192.0.2.1', host: 'a.example', since: 1000 },
  ])
  clock.advance(59_000)
  t.equal(memory.has('192.0.2.1', 'a.example'), false)
  t.equal(memory.list().length, 1)
  memory.forget('192.0.2.2', 'a.example')
  t.strictSame(memory.list(), [])
})

t.test('a length of 0 remembers nobody, and a new length holds at once', async t => {
  let length = 0
  const memory = new DistrustMemory(new ManualClock(0), () => length)
  memory.remember('192.0.2.1', 'a.example')
  length = 60_000
  t.equal(memory.has('192.0.2.1', 'a.example'), false)
  memory.remember('192.0.2.1', 'a.example')
  t.equal(memory.has('192.0.2.1', 'a.example'), true)
  length = 0
  t.equal(memory.has('192.0.2.1', 'a.example'), false)
})

t.test('what is remembered is bounded', async t => {
  const memory = new DistrustMemory(new ManualClock(0), () => 60_000)
  for (let i = 0; i < 10_010; i += 1) memory.remember('192.0.2.1', `host${i}.example`)
  t.equal(memory.list().length, 10_000)
  t.equal(memory.has('192.0.2.1', 'host0.example'), false)
})
