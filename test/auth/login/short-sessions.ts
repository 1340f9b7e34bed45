/**
 * An identity provider that lets sessions last for seconds: the page does not blame the cookies.
 */
import t from 'tap'
import { adviceOn } from '../../../lib/auth/explain.ts'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.test('a session of 20 seconds: the page and explain name its end', async t => {
  const clock = new ManualClock(Date.parse('2026-11-20T12:00:00Z'))
  const { browser, idp, log } = await startWhole(t, { clock })
  for (let visit = 0; visit < 3; visit += 1) {
    const assertion = { sessionNotOnOrAfter: clock.now() + 20_000 }
    const { taken } = await browser.signIn(idp, { assertion })
    t.equal(taken.status, 303)
    clock.advance(20_000)
    browser.cookies.delete('__authproxy_session')
  }
  const page = htmlOf(await browser.navigate('/'))
  t.match(page, /Your session ends too soon/)
  t.match(page, /last for 20 seconds/)
  t.notMatch(page, /refuses cookies/)
  const { facts } = log.lines.findLast(({ message }) => message.endsWith('login_loop')) ?? {}
  const record = {
    ...{ id: 'r', at: 0, category: 'SAML-ERROR', code: 'login_loop', status: 403, title: '' },
    ...{ client: '', method: 'GET', path: '/', findings: [], facts: facts ?? {} },
    sender: 'user' as const,
  }
  t.equal(facts?.['setting'], 'session.lifetime')
  const shown = 'lost_session_short'
  t.match(adviceOn({ ...record, shown }).join(' '), /SessionNotOnOrAfter/)
})
