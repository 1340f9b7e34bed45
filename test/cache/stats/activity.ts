import t from 'tap'
import { Activity } from '../../../lib/cache/stats/activity.ts'
import type { Exchange } from '../../../lib/http/message/message.ts'
import type { Target } from '../../../lib/http/message/target.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const noon = Date.UTC(2025, 2, 14, 12)

interface Given {
  readonly facts?: Record<string, unknown>
  readonly client?: string
  readonly sent?: number
  readonly complete?: boolean
  readonly target?: Target
  /** When it was over. */
  readonly at?: number
}

function exchange(given: Given = {}): Exchange {
  const { facts = {}, client = '192.0.2.1', sent = 100, complete = true, target } = given
  const { at = noon } = given
  const usual = { outcome: 'hit', because: 'fresh', origin: 'a.example.org', key: 'http://a/x' }
  return {
    request: { client: { address: client }, method: 'GET', target, received: at - 1 },
    response: { status: 200, facts: { ...usual, ...facts } },
    sent,
    complete,
    duration: 1,
  } as unknown as Exchange
}

t.test('the latest requests come first, a bounded number of them', async t => {
  const activity = new Activity(new ManualClock(noon))
  t.strictSame(activity.requests, [])
  for (let i = 0; i < 250; i += 1) activity.note(exchange({ facts: { key: `http://a/${i}` } }))
  const targets = activity.requests.map(({ target }) => target)
  t.equal(targets.length, 100)
  t.equal(targets[0], 'http://a/249')
  t.equal(targets[99], 'http://a/150')
})

t.test('what was refused, failed, broke off or had to be stale is a problem', async t => {
  const activity = new Activity(new ManualClock(noon))
  const cases: ReadonlyArray<readonly [Given, boolean]> = [
    [{}, false],
    [{ facts: { outcome: 'miss', because: 'absent' } }, false],
    [{ facts: { outcome: 'refused', because: 'domains' } }, true],
    [{ facts: { outcome: 'failed', because: 'ORIGIN_CLOSED' } }, true],
    [{ facts: { because: 'stale-origin-slow' } }, true],
    [{ complete: false }, true],
    [{ facts: { outcome: 'miss', because: 'absent', notStored: 'no space left' } }, true],
    [{ facts: { outcome: 'miss', because: 'absent', notStored: 'private' } }, false],
  ]
  for (const [given, problem] of cases) {
    const before = activity.problems.length
    activity.note(exchange(given))
    t.equal(activity.problems.length - before, problem ? 1 : 0)
  }
})

t.test('pages about the proxy are no requests', async t => {
  const activity = new Activity(new ManualClock(noon))
  activity.note(exchange({ facts: { outcome: 'operations' } }))
  t.strictSame([activity.requests, activity.clients, activity.archives], [[], [], []])
})

t.test('a request without a key is told as it was written', async t => {
  const activity = new Activity(new ManualClock(noon))
  const authority = { host: 'a.example.org', port: 443 }
  activity.note(
    exchange({
      facts: { outcome: 'tunnel', key: undefined, origin: undefined },
      target: { form: 'authority', authority },
    }),
  )
  t.equal(activity.requests[0]?.target, 'a.example.org:443')
  t.strictSame(activity.archives, [])
})

t.test('figures of archives and clients, most bytes first, a bounded number of them', async t => {
  const activity = new Activity(new ManualClock(noon))
  activity.note(exchange({ sent: 10 }))
  activity.note(exchange({ sent: 30, facts: { origin: 'b.example.org', outcome: 'miss' } }))
  activity.note(exchange({ sent: 5, client: '192.0.2.2', at: noon + 5000 }))
  t.strictSame(activity.archives, [
    { name: 'b.example.org', requests: 1, hits: 0, bytes: 30, last: noon },
    { name: 'a.example.org', requests: 2, hits: 2, bytes: 15, last: noon + 5000 },
  ])
  t.strictSame(
    activity.clients.map(({ name, bytes }) => [name, bytes]),
    [
      ['192.0.2.1', 40],
      ['192.0.2.2', 5],
    ],
  )
  for (let i = 0; i < 2000; i += 1) activity.note(exchange({ client: `client-${i}` }))
  t.equal(activity.clients.length, 500)
})

t.test('rates are those of the last minute, or of the time since the start', async t => {
  const clock = new ManualClock(noon)
  const activity = new Activity(clock)
  t.strictSame(activity.rates, { requests: 0, bytes: 0 })
  activity.note(exchange({ sent: 600 }))
  t.strictSame(activity.rates, { requests: 1, bytes: 600 })
  clock.advance(59_000)
  t.strictSame(activity.rates, { requests: 1 / 60, bytes: 10 })
  clock.advance(1000)
  t.strictSame(activity.rates, { requests: 0, bytes: 0 })
  activity.note(exchange({ sent: 60 }))
  clock.advance(30_000)
  activity.note(exchange({ sent: 60 }))
  t.strictSame(activity.rates, { requests: 2 / 60, bytes: 2 })
  clock.set(noon - 86_400_000)
  t.equal(activity.rates.requests, 2 / 60, 'a clock that was set back changes nothing')
})
