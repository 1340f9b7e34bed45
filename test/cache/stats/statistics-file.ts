import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { noCounters, noHour, Statistics } from '../../../lib/cache/stats/statistics.ts'
import {
  decodeDays,
  encodeDays,
  flushInterval,
  StatisticsFile,
  statisticsFileName,
} from '../../../lib/cache/stats/statistics-file.ts'
import type { Facts } from '../../../lib/errors.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

Object.assign(process.env, { TZ: 'UTC' })

const noon = Date.UTC(2025, 2, 14, 12)
const good = { ...noCounters, requests: 3, hits: 2, misses: 1, traffic_up: 30, traffic_down: 10 }

async function open(t: Test, files: Record<string, string> = {}) {
  const directory = t.testdir(files)
  return { directory, ...(await reopen(directory)) }
}

async function reopen(directory: string, clock = new ManualClock(noon)) {
  const warnings: Array<{ sentence: string; facts: Facts }> = []
  const warn = (sentence: string, facts: Facts) => void warnings.push({ sentence, facts })
  const log = await StatisticsFile.open(directory, { clock, warn })
  return { clock, log, warnings, path: join(directory, statisticsFileName) }
}

function written(days: Record<string, unknown>, version: unknown = 1): Record<string, string> {
  return { [statisticsFileName]: JSON.stringify({ version, daily: days }) }
}

/** The file once `accept` says it is the one awaited; the timeout of the test is the deadline. */
async function eventually(path: string, accept: (text: string) => boolean): Promise<string> {
  for (;;) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (accept(text)) return text
    await new Promise(resolve => setImmediate(resolve))
  }
}

t.test('what was counted is there after a restart', async t => {
  const { directory, log } = await open(t)
  log.statistics.hit(100)
  log.statistics.tunnel()
  await log.close()
  const next = await reopen(directory)
  t.strictSame([...next.log.statistics.days], [...log.statistics.days])
  t.equal(next.log.statistics.days.get('2025-03-14')?.requests, 2)
  t.strictSame(next.warnings, [])
  await next.log.close()
})

t.test('the file is exactly the documented format, days in order', async t => {
  const { log, path } = await open(t, written({ '2025-03-13': good, '2024-12-31': good }))
  log.statistics.hit(5)
  await log.close()
  t.strictSame(JSON.parse(await readFile(path, 'utf8')), {
    version: 1,
    daily: {
      '2024-12-31': good,
      '2025-03-13': good,
      '2025-03-14': { ...noCounters, requests: 1, hits: 1, traffic_up: 5 },
    },
    unanswered: {},
    recent: { '2025-03-14T12:00:00.000Z': { ...noHour, hits: 1, traffic_up: 5 } },
  })
  t.match(await readFile(path, 'utf8'), /2024-12-31.*2025-03-13.*2025-03-14/)
})

t.test('the timer writes every thirty seconds when something was counted', async t => {
  const { clock, log, path } = await open(t)
  log.statistics.hit(1)
  clock.advance(flushInterval - 1)
  await log.flush()
  await rm(path)
  clock.advance(1)
  await log.flush()
  await t.rejects(stat(path), { code: 'ENOENT' }, 'nothing new, nothing written')
  for (let i = 2; i < 5; i += 1) {
    log.statistics.hit(1)
    clock.advance(flushInterval)
    const text = await eventually(path, text => text.includes(`"requests":${i}`))
    t.match(text, `"hits":${i}`)
  }
  await log.close()
})

t.test('a process that is killed loses one interval at most', async t => {
  const { clock, directory, log, path } = await open(t)
  log.statistics.hit(1)
  clock.advance(flushInterval)
  await eventually(path, text => text.includes('"hits":1'))
  log.statistics.hit(1)
  // No close: this is what a killed process leaves.
  const next = await reopen(directory)
  t.equal(next.log.statistics.days.get('2025-03-14')?.hits, 1)
  await next.log.close()
})

