/**
 * The published specification of the operations interface, statement by statement: sections 1 to 3, what is counted and
 * what the pages show, at the level of reports and routes. Names begin with the section.
 */
import t from 'tap'
import type { OperationsSources } from '../../../lib/cache/operations/sources.ts'
import { hitRate, report } from '../../../lib/cache/stats/report.ts'
import { noCounters, Statistics } from '../../../lib/cache/stats/statistics.ts'
import {
  ask,
  busyDays,
  fullSources,
  noon,
  pageOf,
  plainConfig,
  recorded,
  sources,
  statisticsOf,
} from '../../fixtures/cache/operations.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const counterNames = [
  'requests',
  'hits',
  'misses',
  'tunnel',
  'traffic_down',
  'traffic_up',
  'tunnel_transfer',
]

function withConfig(index: Partial<typeof plainConfig.index>): OperationsSources {
  return sources({ config: { ...plainConfig, index: { ...plainConfig.index, ...index } } })
}

t.test('1. hits, misses and tunnelled connections are counted', async t => {
  const counted = new Statistics(new ManualClock(noon))
  counted.hit(1)
  counted.miss(1)
  counted.fetched(1)
  counted.tunnel()
  t.match(report(counted.days, counted.today).totals, { hits: 1, misses: 1, tunnel: 1 })
})

t.test('1. the first index.hostnames value is the host of the examples', async t => {
  const setup = await pageOf(fullSources(), '/_cachesvc/setup')
  t.match(setup, 'http://cache.example.org:3142')
  t.notMatch(setup, 'second.example.org')
})

t.test('1. without one, the first non-loopback IPv4 address is', async t => {
  const setup = await pageOf(withConfig({ hostnames: [] }), '/_cachesvc/setup')
  t.match(setup, 'http://192.0.2.10:3142')
})

t.test('1. and finally 127.0.0.1 is', async t => {
  const given = { ...withConfig({ hostnames: [] }), addresses: () => ['127.0.0.1', '::1'] }
  t.match(await pageOf(given, '/_cachesvc/setup'), 'http://127.0.0.1:3142')
})

t.test('1. index.enable does not control access', async t => {
  const paths = ['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/stats', '/_cachesvc/setup']
  for (const path of [...paths, '/_cachesvc/api/stats']) {
    const off = await ask(withConfig({ enable: false }), path)
    const on = await ask(withConfig({ enable: true }), path)
    t.equal(off.status, 200)
    t.strictSame(off, on)
  }
})

t.test('2. the statistics response has totals, daily and oldest_day', async t => {
  const { value } = await statisticsOf(fullSources())
  t.strictSame(Object.keys(value).sort(), ['daily', 'oldest_day', 'totals'])
  t.ok(Array.isArray(value.daily))
  t.match(value.oldest_day, /^\d{4}-\d{2}-\d{2}$/)
})

t.test('2. a counter record has exactly the seven counters, all integers', async t => {
  const { value } = await statisticsOf(fullSources())
  t.strictSame(Object.keys(value.totals).sort(), [...counterNames].sort())
  for (const figure of Object.values(value.totals)) t.ok(Number.isInteger(figure))
})

t.test('2. a day record additionally has its date', async t => {
  const { value } = await statisticsOf(fullSources())
  for (const day of value.daily) {
    t.strictSame(Object.keys(day).sort(), ['date', ...counterNames].sort())
    t.match(day.date, /^\d{4}-\d{2}-\d{2}$/)
  }
})

t.test('2. rule 1: byte counters are unscaled integers', async t => {
  const clock = new ManualClock(noon)
  const counted = recorded(clock, [{ traffic_up: 123_456_789_012, traffic_down: 1 }])
  const given = sources({ statistics: () => report(counted.days, counted.today) })
  t.match((await statisticsOf(given)).value.totals, {
    traffic_up: 123_456_789_012,
    traffic_down: 1,
  })
})

