import { setImmediate } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import t from 'tap'
import { loginBounds, type PoolBounds, WorkerPool } from '../../../../lib/auth/idp/worker/pool.ts'
import { ScriptedIdp } from '../../../fixtures/saml/idp.ts'
import { rsaPair } from '../../../fixtures/saml/keys.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const rules = { certificates: [rsaPair('idp').certificate], decryptionKeys: [], allowSha1: false }

function open(t: { teardown(action: () => unknown): void }, options: Partial<PoolBounds> = {}) {
  const clock = new ManualClock(0)
  const pool = new WorkerPool(clock, { ...loginBounds, ...options })
  t.teardown(() => pool.close())
  const verify = (encoded = response) => pool.run({ kind: 'response', encoded, rules })
  /** A job of the client with this address: whether it was done, or the code of the failure. */
  const by = (address: string, hasBegunLogin = false) =>
    pool.run({ kind: 'response', encoded: response, rules }, { address, hasBegunLogin }).then(
      ({ ok }) => ok,
      ({ code }) => code,
    )
  return { clock, pool, verify, by }
}

const base64 = (text: string) => Buffer.from(text).toString('base64')
const response = base64(new ScriptedIdp('okta', { now: () => 0 }).respond({}))

t.test('jobs get verdicts, more of them than there are threads', async t => {
  const { pool, verify } = open(t, { threads: 1 })
  const verdicts = await Promise.all([1, 2, 3].map(() => verify()))
  t.strictSame(
    verdicts.map(verdict => verdict.ok),
    [true, true, true],
  )
  t.match(await verify(base64('<a')), {
    ok: false,
    because: 'xml_not-well-formed',
  })
  t.match(await verify('!'), { ok: false, because: 'base64' })
  const logout = { bytes: Buffer.from('<a/>'), rules: { ...rules, signedOutside: false } }
  t.match(await pool.run({ kind: 'logout', ...logout }), {
    ok: false,
    because: 'logout_form',
  })
})

t.test('20: a job beyond its deadline costs its thread, and the next has another', async t => {
  const { verify, clock } = open(t, { threads: 1 })
  const late = verify()
  const waiting = verify()
  await setImmediate()
  clock.advance(10_000)
  await t.rejects(late, { code: 'verifier_deadline' })
  t.equal((await waiting).ok, true)
})

t.test('a job that no thread takes in time is refused, and gives its place up', async t => {
  const { verify, clock } = open(t, { threads: 1, patience: 5000 })
  const late = verify()
  const waiting = verify()
  await setImmediate()
  clock.advance(5000)
  await t.rejects(waiting, { code: 'verifier_busy' })
  clock.advance(5000)
  await t.rejects(late, { code: 'verifier_deadline' })
  t.equal((await verify()).ok, true)
})

t.test('those who began a login go first', async t => {
  const { by } = open(t, { threads: 1 })
  const done: string[] = []
  const strangers = ['running', 'a', 'b'].map(address => by(address).then(() => done.push(address)))
  await Promise.all([...strangers, by('a', true).then(() => done.push('known a'))])
  t.strictSame(done, ['running', 'known a', 'a', 'b'])
})

t.test('a full queue drops jobs of strangers before those of known clients', async t => {
  const { by } = open(t, { threads: 1, waitingBytes: 3 * (response.length + 4096) })
  const known = ['running', 'k', 'k'].map(address => by(address, true))
  const strangers = ['a', 'b'].map(address => by(address))
  t.strictSame(await Promise.all([...known, ...strangers, by('k', true)]), [
    ...[true, true, true],
    ...['verifier_busy', 'verifier_busy', true],
  ])
})

t.test('a full queue drops what the client with the most jobs sent last', async t => {
  const { by } = open(t, { threads: 1, waitingBytes: 3 * (response.length + 4096) })
  const jobs = ['busy', 'busy', 'busy', 'busy', 'other'].map(address => by(address))
  t.strictSame(await Promise.all(jobs), [true, true, true, 'verifier_busy', true])
  const full = new WorkerPool(new ManualClock(0), { ...loginBounds, threads: 0, waitingBytes: 0 })
  await t.rejects(full.run({ kind: 'response', encoded: response, rules }), {
    code: 'verifier_busy',
  })
})

t.test(
  'a thread without a job ends after three seconds, one that a browser is expected for after a minute',
  async t => {
    const created: Worker[] = []
    const onWorker = (worker: Worker) => void created.push(worker)
    process.on('worker', onWorker)
    t.teardown(() => process.off('worker', onWorker))
    const { clock, pool, verify } = open(t, { threads: 1 })
    pool.warm()
    await setImmediate()
    t.equal(created.length, 1)
    clock.advance(50_000)
    pool.warm()
    await verify()
    clock.advance(50_000)
    await verify()
    clock.advance(2000)
    await verify()
    t.equal(created.length, 1, 'the same thread did all')
    const [first] = created
    const ended = new Promise(resolve => first?.once('exit', resolve))
    clock.advance(3000)
    await ended
    t.equal((await verify()).ok, true)
    t.equal(created.length, 2, 'the next job has a new one')
    pool.warm()
    t.equal(created.length, 2, 'one that is there is enough')
  },
)

t.test('closing ends what is under way and what waits', async t => {
  const { pool, verify } = open(t, { threads: 1 })
  const both = [verify(), verify()]
  const settled = Promise.allSettled(both)
  await pool.close()
  t.match(await settled, [{ status: 'rejected' }, { status: 'rejected' }])
  await t.rejects(verify(), { code: 'verifier_crashed' })
})

t.test('another thread begins only when many jobs wait, and then does its part', async t => {
  const created: Worker[] = []
  const onWorker = (worker: Worker) => void created.push(worker)
  process.on('worker', onWorker)
  t.teardown(() => process.off('worker', onWorker))
  const { verify } = open(t)
  const few = Array.from({ length: 8 }, () => verify())
  await setImmediate()
  t.equal(created.length, 1)
  const more = Array.from({ length: 8 }, () => verify())
  await setImmediate()
  t.equal(created.length, 2)
  for (const { ok } of await Promise.all([...few, ...more])) t.equal(ok, true)
  await Promise.all([verify(), verify(), verify()])
  t.equal(created.length, 2)
})
