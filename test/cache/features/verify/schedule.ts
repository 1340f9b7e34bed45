import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { VerificationReport, WrongFile } from '../../../../lib/cache/features/verify/report.ts'
import { VerificationSchedule } from '../../../../lib/cache/features/verify/schedule.ts'
import type { ThreadOptions } from '../../../../lib/cache/features/verify/thread.ts'
import { config } from '../../../fixtures/cache/cache-config.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { until } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

const wrong: WrongFile = { key: 'k', digest: 'd', because: 'content', sentence: 's' }

/** A schedule whose checks end when they are told to. */
async function scheduled(t: Test, directory = t.testdir(), start = Date.UTC(2025, 1, 1)) {
  const clock = new ManualClock(start)
  const log = createMemoryLog()
  const runs: ThreadOptions[] = []
  const evicted: string[] = []
  const checked: string[] = []
  const state = { interval: day, fail: false }
  const schedule = await VerificationSchedule.start({
    directory,
    clock,
    log,
    settings: () => ({
      ...config(''),
      verification: { interval: state.interval, rate: 1000, maxAge: 0 },
    }),
    store: {
      evict: async key => evicted.push(key) > 0,
      noteChecked: digests => checked.push(...digests),
    },
    onWarning: () => undefined,
    run: async options => {
      runs.push(options)
      if (state.fail) throw new Error('the disk is gone')
      options.onWrong(wrong)
      options.onWhole?.(['whole'])
      return reportAt(clock.now())
    },
  })
  t.teardown(() => schedule.close())
  /** Turns the clock in steps, and lets what begins come to its end. */
  const pass = async (time: number) => {
    for (let left = time; left > 0; left -= 5 * minute) {
      clock.advance(5 * minute)
      await until(() => !schedule.running)
    }
  }
  return { schedule, clock, log, runs, evicted, checked, state, pass, directory }
}

function reportAt(now: number): VerificationReport {
  return {
    version: 1,
    started: new Date(now - minute).toISOString(),
    finished: new Date(now).toISOString(),
    files: 7,
    contents: 6,
    bytes: 5,
    repositories: [],
    confirmed: 4,
    wrong: [wrong],
    unchecked: { 'no-index': 0, weak: 0, unreadable: 0, changed: 0 },
    contradictions: [],
    unread: [],
  }
}

t.test('a while after the start, then every interval', async t => {
  const { schedule, runs, evicted, checked, pass, log, clock } = await scheduled(t)
  await pass(25 * minute)
  t.equal(runs.length, 0)
  t.equal(schedule.last, undefined)
  await pass(5 * minute)
  t.equal(runs.length, 1)
  t.match(runs[0], { rate: 1000 })
  t.strictSame(evicted, [wrong.key])
  t.strictSame(checked, ['whole'])
  t.match(schedule.last, { finished: clock.now(), took: minute, files: 7, confirmed: 4, wrong: 1 })
  t.match(log.lines.at(-1), { message: 'verification: finished', facts: { files: 7, wrong: 1 } })
  await pass(day - 5 * minute)
  t.equal(runs.length, 1)
  await pass(5 * minute)
  t.equal(runs.length, 2)
})

t.test('the last check is known after a restart', async t => {
  const first = await scheduled(t)
  await first.pass(30 * minute)
  await first.schedule.close()
  const { directory, clock } = first
  const second = await scheduled(t, directory, clock.now() + 2 * hour)
  t.strictSame(second.schedule.last, first.schedule.last)
  await second.pass(21 * hour)
  t.equal(second.runs.length, 0)
  await second.pass(hour)
  t.equal(second.runs.length, 1)
  const back = await scheduled(t, directory, clock.now() - 9 * day)
  await back.pass(30 * minute)
  t.equal(back.runs.length, 1, 'a check of the future is none')
})

t.test('a file that is none is no last check', async t => {
  for (const text of ['', 'x', '[]', '{"version":2}', '{"version":1,"finished":"soon"}']) {
    const directory = t.testdir()
    writeFileSync(join(directory, 'verification.json'), text)
    t.equal((await scheduled(t, directory)).schedule.last, undefined, text)
  }
})

t.test('an interval of zero is never, and can be changed while it runs', async t => {
  const { runs, state, pass } = await scheduled(t)
  state.interval = 0
  await pass(2 * day)
  t.equal(runs.length, 0)
  state.interval = hour
  await pass(5 * minute)
  t.equal(runs.length, 1)
})

t.test('what broke off is tried again after an hour', async t => {
  const { runs, state, pass, log, schedule } = await scheduled(t)
  state.fail = true
  await pass(30 * minute)
  t.match(log.lines.at(-1), { level: 'warn', facts: { because: 'the disk is gone' } })
  t.equal(schedule.last, undefined)
  await pass(55 * minute)
  t.equal(runs.length, 1)
  await pass(5 * minute)
  t.equal(runs.length, 2)
})

t.test('closing breaks off a check that runs', async t => {
  const clock = new ManualClock(0)
  const log = createMemoryLog()
  const schedule = await VerificationSchedule.start({
    directory: t.testdir(),
    clock,
    log,
    settings: () => ({ ...config(''), verification: { interval: day, rate: 0, maxAge: 0 } }),
    store: { evict: async () => true, noteChecked: () => undefined },
    onWarning: () => undefined,
    run: ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })
  clock.advance(30 * minute)
  t.ok(schedule.running)
  await schedule.close()
  t.notOk(schedule.running)
  t.strictSame(
    log.lines.filter(({ level }) => level === 'warn'),
    [],
  )
})
