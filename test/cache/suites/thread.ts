/**
 * The thread adoptions run in: a job that fails or takes too long ends alone, and preparations go first.
 */
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Job } from '../../../lib/cache/suites/adopt.ts'
import { AdoptionThread, longestJob } from '../../../lib/cache/suites/thread.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

/** Answers each job with its key; exits at some, and never answers others. */
const code = `
const { parentPort } = require('node:worker_threads')
parentPort.on('message', ({ at }) => {
  if (at === 'exit') process.exit(1)
  if (at === 'slow') for (;;);
  parentPort.postMessage({ adoption: { refused: [at] } })
})`

function job(at: string, inUse?: readonly string[]): Job {
  const about = { cacheDirectory: '', releases: [], adopted: undefined, now: 0, mostTableBytes: 0 }
  return { ...about, at, policy: { verify: 'prefer', keyrings: [] }, ...(inUse && { inUse }) }
}

function threadOf(clock: ManualClock): AdoptionThread {
  return new AdoptionThread(clock, () => {
    // It keeps the test alive.
    return Object.assign(new Worker(code, { eval: true }), { unref: () => undefined })
  })
}

t.test('the death of the thread ends the running job alone', async t => {
  const thread = threadOf(new ManualClock(0))
  t.teardown(() => thread.close())
  const [first, second] = [thread.run(job('exit')), thread.run(job('next'))]
  await t.rejects(first, /ended early/)
  t.strictSame((await second).refused, ['next'])
})

t.test('a job that takes too long is ended, and the next begins', async t => {
  const clock = new ManualClock(0)
  const thread = threadOf(clock)
  t.teardown(() => thread.close())
  const [first, second] = [thread.run(job('slow')), thread.run(job('next'))]
  clock.advance(longestJob)
  await t.rejects(first, /too long/)
  t.strictSame((await second).refused, ['next'])
})

t.test('preparations go before adoptions that wait', async t => {
  const thread = threadOf(new ManualClock(0))
  t.teardown(() => thread.close())
  const order: string[] = []
  const run = async (of: Job) => order.push(...(await thread.run(of)).refused)
  await Promise.all([run(job('a')), run(job('b')), run(job('prepare', []))])
  t.strictSame(order, ['a', 'prepare', 'b'])
})

t.test('what waits is rejected when the service stops', async t => {
  const thread = threadOf(new ManualClock(0))
  const [first, second] = [thread.run(job('slow')), thread.run(job('next'))]
  await Promise.all([
    t.rejects(first, /stops/),
    t.rejects(second, /stops/),
    t.rejects(
      thread.close().then(() => thread.run(job('late'))),
      /stops/,
    ),
  ])
})
