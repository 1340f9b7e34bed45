import t from 'tap'
import { ManualClock } from '../../../lib/async/clock.ts'
import { loginBounds, logoutBounds, WorkerPool } from '../../../lib/auth/saml/worker/pool.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

t.setTimeout(120_000)

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