t.test('after close the timer is silent', async t => {
  const { clock, log, path } = await open(t)
  await log.close()
  log.statistics.hit(1)
  clock.advance(flushInterval * 3)
  await new Promise(resolve => setImmediate(resolve))
  await t.rejects(stat(path), { code: 'ENOENT' })
})

t.test('figures counted while the file is being written are written next', async t => {
  const { directory, log } = await open(t)
  log.statistics.hit(1)
  const first = log.flush()
  log.statistics.hit(1)
  await first
  await log.close()
  const next = await reopen(directory)
  t.equal(next.log.statistics.days.get('2025-03-14')?.hits, 2)
  await next.log.close()
})

t.test('a file that cannot be used is set aside, and the log says where', async t => {
  const cases: ReadonlyArray<readonly [name: string, text: string, because: RegExp]> = [
    ['cut short', '{"version":1,"daily":{"2025-03-13":{"requ', /not JSON/],
    ['empty', '', /not JSON/],
    ['zeroed by a power cut', '\0'.repeat(512), /not JSON/],
    ['a list', '[]', /not a JSON object/],
    ['null', 'null', /not a JSON object/],
    ['without version', '{"daily":{}}', /names no version/],
    ['with an old version', '{"version":0,"daily":{}}', /names no version/],
    [
      'of a newer release',
      '{"version":2,"daily":{"x":1}}',
      /version 2, written by a newer release/,
    ],
    ['without days', '{"version":1}', /no "daily"/],
    ['with a list of days', '{"version":1,"daily":[]}', /no "daily"/],
  ]
  for (const [name, text, because] of cases) {
    await t.test(name, async t => {
      const { directory, log, warnings } = await open(t, { [statisticsFileName]: text })
      const aside = `${statisticsFileName}.set-aside-20250314T120000Z`
      t.match(warnings, [{ sentence: /set aside/, facts: { because, aside: new RegExp(aside) } }])
      t.equal(await readFile(join(directory, aside), 'utf8'), text)
      t.equal(log.statistics.days.size, 0)
      log.statistics.hit(1)
      await log.close()
      t.equal((await reopen(directory)).log.statistics.days.size, 1, 'counting starts anew')
    })
  }
})

t.test('one unreadable day does not lose the others, nor itself', async t => {
  const days: Record<string, unknown> = {
    '2025-03-12': good,
    '2025-02-30': good,
    yesterday: good,
    '2025-03-01': null,
    '2025-03-02': [],
    '2025-03-03': { ...good, hits: -1 },
    '2025-03-04': { ...good, hits: 1.5 },
    '2025-03-05': { ...good, traffic_up: '12' },
    '2025-03-06': { ...good, traffic_up: 1e300 },
    '2025-03-07': { requests: 0 },
    '2025-03-08': { ...good, requests: 99 },
    '2025-03-13': good,
  }
  const { directory, log, warnings } = await open(t, written(days))
  t.strictSame([...log.statistics.days.keys()], ['2025-03-12', '2025-03-13'])
  t.match(warnings, [{ sentence: /some days make no sense/, facts: { count: 10 } }])
  log.statistics.hit(1)
  await log.close()
  const names = (await readdir(directory)).sort()
  t.strictSame(names, [statisticsFileName, `${statisticsFileName}.set-aside-20250314T120000Z`])
  t.strictSame(JSON.parse(await readFile(join(directory, names[1] ?? ''), 'utf8')).daily, days)
  const next = await reopen(directory)
  t.strictSame(next.warnings, [], 'it is said once')
  t.equal(next.log.statistics.days.size, 3)
})

t.test('a file far too large is not read', async t => {
  const { log, path, directory } = await open(t)
  await log.close()
  await writeFile(path, Buffer.alloc(16 * 1024 * 1024 + 1, 0x20))
  const next = await reopen(directory)
  t.match(next.warnings, [{ facts: { because: /16777217 bytes/ } }])
})

