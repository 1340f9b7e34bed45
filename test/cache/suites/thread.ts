/**
 * The thread adoptions run in: a job that fails or takes too long ends alone, and preparations go first.
 */
import { Worker } from 'node:worker_threads'
import t from 'tap'
import type { Job } from '../../../lib/cache/suites/adopt.ts'
import { AdoptionThreads, longestJob, quickTime } from '../../../lib/cache/suites/thread.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

/** Answers each job with its key; exits at some, and never answers others. */
const code = `
const { parentPort } = require('node:worker_threads')
parentPort.on('message', ({ at }) => {
  if (at === 'exit') process.exit(1)
  if (/slow/.test(at)) for (;;);
  parentPort.postMessage({ adoption: { refused: [at] } })
})`

/** A job of an archive of its own. */
function jobAt(host: string, listed?: true): Job {
  const about = job(`http://${host}/debian/dists/stable`)
  return { ...about, policy: { ...about.policy, ...(listed && { listed }) } }
}

function job(at: string, inUse?: readonly string[]): Job {
  const about = { cacheDirectory: '', releases: [], adopted: undefined, now: 0, mostTableBytes: 0 }
  return { ...about, at, policy: { verify: 'prefer', keyrings: [] }, ...(inUse && { inUse }) }
}

function threadOf(clock: ManualClock): AdoptionThreads {
  return new AdoptionThreads(clock, () => {
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

t.test('archives of strangers do not keep those of others waiting', async t => {
  const clock = new ManualClock(0)
  const thread = threadOf(clock)
  const hosts = [1, 2, 3, 4, 5, 6].map(n => `slow${n}.example.com`)
  const slow = hosts.map(host => thread.run(jobAt(host)))
  const ended = Promise.allSettled(slow)
  const honest = thread.run(jobAt('honest.example.org'))
  for (const _ of hosts) clock.advance(quickTime)
  t.match((await honest).refused, [/honest/], 'within seven turns')
  await thread.close()
  t.match(
    await ended,
    slow.map(() => ({ status: 'rejected' })),
  )
})

t.test('an archive that has had its time goes behind others, whenever its jobs came', async t => {
  const clock = new ManualClock(0)
  const thread = threadOf(clock)
  const slow = [1, 2, 3].map(() => thread.run(jobAt('slow.example.com')))
  const ended = Promise.allSettled(slow)
  const honest = thread.run(jobAt('honest.example.org'))
  clock.advance(quickTime)
  t.match((await honest).refused, [/honest/])
  await thread.close()
  await ended
})

t.test('a job that left the quick lane goes on in its thread', async t => {
  const clock = new ManualClock(0)
  const messages: string[] = []
  const code = `
const { parentPort } = require('node:worker_threads')
let held
parentPort.on('message', ({ at, go }) => {
  if (go) return parentPort.postMessage({ adoption: { refused: [held] } })
  if (/long/.test(at)) held = at
  else parentPort.postMessage({ adoption: { refused: [at] } })
})`
  const workers: Worker[] = []
  const thread = new AdoptionThreads(clock, () => {
    const worker = new Worker(code, { eval: true })
    workers.push(worker)
    return Object.assign(worker, { unref: () => undefined })
  })
  t.teardown(() => thread.close())
  const long = thread
    .run(jobAt('long.example.org'))
    .then(({ refused }) => messages.push(...refused))
  const next = thread.run(jobAt('next.example.org'))
  clock.advance(quickTime)
  t.match((await next).refused, [/next/])
  t.strictSame(messages, [])
  t.equal(thread.jobs, 1)
  workers[0]?.postMessage({ go: true })
  await long
  t.match(messages, [/long/])
  t.equal(workers.length, 2)
})

t.test('archives that the configuration lists go first and are not interrupted', async t => {
  const clock = new ManualClock(0)
  const thread = threadOf(clock)
  const stranger = thread.run(jobAt('slow.example.com'))
  const ended = Promise.allSettled([stranger])
  const order: string[] = []
  const run = async (of: Job) => order.push(...(await thread.run(of)).refused)
  const both = [run(jobAt('other.example.com')), run(jobAt('listed.example.org', true))]
  clock.advance(quickTime)
  await Promise.all(both)
  t.match(order, [/listed/, /other/])
  await thread.close()
  await ended
})
