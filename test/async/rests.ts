/** Peers that failed lately: how long they rest, who tries them again, and how many are remembered. */
import t from 'tap'
import { longestRest, Rests } from '../../lib/async/rests.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const name = (peer: string): string => peer

t.test('each further failure doubles the rest, up to the longest one', t => {
  const clock = new ManualClock(0)
  const rests = new Rests(clock)
  const lasting: number[] = []
  for (let n = 0; n < 7; n += 1) {
    rests.note('a')
    lasting.push(rests.left('a') / 1000)
    clock.advance(rests.left('a'))
    t.equal(rests.left('a'), 0)
  }
  t.strictSame(lasting, [10, 20, 40, 80, 160, 300, 300])
  t.equal(longestRest, 300_000)
  t.equal(rests.forget('a'), true)
  t.equal(rests.forget('a'), false)
  rests.note('a')
  t.equal(rests.left('a'), 10_000, 'it begins again')
  t.end()
})

t.test('a rest is at least as long as the peer asked for', t => {
  const rests = new Rests(new ManualClock(0), { first: 1000, longest: 2000 })
  rests.note('a', { least: 60_000 })
  t.equal(rests.left('a'), 60_000)
  t.end()
})

t.test('the reason lasts as long as the rest', t => {
  const clock = new ManualClock(0)
  const rests = new Rests<string>(clock)
  rests.note('a', { because: '503' })
  t.equal(rests.reason('a'), '503')
  t.strictSame(rests.names(), ['a'])
  clock.advance(10_000)
  t.equal(rests.reason('a'), undefined)
  t.strictSame(rests.names(), [])
  t.end()
})

t.test('those that rest come last, and one request tries a peer when its rest is over', t => {
  const clock = new ManualClock(0)
  const rests = new Rests(clock)
  const peers = ['a', 'b', 'c']
  t.strictSame(rests.inTurn(peers, name), { healthy: peers, failing: [] })
  rests.note('a')
  rests.note('a')
  rests.note('b')
  t.strictSame(rests.inTurn(peers, name), { healthy: ['c'], failing: ['b', 'a'] })
  clock.advance(10_000)
  t.strictSame(rests.inTurn(peers, name), { healthy: ['b', 'c'], failing: ['a'] })
  t.match(rests.inTurn(peers, name).healthy, ['c'], 'the next request tries it last')
  t.end()
})

t.test('a thousand peers are remembered', t => {
  const rests = new Rests(new ManualClock(0))
  for (let n = 0; n < 1001; n += 1) rests.note(`${n}`)
  t.equal(rests.left('0'), 0)
  t.ok(rests.left('1') > 0)
  t.equal(rests.names().length, 1000)
  t.end()
})
