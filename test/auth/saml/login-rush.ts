import t from 'tap'
import { SamlLab } from '../../fixtures/saml-lab.ts'

t.setTimeout(120_000)

t.test('300 people who sign in at the same moment all get a session', async t => {
  const lab = await SamlLab.open(t, 'entra')
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
