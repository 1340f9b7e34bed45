import t from 'tap'
import { logoutRequestXml } from '../../../lib/auth/saml/binding/message-xml.ts'
import { signElement } from '../../../lib/auth/saml/signature/sign.ts'
import { makeClient } from '../../fixtures/http/origin-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { formOf } from '../../fixtures/saml/browser.ts'
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
  return { lab, origin, changeKey }
}

t.test('no login fails when the IdP changes its key overnight', async t => {
  const { lab, origin, changeKey } = await open(t, 'okta')
  const before = await lab.browser.login('/')
  changeKey()
  await lab.browser.deliver(lab.idp.respond({ inResponseTo: before.id }))
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

t.test('no logout by POST fails then either', async t => {
  const { lab, origin, changeKey } = await open(t, 'entra')
  await signIn(lab)
  changeKey()
  const [subject] = lab.subjects
  if (subject?.nameId === undefined) throw new Error('there is no NameID')
  const xml = logoutRequestXml({
    id: '_theirs',
    issuer: lab.idp.entityId,
    issued: lab.clock.now(),
    destination: sp.sloUrl,
    nameId: subject.nameId,
    sessionIndex: subject.sessionIndex,
  })
  const signed = signElement(xml, { id: '_theirs', key: rsaPair('next') })
  await lab.browser.post(
    '/saml/slo',
    formOf({ SAMLRequest: Buffer.from(signed).toString('base64') }),
  )
  t.strictSame(lab.codes, [])
  t.equal(lab.revoked.length, 1)
  t.equal(origin.seen('/metadata').length, 2)
})
