import t from 'tap'
import {
  calendarDate,
  noCounters,
  noHour,
  Statistics,
  startOfHour,
  sum,
} from '../../../lib/cache/stats/statistics.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const hour = 3_600_000

t.beforeEach(() => {
  Object.assign(process.env, { TZ: 'UTC' })
})

function start(moment = Date.UTC(2025, 2, 14, 12)) {
  const clock = new ManualClock(moment)
  return { clock, statistics: new Statistics(clock) }
}

t.test('each kind of request moves its own counters', async t => {
  const { statistics } = start()
  statistics.hit(1000)
  statistics.hit(0)
  statistics.miss(300)
  statistics.fetched(500)
  statistics.tunnel()
  statistics.tunnelBytes(70)
  statistics.tunnelBytes(7)
  statistics.fetched(9)
  t.strictSame(
    [...statistics.days],
    [
      [
        '2025-03-14',
        {
          requests: 4,
          hits: 2,
          misses: 1,
          tunnel: 1,
          traffic_down: 509,
          traffic_up: 1300,
          tunnel_transfer: 77,
        },
      ],
    ],
  )
})

t.test('bytes of tunnels are not counted as traffic a second time', async t => {
  const { statistics } = start()
  statistics.tunnel()
  statistics.tunnelBytes(1_000_000)
  t.match(statistics.days.get('2025-03-14'), { traffic_down: 0, traffic_up: 0 })
})

t.test('requests are hits, misses and tunnels, whatever happens in whatever order', async t => {
  const { clock, statistics } = start()
  for (let i = 0; i < 500; i += 1) {
    if (i % 3 === 0) statistics.hit(i)
    if (i % 4 === 0) statistics.miss(i)
    if (i % 5 === 0) statistics.tunnel()
    if (i % 6 === 0) statistics.tunnelBytes(i)
    if (i % 7 === 0) statistics.fetched(i)
    clock.advance(hour / 2)
  }
  t.ok(statistics.days.size > 10)
  for (const { requests, hits, misses, tunnel } of statistics.days.values()) {
    t.equal(requests, hits + misses + tunnel)
  }
})

t.test('a new day begins at midnight by the clock', async t => {
  const { clock, statistics } = start(Date.UTC(2025, 11, 31, 23, 59, 59, 999))
  statistics.hit(1)
  clock.advance(1)
  statistics.hit(2)
  t.strictSame([...statistics.days.keys()], ['2025-12-31', '2026-01-01'])
  t.equal(statistics.today, '2026-01-01')
})

t.test('a transfer that goes past midnight counts on the day on which it ends', async t => {
  const { clock, statistics } = start(Date.UTC(2025, 2, 14, 23, 59))
  statistics.tunnel()
  clock.advance(hour)
  statistics.tunnelBytes(5)
  t.match(statistics.days.get('2025-03-14'), { tunnel: 1, tunnel_transfer: 0 })
  t.match(statistics.days.get('2025-03-15'), { tunnel: 0, requests: 0, tunnel_transfer: 5 })
})

t.test('a day is a calendar day of the server’s time zone', async t => {
  const moment = Date.UTC(2025, 2, 14, 23, 30)
  const cases = [
    ['UTC', '2025-03-14'],
    ['Europe/Berlin', '2025-03-15'],
    ['America/Los_Angeles', '2025-03-14'],
    ['Pacific/Kiritimati', '2025-03-15'],
    ['Asia/Kolkata', '2025-03-15'],
  ] as const
  for (const [zone, date] of cases) {
    Object.assign(process.env, { TZ: zone })
    t.equal(calendarDate(moment), date, zone)
  }
})

t.test('days of 23 and 25 hours are one day each', async t => {
  Object.assign(process.env, { TZ: 'Europe/Berlin' })
  for (const [start, hours, date] of [
    [Date.UTC(2025, 2, 29, 23), 23, '2025-03-30'],
    [Date.UTC(2025, 9, 25, 22), 25, '2025-10-26'],
  ] as const) {
    t.equal(calendarDate(start), date)
    t.not(calendarDate(start - 1), date)
    t.equal(calendarDate(start + hours * hour - 1), date)
    t.not(calendarDate(start + hours * hour), date)
  }
})

t.test('a clock that is set back counts on the day it shows', async t => {
  const { statistics } = start(0)
  statistics.hit(1)
  t.strictSame([...statistics.days.keys()], ['1970-01-01'])
})

