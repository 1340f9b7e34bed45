import t from 'tap'
import { loginBounds, logoutBounds, WorkerPool } from '../../../lib/auth/idp/worker/pool.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

t.test('300 people who sign in at the same moment all get a session', async t => {
  // The real threads and bounds; deadlines do not pass, so that a slow machine changes nothing.
  const clock = new ManualClock(0)
  const verifiers = {
    login: new WorkerPool(clock, loginBounds),
    logout: new WorkerPool(clock, logoutBounds),
  }
  t.teardown(() => Promise.all(Object.values(verifiers).map(pool => pool.close())))
  const lab = await SamlLab.open(t, 'entra', { substitutes: { verifiers } })
  const answers: Array<() => Promise<unknown>> = []
  for (let i = 0; i < 300; i += 1) {
    const browser = lab.browser.other()
    const { id: inResponseTo, relayState } = await browser.login('/')
    const text = lab.idp.respond({ inResponseTo })
    answers.push(() => browser.deliver(text, relayState))
  }
  await Promise.all(answers.map(answer => answer()))
  t.strictSame(lab.codes, [])
  t.equal(lab.sessions.size, 300)
})

t.test('an answer no thread is free for gets a page, and uses up nothing of its login', async t => {
  const clock = new ManualClock(0)
  const full = { ...loginBounds, threads: 0, waitingBytes: 0 }
  const verifiers = { login: new WorkerPool(clock, full), logout: new WorkerPool(clock, full) }
  const lab = await SamlLab.open(t, 'entra', { substitutes: { verifiers } })
  const { id: inResponseTo, relayState } = await lab.browser.login('/')
  const text = lab.idp.respond({ inResponseTo })
  t.equal((await lab.browser.deliver(text, relayState)).status, 503)
  t.match(lab.failures.at(-1), { code: 'verifier_busy' })
  t.equal(lab.sessions.size, 0)
  verifiers.login = new WorkerPool(clock, loginBounds)
  t.teardown(() => verifiers.login.close())
  await lab.browser.deliver(text, relayState)
  t.equal(lab.sessions.size, 1)
})
