/** What happens to logins and logouts while there is no metadata of the identity provider that may be used. */
import t from 'tap'
import { makeRequest } from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'
import { byRedirect, request } from '../../fixtures/saml/logout.ts'

t.test('no login begins or ends, no message is taken, and sessions go on', async t => {
  const lab = await SamlLab.open(t, 'entra', {
    metadata: { validUntil: Date.parse('2026-11-20T13:00:00Z') },
  })
  await signIn(lab)
  lab.clock.advance(3_600_000 - 60_000)
  const late = lab.browser.other()
  const waiting = await late.login('/')
  lab.clock.advance(60_000)
  const begun = await lab.service.startLogin(makeRequest('GET', '/'), { returnTo: '/' })
  t.equal(begun.status, 503)
  await late.deliver(lab.idp.respond({ inResponseTo: waiting.id }), waiting.relayState)
  await lab.browser.get(byRedirect('SAMLRequest', request(lab)))
  t.same(lab.codes, ['idp_metadata', 'idp_metadata', 'logout_idp_metadata'])
  t.equal(lab.subjects.length, 1)
  t.ok(lab.browser.cookies.has('session'))
  t.match(lab.service.problems(), [/expired/])
})

t.test('an IdP that refuses a login says why in the log, and the page is ours', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const text = lab.idp.respond({
    inResponseTo: asked.id,
    response: { status: 'urn:oasis:names:tc:SAML:2.0:status:Requester' },
  })
  const message = '<samlp:StatusMessage> no <b>licence </samlp:StatusMessage></samlp:Status>'
  for (const [from, said] of [
    [message.replace('<b>', ''), 'the IdP answered Requester: "no licence"'],
    ['</samlp:Status>', 'the IdP answered Requester'],
  ] as const) {
    await lab.browser.deliver(text.replace('</samlp:Status>', from), asked.relayState)
    t.match(lab.failures.at(-1), { code: 'idp_status', facts: { problem: said } })
  }
})

t.test('a key pair that is missing is a problem', async t => {
  const lab = await SamlLab.open(t, 'entra')
  t.same(lab.service.problems(), [])
  t.type(lab.service.readings().ownCertificateEnds, 'number')
  lab.pairs = []
  t.match(lab.service.problems(), [/no SAML key pair/])
  t.equal(lab.service.readings().ownCertificateEnds, undefined)
})

t.test('sessions are told which identity provider is in use', async t => {
  const lab = await SamlLab.open(t, 'entra')
  t.same(lab.issuers, [lab.idp.entityId])
})