t.test('2. rule 2: daily never has more than 14 entries, newest first', async t => {
  const { value } = await statisticsOf(fullSources())
  t.equal(busyDays.length, 20)
  t.equal(value.daily.length, 14)
  const dates = value.daily.map(day => String(day.date))
  t.strictSame(dates, [...dates].sort().reverse())
  t.equal(dates[0], '2025-03-14')
})

t.test('2. rule 3: totals include days not listed in daily', async t => {
  const { value } = await statisticsOf(fullSources())
  const hits = busyDays.reduce((total, day) => total + (day.hits ?? 0), 0)
  t.equal(value.totals.hits, hits)
  const listed = value.daily.reduce((total, day) => total + Number(day.hits), 0)
  t.ok(listed < hits)
})

t.test('2. rule 4: the hit rate is hits per request, 0 with no requests', async t => {
  t.equal(hitRate({ ...noCounters, requests: 4, hits: 3 }), 0.75)
  t.equal(hitRate(noCounters), 0)
})

t.test('2. oldest_day is the oldest recorded day, listed or not', async t => {
  t.equal((await statisticsOf(fullSources())).value.oldest_day, '2025-02-23')
  t.equal((await statisticsOf(sources())).value.oldest_day, '2025-03-14', 'today without data')
})

t.test(
  '2. index page: version, listeners, HTTPS mode, domains, passthrough, mirror routing',
  async t => {
    const index = await pageOf(fullSources(), '/_cachesvc/')
    t.match(index, '1.2.3-test')
    for (const url of ['http://cache.example.org:3142/', 'http://192.0.2.10:8090/']) {
      t.match(index, url)
    }
    t.match(index, 'https://[2001:db8::10]:8091/')
    t.match(index, /HTTPS mode<\/dt><dd><span class="tag">Tunnel</)
    t.match(index, '<code>archive.example.net:8080</code>')
    t.match(index, '<code>packages.example.com</code>')
    t.match(index, /<code>archive.example.org\/debian<\/code>[\s\S]*mirror[\s\S]*far[\s\S]*near/)
  },
)

t.test('2. index page: the three HTTPS modes', async t => {
  const modes = [
    ['tunnel', 'Tunnel'],
    ['intercept', 'Intercept'],
    ['disabled', 'Disabled'],
  ] as const
  for (const [httpsMode, label] of modes) {
    t.match(await pageOf(sources({ httpsMode }), '/_cachesvc/'), `class="tag">${label}<`)
  }
})

t.test('2. cache page: object count, bytes, filesystem use, retention policy', async t => {
  const cache = await pageOf(fullSources(), '/_cachesvc/cache')
  t.match(cache, '48,213')
  t.match(cache, /61\.7 GiB[\s\S]*66,249,870,541 bytes/)
  t.match(cache, /role="meter" [^>]*aria-valuenow="40\.21" aria-valuetext="40\.2%"/)
  t.match(cache, 'Stored files that no client asked for in 60 days are removed.')
  const forever = { ...plainConfig, expiration: { unusedDays: 0 } }
  const kept = await pageOf(sources({ config: forever }), '/_cachesvc/cache')
  t.match(kept, 'Automatic expiration is disabled')
})

t.test('2. stats page: totals, hit rate, savings estimate, 14-day breakdown', async t => {
  const stats = await pageOf(fullSources(), '/_cachesvc/stats')
  t.match(stats, 'Lifetime totals')
  t.match(stats, '85.8%')
  t.match(stats, '86.2 GiB')
  t.equal(stats.match(/<th scope="row"><time/g)?.length, 14)
})

t.test('2. setup page: client, discovery, DNS SRV and continuous-integration examples', async t => {
  const setup = await pageOf(fullSources(), '/_cachesvc/setup')
  t.match(setup, 'Acquire::http::Proxy')
  t.match(setup, 'auto-apt-proxy')
  t.match(setup, '_apt_proxy._tcp.example.org. 3600 IN SRV 0 0 3142 cache.example.org.')
  t.match(setup, /GitLab CI[\s\S]*before_script/)
})
