import t from 'tap'
import type { OperationsSources } from '../../../../lib/cache/operations/sources.ts'
import { spark } from '../../../../lib/cache/operations/views/chart.ts'
import { indexView, liveFigures } from '../../../../lib/cache/operations/views/index-view.ts'
import { historyReport, report } from '../../../../lib/cache/stats/report.ts'
import { Statistics } from '../../../../lib/cache/stats/statistics.ts'
import { answered, busy, idle } from '../../../fixtures/cache/activity.ts'
import {
  fullConfig,
  fullSources,
  minute,
  noon,
  pageOf,
  plainConfig,
  sources,
} from '../../../fixtures/cache/operations.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const here = {
  host: 'cache.example.org',
  port: 3142,
  url: 'http://cache.example.org:3142',
  from: 'index.hostnames',
} as const

const viewOf = (given: OperationsSources) => indexView(given, here)

/** Sources with what `count` has counted, beginning 30 hours before. */
function counted(count: (statistics: Statistics, clock: ManualClock) => void): OperationsSources {
  const clock = new ManualClock(noon - 30 * 60 * minute)
  const statistics = new Statistics(clock)
  count(statistics, clock)
  clock.set(noon)
  return fullSources({
    clock,
    statistics: () => report(statistics.days, statistics.today),
    history: () => historyReport(statistics.days, statistics.history, clock.now()),
  })
}

t.test('hit rate and savings are those of 24 hours, over midnight', async t => {
  const given = counted((statistics, clock) => {
    for (let i = 0; i < 9; i += 1) statistics.miss(1000)
    statistics.fetched(9000)
    clock.set(noon - 14 * 60 * minute)
    for (let i = 0; i < 3; i += 1) statistics.hit(2 ** 20)
    clock.set(noon - 13 * 60 * minute)
    statistics.hit(0)
    clock.set(noon)
    statistics.miss(2 ** 20)
    statistics.fetched(2 ** 20)
    statistics.unanswered('failed')
    statistics.problem()
  })
  t.match(liveFigures(given), {
    ...{ dayRate: '80.0%', dayRequests: '5 requests', daySaved: '3.00 MiB' },
    ...{ problemsToday: '1', clientsToday: '38' },
  })
  const { line } = await viewOf(given)
  t.match(line, {
    range: 'Between 0% and 100% in an hour with requests',
    curves: [{}],
    dots: [{ words: '22:00 UTC: 100%' }, { words: '23:00 UTC: 100%' }, { words: '12:00 UTC: 0%' }],
  })
  t.match(await pageOf(given, '/_cachesvc/'), /<desc id="rate-description">Between 0% and 100%/)
})

t.test('a day without requests has no line', async t => {
  const page = await pageOf(sources(), '/_cachesvc/')
  t.match(page, '<strong data-live="dayRate">none</strong>')
  t.notMatch(page, 'rate-title')
})

t.test('a small line goes from the left to the right, from 0 at the ground to 1 at the top', t => {
  const drawn = spark([0, 1, undefined, 0.5], (at, value) => `${at}: ${value}`)
  t.strictSame(drawn.curves, [{ points: '6,78 162,6' }])
  t.strictSame(drawn.dots.at(-1), { x: '474', y: '42', words: '3: 0.5' })
  t.end()
})

t.test('the disk is told as a part of the quota, or of the file system without one', async t => {
  const gibibyte = 2 ** 30
  const filesystem = { total: 100 * gibibyte, used: 60 * gibibyte, free: 30 * gibibyte }
  const usage = () => ({ objects: 1, bytes: 20 * gibibyte, filesystem })
  const retention = { ...plainConfig.retention, size: 80 * gibibyte }
  t.match(await viewOf(sources({ usage })), {
    ...{ stored: '20.0 GiB', quota: false, free: '30.0 GiB free', full: false },
    gauge: { taken: '22.2', words: '22.2% of the file system' },
  })
  const limited = sources({ usage, config: { ...plainConfig, retention } })
  t.match(await viewOf(limited), {
    ...{ stored: '20.0 GiB', quota: '80.0 GiB', free: '30.0 GiB free' },
    gauge: { taken: '25.0', words: '25.0% of the quota' },
  })
  const none = () => ({ objects: 0, bytes: 0, filesystem: undefined })
  t.match(await viewOf(sources({ usage: none })), { gauge: false, free: false })
  const silent = () => Promise.reject(new Error('the disk fails'))
  t.match(await viewOf(sources({ usage: silent })), { gauge: false, stored: 'unknown' })
  const full = sources({ usage, nothingStored: () => 'the file system is full' })
  t.match(await pageOf(full, '/_cachesvc/'), 'Nothing new is stored.')
  t.notMatch(await pageOf(sources({ usage }), '/_cachesvc/'), 'Nothing new is stored.')
})

t.test('how to use it stands there until another machine asks, then on the setup page', async t => {
  const tally = { requests: 3, hits: 0, bytes: 0, last: noon }
  const asked = (...names: string[]) => {
    return { ...idle, clients: names.map(name => ({ ...tally, name })) }
  }
  const unused = async (changes: Partial<OperationsSources>) => {
    const given = sources(changes)
    const page = await pageOf(given, '/_cachesvc/')
    t.match(await pageOf(given, '/_cachesvc/setup'), 'Acquire::http::Proxy')
    return page.includes('<h2 id="use">')
  }
  t.ok(await unused({}), 'no request')
  t.ok(await unused({ activity: () => asked('127.0.0.1', '::1') }), 'this machine alone')
  t.notOk(await unused({ activity: () => asked('127.0.0.1', '192.0.2.9') }))
  const { statistics } = fullSources()
  t.notOk(await unused({ statistics }), 'after a restart')
})

t.test('a run of a client is one line, with its requests folded below', async t => {
  const page = await pageOf(fullSources(), '/_cachesvc/')
  const lines = [...page.matchAll(/<summary>(.*)<\/summary>/g)].map(([, line = '']) =>
    line.replace(/<[^>]*>/g, ''),
  )
  t.strictSame(lines, [
    '192.0.2.99, apt, 11:59:00–11:59:55, 132 requests, 120 hits, 84.0 MiB',
    '2001:db8::7, debootstrap, 2025-03-13 11:00:00–11:01:00, 1 request, 0 hits, 0 bytes, 1 problem',
  ])
  t.match(page, 'And 130 earlier requests: the log has them.')
  const [first = ''] = page.split('</details>')
  t.ok(first.indexOf('hit, immutable') < first.indexOf('miss, absent'), 'the latest first')
  t.match(page, '<small>by 192.0.2.99, apt</small>', 'a problem names its client')
})

t.test('runs are shown with index.activity alone, and a bounded number of them', async t => {
  const [run] = busy.runs
  if (run === undefined) throw new Error('the fixture has a run')
  const runs = Array.from({ length: 20 }, () => ({ ...run, requests: [answered()] }))
  const activity = () => ({ ...busy, runs })
  const page = await pageOf(fullSources({ activity }), '/_cachesvc/')
  t.equal(page.match(/<details/g)?.length, 12)
  const index = { ...fullConfig.index, activity: false }
  const config = { ...fullConfig, index }
  t.notMatch(await pageOf(fullSources({ activity, config }), '/_cachesvc/'), '<details')
})
