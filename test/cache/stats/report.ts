import t from 'tap'
import {
  dailyLimit,
  historyReport,
  hitRate,
  report,
  trafficSaved,
} from '../../../lib/cache/stats/report.ts'
import {
  type Counters,
  noCounters,
  noHistory,
  noHour,
  sum,
} from '../../../lib/cache/stats/statistics.ts'

Object.assign(process.env, { TZ: 'UTC' })

/** In the middle of a day, which is the third of March 2025. */
const third = Date.UTC(2025, 2, 3, 12, 34)
const hour = 3_600_000

function day(hits: number): Counters {
  return { ...noCounters, requests: hits, hits, traffic_up: hits * 1000 }
}

/** Dates in no order: months first. */
function days(amount: number): Map<string, Counters> {
  const dates = Array.from({ length: amount }, (_, i) => {
    return new Date(Date.UTC(2025, 0, 1 + i)).toISOString().slice(0, 10)
  })
  dates.sort((a, b) => a.slice(8).localeCompare(b.slice(8)))
  return new Map(dates.map((date, i) => [date, day(i + 1)]))
}

t.test('without any day the report says so', async t => {
  t.strictSame(report(new Map(), '2025-03-14'), {
    totals: noCounters,
    daily: [],
    oldest_day: '2025-03-14',
  })
})

t.test('daily holds the fourteen most recent recorded days, newest first', async t => {
  for (const amount of [1, 13, 14, 15, 100]) {
    const { daily } = report(days(amount), '2030-01-01')
    t.equal(daily.length, Math.min(amount, dailyLimit), `of ${amount}`)
    const dates = daily.map(record => record.date)
    t.strictSame(dates, [...dates].sort().reverse())
    t.equal(dates[0], [...days(amount).keys()].sort().at(-1))
  }
})

t.test('days without records are not made up', async t => {
  const sparse = new Map([
    ['2024-02-29', day(1)],
    ['2025-03-14', day(2)],
  ])
  t.strictSame(
    report(sparse, '2025-03-20').daily.map(record => record.date),
    ['2025-03-14', '2024-02-29'],
  )
})

t.test('totals include the days daily leaves out', async t => {
  const all = days(40)
  const { totals, daily } = report(all, '2030-01-01')
  t.strictSame(totals, [...all.values()].reduce(sum))
  t.ok(totals.requests > daily.reduce((total, record) => total + record.requests, 0))
})

t.test('the oldest day is the oldest recorded one, listed or not', async t => {
  t.equal(report(days(40), '2030-01-01').oldest_day, '2025-01-01')
})

t.test('a day record is a counter record with a date, and nothing else', async t => {
  const [record] = report(new Map([['2025-03-14', day(3)]]), '2025-03-14').daily
  t.strictSame(record, { date: '2025-03-14', ...day(3) })
})

t.test('byte counters stay whole numbers in JSON, however large', async t => {
  const large = { ...noCounters, traffic_up: Number.MAX_SAFE_INTEGER }
  const { totals } = report(
    new Map([
      ['2025-03-13', large],
      ['2025-03-14', large],
    ]),
    '2025-03-14',
  )
  t.match(JSON.stringify(totals), /"traffic_up":18014398509481982[,}]/)
})

t.test('the hit rate is hits per request, 0 with no requests', async t => {
  t.equal(hitRate(noCounters), 0)
  t.equal(hitRate({ ...noCounters, requests: 8, hits: 2 }), 0.25)
  t.equal(hitRate({ requests: 3, hits: 0 }), 0, 'tunnels alone')
})

t.test(
  'traffic saved is what clients got less what was fetched, never less than nothing',
  async t => {
    t.equal(trafficSaved({ ...noCounters, traffic_up: 10, traffic_down: 4 }), 6)
    t.equal(trafficSaved({ ...noCounters, traffic_up: 4, traffic_down: 10 }), 0)
  },
)

t.test('the charts have every day of the calendar up to today, 75 at most', async t => {
  const sparse = new Map([
    ['2025-02-27', day(1)],
    ['2025-03-02', day(2)],
  ])
  const { days: shown } = historyReport(sparse, noHistory, third)
  t.strictSame(
    shown.map(({ date, requests }) => [date, requests]),
    [
      ['2025-02-27', 1],
      ['2025-02-28', 0],
      ['2025-03-01', 0],
      ['2025-03-02', 2],
      ['2025-03-03', 0],
    ],
  )
  const long = historyReport(new Map([['2020-01-01', day(1)]]), noHistory, third).days
  t.equal(long.length, 75)
  t.equal(long.at(-1)?.date, '2025-03-03')
  t.equal(historyReport(new Map(), noHistory, third).days.length, 1)
  const ahead = new Map([['2031-01-01', day(1)]])
  t.strictSame(historyReport(ahead, noHistory, third).days, [], 'the clock was set back')
})

t.test('refused and failed requests, by day and in all', async t => {
  const history = {
    unanswered: new Map([
      ['2025-03-01', { refused: 1, failed: 2 }],
      ['2025-03-03', { refused: 3, failed: 0 }],
    ]),
    hours: [],
  }
  const found = historyReport(new Map(), history, third)
  t.strictSame(found.unanswered, { refused: 4, failed: 2 })
  t.strictSame(
    found.days.map(({ refused, failed }) => [refused, failed]),
    [
      [1, 2],
      [0, 0],
      [3, 0],
    ],
  )
})

t.test('the hours of today by outcome, and the last 24 over midnight', async t => {
  const at = (when: number, counters: Partial<typeof noHour>) => ({
    ...{ ...noHour, ...counters },
    from: Date.UTC(2025, 2, when < 13 ? 3 : 2, when),
  })
  const hours = [
    at(12, { hits: 50 }),
    at(13, { hits: 1, problems: 5 }),
    at(0, { misses: 2, problems: 1 }),
    at(12, { hits: 3, failed: 1, problems: 1 }),
  ].map((one, i) => (i === 0 ? { ...one, from: one.from - 24 * hour } : one))
  const found = historyReport(new Map(), { ...noHistory, hours }, third)
  const zeros = new Array<number>(24).fill(0)
  t.strictSame(found.hours, {
    ...{ hits: zeros.with(12, 3), misses: zeros.with(0, 2), tunnel: zeros, refused: zeros },
    failed: zeros.with(12, 1),
  })
  t.equal(found.problemsToday, 2)
  t.equal(found.lastDay.length, 24)
  t.strictSame([found.lastDay[0], found.lastDay[11], found.lastDay[23]], hours.slice(1))
  t.strictSame(found.lastDay[1], { ...noHour, from: Date.UTC(2025, 2, 2, 14) })
  const later = historyReport(new Map(), { ...noHistory, hours }, third + 24 * hour)
  t.equal(later.hours, undefined)
  t.equal(later.problemsToday, 0)
})
