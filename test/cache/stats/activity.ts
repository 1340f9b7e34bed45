import t from 'tap'
import { Activity, programOf } from '../../../lib/cache/stats/activity.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Exchange } from '../../../lib/http/message/message.ts'
import type { Target } from '../../../lib/http/message/target.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

Object.assign(process.env, { TZ: 'UTC' })

const noon = Date.UTC(2025, 2, 14, 12)

interface Given {
  readonly facts?: Record<string, unknown>
  readonly client?: string
  readonly sent?: number
  readonly complete?: boolean
  readonly target?: Target
  /** When it was over. */
  readonly at?: number
  /** How long it took. */
  readonly took?: number
  readonly agent?: string
  readonly status?: number
}

function exchange(given: Given = {}): Exchange {
  const { facts = {}, client = '192.0.2.1', sent = 100, complete = true, target } = given
  const { at = noon, took = 1, agent = 'Debian APT-HTTP/1.3 (2.6.1)', status = 200 } = given
  const usual = { outcome: 'hit', because: 'fresh', origin: 'a.example.org', key: 'http://a/x' }
  return {
    request: {
      ...{ client: { address: client }, method: 'GET', target, received: at - took },
      fields: Fields.of(['User-Agent', agent]),
    },
    response: { status, facts: { ...usual, ...facts } },
    sent,
    complete,
    duration: took,
  } as unknown as Exchange
}

t.test('requests of one client and program without a pause are one run', async t => {
  const activity = new Activity(new ManualClock(noon))
  t.strictSame(activity.runs, [])
  const nine = Date.UTC(2025, 2, 14, 9)
  activity.note(exchange({ at: nine + 12_000, took: 500, sent: 10 }))
  activity.note(exchange({ at: nine + 20_000, client: '192.0.2.2' }))
  activity.note(exchange({ at: nine + 21_000, agent: 'curl/8.0' }))
  // A file that takes five minutes is no pause.
  const slow = { facts: { outcome: 'miss', because: 'absent' }, sent: 30 }
  activity.note(exchange({ at: nine + 371_999, took: 300_000, ...slow }))
  activity.note(exchange({ at: nine + 372_000, facts: { outcome: 'failed', because: 'x' } }))
  activity.note(exchange({ at: nine + 432_001, took: 1 }))
  const [last, first, ...others] = activity.runs
  t.match(last, { client: '192.0.2.1', agent: 'apt', count: 1, first: nine + 432_000 })
  t.match(first, {
    ...{ client: '192.0.2.1', agent: 'apt', count: 3, hits: 1, problems: 1, bytes: 140 },
    ...{ first: nine + 11_500, last: nine + 372_000 },
  })
  t.equal(first?.requests.length, 3)
  t.strictSame(
    others.map(({ client, agent }) => [client, agent]),
    [
      ['192.0.2.1', 'curl'],
      ['192.0.2.2', 'apt'],
    ],
  )
})

t.test('runs and their requests are bounded: the latest are kept', async t => {
  const activity = new Activity(new ManualClock(noon))
  for (let i = 0; i < 250; i += 1) activity.note(exchange({ facts: { key: `http://a/${i}` } }))
  const [run] = activity.runs
  t.equal(run?.count, 250)
  t.equal(run?.requests.length, 25)
  t.equal(run?.requests.at(-1)?.target, 'http://a/249')
  for (let i = 0; i < 500; i += 1) {
    activity.note(exchange({ client: `192.0.2.${i}`, at: noon + i }))
    activity.note(exchange({ client: 'always', at: noon + i }))
  }
  const { runs } = activity
  t.equal(runs.length, 20)
  t.match(runs[0], { client: 'always', count: 500 }, 'the one that goes on is kept')
  t.equal(runs.at(-1)?.client, '192.0.2.481')
})

t.test('a program is known by the name it gives itself', async t => {
  for (const [agent, name] of [
    ['Debian APT-HTTP/1.3 (2.6.1)', 'apt'],
    ['Ubuntu APT-HTTP/1.3 (2.4.11) non-interactive', 'apt'],
    ['curl/8.5.0', 'curl'],
    ['Wget', 'Wget'],
    ['(odd)', 'unnamed program'],
    ['', 'unnamed program'],
    [undefined, 'unnamed program'],
    ['x'.repeat(5000), 'x'.repeat(40)],
  ] as const) {
    t.equal(programOf(agent), name)
  }
})

t.test('the clients of today are counted, each once, a bounded number of them', async t => {
  const clock = new ManualClock(Date.UTC(2025, 2, 14, 23, 59))
  const activity = new Activity(clock)
  t.equal(activity.clientsToday, 0)
  const note = (client: string) => activity.note(exchange({ client, at: clock.now() }))
  for (const client of ['a', 'b', 'a']) note(client)
  t.equal(activity.clientsToday, 2)
  clock.advance(60_000)
  t.equal(activity.clientsToday, 0)
  for (let i = 0; i < 11_000; i += 1) note(`client-${i}`)
  t.equal(activity.clientsToday, 10_000)
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
    [{ facts: { outcome: 'failed', because: 'origin-403' }, status: 403 }, true],
    [{ facts: { outcome: 'failed', because: 'origin-404' }, status: 404 }, false],
    [{ facts: { outcome: 'failed', because: 'origin-410' }, status: 410 }, false],
    [{ facts: { outcome: 'failed', because: 'no-snapshot' }, status: 404 }, false],
    [{ facts: { outcome: 'failed', because: 'origin-404' }, status: 404, complete: false }, true],
    [{ facts: { outcome: 'miss', because: 'absent', notStored: 'no space left' } }, true],
    [{ facts: { outcome: 'miss', because: 'absent', notStored: 'private' } }, false],
  ]
  for (const [given, problem] of cases) {
    const before = activity.problems.length
    t.equal(activity.note(exchange(given)), problem)
    t.equal(activity.problems.length - before, problem ? 1 : 0)
  }
})

t.test('pages about the proxy are no requests', async t => {
  const activity = new Activity(new ManualClock(noon))
  activity.note(exchange({ facts: { outcome: 'operations' } }))
  t.strictSame([activity.runs, activity.clients, activity.archives], [[], [], []])
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
  t.equal(activity.runs[0]?.requests[0]?.target, 'a.example.org:443')
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