t.test('a name of an object’s own machinery is only an unreadable day', async t => {
  const decoded = decodeDays('{"version":1,"daily":{"__proto__":{},"constructor":1}}')
  t.match(decoded, { unreadable: ['__proto__', 'constructor'] })
})

t.test('what is written can be read, whatever the days', async t => {
  const statistics = new Statistics(new ManualClock(noon))
  statistics.miss(0)
  statistics.fetched(Number.MAX_SAFE_INTEGER)
  t.match(decodeDays(encodeDays(statistics.days)), { days: statistics.days, unreadable: [] })
})

t.test('a disk that refuses stops nothing, is reported once, and is tried again', async t => {
  const { directory, clock, log, warnings, path } = await open(t)
  await rm(directory, { recursive: true })
  log.statistics.hit(1)
  clock.advance(flushInterval)
  await log.flush()
  await log.flush()
  t.match(warnings, [{ sentence: /cannot be written/, facts: { because: /ENOENT/ } }])
  log.statistics.hit(1)
  await mkdir(directory)
  clock.advance(flushInterval)
  await eventually(path, text => text.includes('"hits":2'))
  await rm(directory, { recursive: true })
  log.statistics.hit(1)
  await log.flush()
  t.equal(warnings.length, 2, 'a new failure after a success is reported again')
  await mkdir(directory)
  await log.close()
})

const root = process.getuid?.() === 0 ? 'root may read everything' : false

t.test('a file that may not be read is set aside too', { skip: root }, async t => {
  const { directory, log } = await open(t, written({ '2025-03-13': good }))
  await log.close()
  await chmod(join(directory, statisticsFileName), 0)
  const next = await reopen(directory)
  t.match(next.warnings, [{ facts: { because: /EACCES/ } }])
})

t.test('a directory in the file’s place is set aside', async t => {
  const directory = t.testdir({ [statisticsFileName]: {} })
  const { log, warnings } = await reopen(directory)
  t.match(warnings, [{ sentence: /set aside/, facts: { because: /EISDIR/ } }])
  log.statistics.hit(1)
  await log.close()
  t.equal((await reopen(directory)).log.statistics.days.size, 1)
})

t.test('flushes that wait for the same write are one', async t => {
  const { log } = await open(t)
  log.statistics.hit(1)
  const first = log.flush()
  await Promise.resolve()
  t.equal(log.flush(), log.flush())
  await Promise.all([first, log.flush()])
  await log.close()
})

t.test('refused and failed requests and the hours are kept; what makes no sense is left out', t => {
  const statistics = new Statistics(new ManualClock(noon))
  statistics.hit(5)
  statistics.unanswered('refused')
  const { days, history } = statistics
  t.strictSame(decodeDays(encodeDays(days, history)).history, history)
  const none = { unanswered: new Map(), hours: [] }
  for (const rest of [
    '',
    ',"unanswered":[],"recent":null',
    ',"unanswered":{"2025-02-30":{"refused":1,"failed":1},"2025-01-01":{"refused":-1,"failed":1}}',
    ',"recent":{"today":{},"2025-03-14T12:00:00.000Z":{"hits":-1},"2025-03-14T11:00:00.000Z":1}',
  ]) {
    const decoded = decodeDays(`{"version":1,"daily":{}${rest}}`)
    t.strictSame(decoded.history, none, rest)
    t.strictSame(decoded.unreadable, [])
  }
  t.end()
})

t.test('a file with more hours than a day has is cut', t => {
  const moment = (i: number) => new Date(noon - i * 3_600_000).toISOString()
  const recent = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [moment(i), noHour]))
  const { hours } = decodeDays(JSON.stringify({ version: 1, daily: {}, recent })).history
  t.equal(hours.length, 100)
  t.equal(hours.at(-1)?.from, noon)
  t.end()
})
