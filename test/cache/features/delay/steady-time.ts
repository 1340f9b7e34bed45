/**
 * The time by which generations age.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { SteadyTime } from '../../../../lib/cache/features/delay/steady-time.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const hour = 3600 * 1000
const begin = Date.UTC(2025, 0, 1)

t.test('it goes with elapsed time, and no clock sets it', async t => {
  const clock = new ManualClock(begin)
  const log = createMemoryLog()
  const steady = await SteadyTime.open({ cacheDirectory: t.testdir({}), clock, log })
  t.equal(steady.now(), begin)
  clock.advance(hour)
  t.equal(steady.now(), begin + hour)
  for (const to of [begin + 10_000 * hour, 0, begin]) {
    clock.set(to)
    t.equal(steady.now(), begin + hour)
  }
  steady.proved(begin + 5 * hour)
  t.equal(steady.now(), begin + hour, 'the clock of the machine does not agree')
  clock.set(begin + 3 * hour)
  steady.proved(begin + 5 * hour)
  t.equal(steady.now(), begin + 3 * hour, 'as far as it does')
  steady.proved(begin)
  t.equal(steady.now(), begin + 3 * hour, 'never back')
})

t.test('it stands while the service is stopped, until a date proves what has passed', async t => {
  const clock = new ManualClock(begin)
  const log = createMemoryLog()
  const parts = { cacheDirectory: t.testdir({}), clock, log }
  const first = await SteadyTime.open(parts)
  await first.save()
  await t.rejects(readFile(join(parts.cacheDirectory, 'steady-time.json')), 'it was not asked for')
  first.now()
  clock.advance(2 * hour)
  await first.save()
  clock.set(begin + 1000 * hour)
  const second = await SteadyTime.open(parts)
  t.equal(second.now(), begin + 2 * hour)
  second.proved(begin + 700 * hour)
  t.equal(second.now(), begin + 700 * hour)
  await second.save()
  t.equal((await SteadyTime.open(parts)).now(), begin + 700 * hour)
  for (const text of ['', '{}', '{"version":2,"time":1}', '{"version":1,"time":"x"}', '[1]']) {
    await writeFile(join(parts.cacheDirectory, 'steady-time.json'), text)
    t.equal((await SteadyTime.open(parts)).now(), clock.now(), `${text} is none`)
  }
})
