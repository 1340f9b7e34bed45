/**
 * Names and attributes that are encrypted on their own: read as if they had come in the open.
 */
import t, { type Test } from 'tap'
import { encryptElement } from '../../../demo/idp/encrypt.ts'
import { type ProfileName, profiles } from '../../../demo/idp/profile.ts'
import { assertionXml, responseXml } from '../../../demo/idp/response.ts'
import { logoutRequestXml } from '../../../lib/saml/binding/message-xml.ts'
import { redirectAddress } from '../../../lib/saml/binding/redirect.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { formOf, pathOf } from '../../fixtures/saml/browser.ts'
import { alice, sp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { keyPair, SamlLab } from '../../fixtures/saml/lab.ts'

const { certificate } = rsaPair('sp')
const methods = { content: 'aes256-gcm', key: 'rsa-oaep-sha256' } as const

/** Signs in with an answer whose parts are encrypted; the codes of failures. */
async function signInEncrypted(lab: SamlLab) {
  const asked = await lab.browser.login('/')
  const parts = { encryptTo: certificate, encryptParts: true }
  const xml = lab.idp.respond({ inResponseTo: asked.id, ...parts })
  const answer = await lab.browser.deliver(xml, asked.relayState)
  return { xml, answer }
}

for (const profile of Object.keys(profiles) as ProfileName[]) {
  t.test(`with an IdP like ${profile}`, async t => {
    const lab = await SamlLab.open(t, profile)
    const { xml, answer } = await signInEncrypted(lab)
    t.match(xml, /<saml:EncryptedID[\s\S]*<saml:EncryptedAttribute/)
    t.notMatch(xml, 'alice')
    t.equal(answer.status, 303)
    t.strictSame(lab.codes, [])
    const [subject] = lab.subjects
    const expected = profiles[profile]
    t.match(subject?.nameId, expected.nameId(alice))
    t.strictSame(
      subject?.attributes.map(({ name, values }) => ({ name, values })),
      expected.attributes(alice).map(({ name, values }) => ({ name, values })),
    )
  })
}

t.test('in the open and encrypted side by side, in their order', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const attribute = (name: string, more = '') =>
    `<saml:Attribute${more} Name="${name}"><saml:AttributeValue>${name}</saml:AttributeValue></saml:Attribute>`
  const alone = ` xmlns:saml="${ns.assertion}"`
  const secret = encryptElement('EncryptedAttribute', attribute('b', alone), {
    ...{ certificate, methods },
  })
  const asked = await lab.browser.login('/')
  const attributesXml = `${attribute('a')}${secret}${attribute('c')}`
  const xml = lab.idp.respond({ inResponseTo: asked.id, assertion: { attributesXml } })
  await lab.browser.deliver(xml, asked.relayState)
  t.strictSame(
    lab.subjects[0]?.attributes.map(({ name, values }) => [name, ...values]),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
    ],
  )
})

t.test('with the key before the last, as after a rotation', async t => {
  const lab = await SamlLab.open(t, 'okta')
  lab.pairs = [keyPair('newer'), keyPair('sp')]
  t.equal((await signInEncrypted(lab)).answer.status, 303)
})

t.test('inside an assertion that is encrypted as a whole', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const { response, assertion, key } = lab.idp.writing({ inResponseTo: asked.id })
  const name = `<saml:NameID xmlns:saml="${ns.assertion}">alice@example.org</saml:NameID>`
  const nameIdXml = encryptElement('EncryptedID', name, { certificate, methods })
  const signed = signElement(assertionXml({ ...assertion, nameIdXml }), { id: assertion.id, key })
  const xml = responseXml(
    response,
    encryptElement('EncryptedAssertion', signed, { certificate, methods }),
  )
  t.equal((await lab.browser.deliver(xml, asked.relayState)).status, 303)
  t.equal(lab.subjects[0]?.nameId?.value, 'alice@example.org')
})

t.test('the log names what was left encrypted because it is not read', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const conditions = '<saml:ProxyRestriction><saml:EncryptedID/></saml:ProxyRestriction>'
  const xml = lab.idp.respond({ inResponseTo: asked.id, assertion: { conditions } })
  await lab.browser.deliver(xml, asked.relayState)
  const line = lab.log.lines.find(({ message }) => message === 'signed in')
  t.strictSame(line?.facts['unread'], ['EncryptedID'])
})

/** A LogoutRequest for who is signed in whose name is encrypted. */
function logoutOf(lab: SamlLab): string {
  const nameId = lab.subjects[0]?.nameId
  if (nameId === undefined) throw new Error('there is no NameID')
  const xml = logoutRequestXml({
    ...{ id: '_logout', issuer: lab.idp.entityId, issued: lab.clock.now() },
    ...{ destination: sp.sloUrl, nameId, sessionIndex: lab.subjects[0]?.sessionIndex },
  })
  const plain = /<saml:NameID .*<\/saml:NameID>/s.exec(xml)?.[0] ?? ''
  return xml.replace(plain, () => encryptElement('EncryptedID', plain, { certificate, methods }))
}

async function signedIn(t: Test) {
  const lab = await SamlLab.open(t, 'entra', { config: { allowUnsignedLogout: true } })
  await signInEncrypted(lab)
  return lab
}

t.test('a LogoutRequest may name its person encrypted, by either binding', async t => {
  const posted = await signedIn(t)
  const signed = signElement(logoutOf(posted), { id: '_logout', key: rsaPair('idp') })
  const form = formOf({ SAMLRequest: Buffer.from(signed).toString('base64') })
  t.equal((await posted.browser.post('/saml/slo', form)).status, 303)
  t.match(posted.revoked, [{ nameId: 'alice@example.org' }])
  const redirected = await signedIn(t)
  const message = { name: 'SAMLRequest', xml: logoutOf(redirected) } as const
  const address = redirectAddress(sp.sloUrl, message, rsaPair('idp'))
  t.equal((await redirected.browser.get(pathOf(address))).status, 303)
  t.match(redirected.revoked, [{ nameId: 'alice@example.org' }])
})

t.test('but not without a signature: then nothing is decrypted', async t => {
  const lab = await signedIn(t)
  const posted = logoutOf(lab).replace('_logout', '_posted')
  const form = formOf({ SAMLRequest: Buffer.from(posted).toString('base64') })
  await lab.browser.post('/saml/slo', form)
  const xml = logoutOf(lab)
  await lab.browser.get(pathOf(redirectAddress(sp.sloUrl, { name: 'SAMLRequest', xml }, undefined)))
  t.strictSame(lab.codes, ['logout_encrypted_id', 'logout_encrypted_id'])
})