t.test('recorded days are continued, and not changed for whoever recorded them', async t => {
  const recorded = new Map([['2025-03-14', { ...noCounters, requests: 1, hits: 1 }]])
  const statistics = new Statistics(new ManualClock(Date.UTC(2025, 2, 14, 12)), recorded)
  statistics.hit(10)
  t.match(statistics.days.get('2025-03-14'), { requests: 2, hits: 2, traffic_up: 10 })
  t.equal(recorded.get('2025-03-14')?.hits, 1)
})

t.test('every change can be noticed', async t => {
  const { statistics } = start()
  const seen = new Set([statistics.changes])
  for (const act of [
    () => statistics.hit(0),
    () => statistics.miss(0),
    () => statistics.tunnel(),
    () => statistics.tunnelBytes(1),
    () => statistics.fetched(1),
  ]) {
    act()
    t.notOk(seen.has(statistics.changes))
    seen.add(statistics.changes)
  }
})

t.test('a sum adds every counter', async t => {
  const ones = Object.fromEntries(Object.keys(noCounters).map(name => [name, 1]))
  t.strictSame(
    sum({ ...noCounters, ...ones }, { ...noCounters, ...ones }),
    Object.fromEntries(Object.keys(noCounters).map(name => [name, 2])),
  )
})

t.test('refused and failed requests are counted apart, by day', async t => {
  const { clock, statistics } = start()
  statistics.hit(1)
  statistics.unanswered('refused')
  statistics.unanswered('failed')
  clock.advance(24 * 60 * 60_000)
  statistics.unanswered('failed')
  t.strictSame(
    [...statistics.history.unanswered.values()],
    [
      { refused: 1, failed: 1 },
      { refused: 0, failed: 1 },
    ],
  )
  t.equal(statistics.days.size, 1, 'a day without requests is no recorded day')
  t.match([...statistics.days.values()], [{ requests: 1, hits: 1 }])
})

t.test('the hours go on over midnight and a restart, and end after 25', async t => {
  const { clock, statistics } = start(Date.UTC(2025, 2, 14, 23, 10))
  t.strictSame(statistics.history.hours, [])
  statistics.hit(100)
  statistics.miss(30)
  statistics.fetched(20)
  statistics.fetched(7)
  clock.advance(hour)
  statistics.tunnel()
  statistics.unanswered('failed')
  statistics.problem()
  const eleven = Date.UTC(2025, 2, 14, 23)
  const first = { ...noHour, from: eleven, hits: 1, misses: 1, traffic_up: 130, traffic_down: 27 }
  const next = { ...noHour, from: eleven + hour, tunnel: 1, failed: 1, problems: 1 }
  const { hours } = statistics.history
  t.strictSame(hours, [first, next])
  const restarted = new Statistics(clock, statistics.days, statistics.history)
  restarted.tunnel()
  t.strictSame(restarted.history.hours, [first, { ...next, tunnel: 2 }], 'a restart goes on')
  t.strictSame(hours, [first, next], 'and leaves alone what it was given')
  for (let i = 0; i < 100; i += 1) {
    clock.advance(hour / 2)
    statistics.hit(1)
  }
  t.equal(statistics.history.hours.length, 25)
  t.equal(statistics.history.hours.at(-1)?.from, startOfHour(clock.now()))
  t.equal(statistics.history.hours[0]?.from, startOfHour(clock.now()) - 24 * hour)
})

t.test('hours of a clock that was set back are forgotten', async t => {
  const { clock, statistics } = start()
  statistics.hit(1)
  clock.set(Date.UTC(2025, 2, 14, 8))
  statistics.hit(1)
  t.strictSame(
    statistics.history.hours.map(({ from }) => from),
    [Date.UTC(2025, 2, 14, 8)],
  )
})

t.test(
  'hours begin where those of the time zone do, and the one that comes twice is two',
  async t => {
    Object.assign(process.env, { TZ: 'Asia/Kolkata' })
    t.equal(startOfHour(Date.UTC(2025, 2, 14, 12, 10)), Date.UTC(2025, 2, 14, 11, 30))
    Object.assign(process.env, { TZ: 'Europe/Berlin' })
    for (const minutes of [0, 30, 59]) {
      t.equal(startOfHour(Date.UTC(2025, 9, 26, 0, minutes)), Date.UTC(2025, 9, 26, 0))
      t.equal(startOfHour(Date.UTC(2025, 9, 26, 1, minutes)), Date.UTC(2025, 9, 26, 1))
    }
  },
)
