import t from 'tap'
import { logoutRequestXml } from '../../../lib/saml/binding/message-xml.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { makeClient } from '../../fixtures/http/origin-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { formOf, hrefOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { ScriptedIdp, sp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'

type Test = Parameters<typeof ScriptedOrigin.listen>[0] & Parameters<typeof SamlLab.open>[0]

async function open(t: Test, profile: 'okta' | 'entra') {
  const origin = await ScriptedOrigin.listen(t)
  const idp = new ScriptedIdp(profile, { now: () => 0 })
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const { client } = makeClient(t)
  const lab = await SamlLab.open(t, profile, {
    config: { idpMetadata: { from: 'url', url: origin.url('/metadata') } },
    substitutes: { origin: client },
  })
  const changeKey = () => {
    idp.key = rsaPair('next')
    lab.idp.key = rsaPair('next')
    origin.at('/metadata', reply({ content: idp.metadata() }))
  }
  return { lab, idp, origin, changeKey }
}

/** A LogoutRequest for the session of the last login. */
function logoutOf(lab: SamlLab): string {
  const subject = lab.subjects.at(-1)
  if (subject?.nameId === undefined) throw new Error('there is no NameID')
  return logoutRequestXml({
    id: '_theirs',
    issuer: lab.idp.entityId,
    issued: lab.clock.now(),
    destination: sp.sloUrl,
    nameId: subject.nameId,
    sessionIndex: subject.sessionIndex,
  })
}

t.test('no login fails when the IdP changes its key overnight', async t => {
  const { lab, idp, origin, changeKey } = await open(t, 'okta')
  const before = await lab.browser.login('/deep')
  changeKey()
  let deliver = () => {}
  const held = new Promise<void>(resolve => {
    deliver = resolve
  })
  const content = idp.metadata()
  origin.at('/metadata', async answer => {
    await held
    await reply({ content })(answer)
  })
  const answer = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: before.id }),
    before.relayState,
  )
  t.equal(answer.status, 303, 'the answer does not wait for the metadata')
  const navigation = ['Sec-Fetch-Mode', 'navigate'] as const
  const page = await lab.browser.get(pathOf(hrefOf(answer)), navigation)
  const begins = lab.browser.get(pathOf(hrefOf(page)), navigation)
  deliver()
  const again = readAsked(await begins)
  await lab.browser.deliver(lab.idp.respond({ inResponseTo: again.id }), again.relayState)
  t.strictSame(lab.codes, [])
  t.equal(lab.subjects.length, 1)
  t.equal(origin.seen('/metadata').length, 2)

  const browser = lab.browser.other()
  for (let i = 0; i < 3; i += 1) {
    const asked = await browser.login('/')
    await browser.deliver(lab.idp.respond({ inResponseTo: asked.id, key: rsaPair('stranger') }))
  }
  t.strictSame(lab.codes, Array(3).fill('signature_invalid'))
  t.equal(origin.seen('/metadata').length, 2, 'a forger does not make us ask again at once')
})

t.test(
  'a logout message with a wrong signature does not wait for metadata that does not come',
  async t => {
    const { lab, origin } = await open(t, 'entra')
    await signIn(lab)
    let release = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    t.teardown(release)
    origin.at('/metadata', () => held)
    let settled = false
    const signed = signElement(logoutOf(lab), { id: '_theirs', key: rsaPair('stranger') })
    const form = formOf({ SAMLRequest: Buffer.from(signed).toString('base64') })
    const answered = lab.browser.post('/saml/slo', form).finally(() => {
      settled = true
    })
    while (origin.seen('/metadata').length < 2) {
      await new Promise(resolve => setImmediate(resolve))
    }
    t.notOk(settled)
    lab.clock.advance(5000)
    await answered
    t.strictSame(lab.codes, ['logout_signature_invalid'])
  },
)

t.test('no logout by POST fails then either', async t => {
  const { lab, origin, changeKey } = await open(t, 'entra')
  await signIn(lab)
  changeKey()
  const signed = signElement(logoutOf(lab), { id: '_theirs', key: rsaPair('next') })
  await lab.browser.post(
    '/saml/slo',
    formOf({ SAMLRequest: Buffer.from(signed).toString('base64') }),
  )
  t.strictSame(lab.codes, [])
  t.equal(lab.revoked.length, 1)
  t.equal(origin.seen('/metadata').length, 2)
})
