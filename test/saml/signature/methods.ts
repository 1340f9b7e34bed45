import { constants, createSign, sign } from 'node:crypto'
import t from 'tap'
import { SignedXml } from 'xml-crypto'
import { assertionXml, responseXml } from '../../../demo/idp/response.ts'
import { checkRedirectSignature, readRedirect } from '../../../lib/saml/binding/redirect.ts'
import { readIdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'
import { signatureMethods } from '../../../lib/saml/signature/method.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { digestMethods, transforms } from '../../../lib/saml/xml/vocabulary.ts'
import { edit, good } from '../../fixtures/saml/attack-toolkit.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'
import { ecPair, pssPair, rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const ways = [
  ['RSA-SHA384', rsaPair('idp'), signatureMethods.rsaSha384, digestMethods.sha384],
  ['RSA-SHA512', rsaPair('idp'), signatureMethods.rsaSha512, digestMethods.sha512],
  ['RSA-PSS SHA-256', rsaPair('idp'), signatureMethods.pssSha256, digestMethods.sha256],
  ['RSA-PSS SHA-384', rsaPair('idp'), signatureMethods.pssSha384, digestMethods.sha384],
  ['RSA-PSS SHA-512', rsaPair('idp'), signatureMethods.pssSha512, digestMethods.sha512],
  ['RSA-PSS alone', pssPair('pss'), signatureMethods.pssSha384, digestMethods.sha256],
  ['ECDSA P-256', ecPair('p256'), signatureMethods.ecdsaSha256, digestMethods.sha256],
  ['ECDSA P-384', ecPair('p384', 'P-384'), signatureMethods.ecdsaSha384, digestMethods.sha384],
  ['ECDSA P-521', ecPair('p521', 'P-521'), signatureMethods.ecdsaSha512, digestMethods.sha512],
] as const

for (const [name, key, signatureMethod, digestMethod] of ways) {
  for (const signs of ['assertion', 'response', 'both'] as const) {
    t.test(`${name} over ${signs} signs in, and a changed message does not`, async t => {
      const lab = await SamlLab.open(t, 'entra', { metadata: { certificates: [key.certificate] } })
      const asked = await lab.browser.login('/')
      const answer = {
        inResponseTo: asked.id,
        signs,
        key,
        algorithms: { signatureMethod, digestMethod },
      }
      const changed = edit(lab.idp.respond(answer), ['alice@example.org', 'admin@example.org'])
      await lab.browser.deliver(changed, asked.relayState)
      t.strictSame(lab.codes, ['signature_invalid'])
      await lab.browser.deliver(lab.idp.respond(answer), asked.relayState)
      t.equal(lab.subjects.length, 1)
    })
  }
}

t.test('a method is taken with a key of its own kind alone', async t => {
  const ec = ecPair('p256')
  const lab = await SamlLab.open(t, 'entra', { metadata: { certificates: [ec.certificate] } })
  const asked = await lab.browser.login('/')
  await lab.browser.deliver(good(lab, asked.id), asked.relayState)
  t.strictSame(lab.codes, ['signature_invalid'], 'signed by RSA')
  const relabelled = edit(good(lab, asked.id), [
    signatureMethods.rsaSha256,
    signatureMethods.ecdsaSha256,
  ])
  await lab.browser.deliver(relabelled, asked.relayState)
  t.strictSame(lab.codes, ['signature_invalid', 'signature_invalid'])
})

t.test('a key on another curve is none that counts', async t => {
  const key = ecPair('k1', 'secp256k1')
  await t.rejects(SamlLab.open(t, 'entra', { metadata: { certificates: [key.certificate] } }), {
    message: /secp256k1/,
  })
})

t.test('by redirect ECDSA may be written in either way, RSA with SHA-384, and RSA-PSS', t => {
  const { certificate, privateKey } = ecPair('p256')
  const rules = { certificates: [certificate, rsaPair('idp').certificate], allowSha1: false }
  const query = (method: string) =>
    `SAMLRequest=${encodeURIComponent('s7MBAA==')}&SigAlg=${encodeURIComponent(method)}`
  const verdict = (over: string, value: Buffer) => {
    const message = readRedirect(
      `${over}&Signature=${encodeURIComponent(value.toString('base64'))}`,
    )
    return typeof message === 'object' ? checkRedirectSignature(message, rules) : message
  }
  const over = query(signatureMethods.ecdsaSha256)
  for (const dsaEncoding of ['der', 'ieee-p1363'] as const) {
    const value = sign('sha256', Buffer.from(over), { key: privateKey, dsaEncoding })
    t.equal(verdict(over, value), undefined, dsaEncoding)
    t.equal(verdict(query(signatureMethods.ecdsaSha384), value), 'signature_invalid')
    t.equal(verdict(query(signatureMethods.rsaSha256), value), 'signature_invalid')
  }
  const padding = constants.RSA_PKCS1_PSS_PADDING
  const pss = (method: string, hash: string, saltLength: number) => {
    const over = query(method)
    const { privateKey: key } = rsaPair('idp')
    return verdict(over, sign(hash, Buffer.from(over), { key, padding, saltLength }))
  }
  t.equal(pss(signatureMethods.pssSha256, 'sha256', 32), undefined)
  t.equal(pss(signatureMethods.pssSha512, 'sha512', 64), undefined)
  t.equal(pss(signatureMethods.pssSha256, 'sha256', 0), 'signature_invalid', 'another salt')
  t.equal(pss(signatureMethods.pssSha256, 'sha512', 64), 'signature_invalid', 'another hash')
  t.equal(pss(signatureMethods.rsaSha256, 'sha256', 32), 'signature_invalid', 'another padding')
  const rsa = query(signatureMethods.rsaSha384)
  const value = createSign('sha384').update(rsa).sign(rsaPair('idp').privateKey)
  t.equal(verdict(rsa, value), undefined)
  t.end()
})

t.test('a key for RSA-PSS with one hash makes no other signature', async t => {
  const key = pssPair('pss-512', 'sha512')
  const lab = await SamlLab.open(t, 'entra', {
    metadata: { certificates: [key.certificate, rsaPair('idp').certificate] },
  })
  const asked = await lab.browser.login('/')
  const signatureMethod = signatureMethods.pssSha512
  const answer = lab.idp.respond({ inResponseTo: asked.id, key, algorithms: { signatureMethod } })
  await lab.browser.deliver(edit(answer, [signatureMethod, signatureMethods.pssSha256]))
  await lab.browser.deliver(edit(answer, [signatureMethod, signatureMethods.rsaSha512]))
  t.strictSame(lab.codes, ['signature_invalid', 'signature_invalid'])
  await lab.browser.deliver(answer)
  t.equal(lab.subjects.length, 1)
  const again = await lab.browser.login('/')
  await lab.browser.deliver(good(lab, again.id))
  t.equal(lab.subjects.length, 2, 'a key of another kind beside it is no obstacle')
})

t.test('metadata may be signed by RSA-PSS', t => {
  const { privateKey, certificate } = pssPair('federation')
  const text = new ScriptedIdp('entra', { now: () => 0 })
    .metadata()
    .replace('<md:EntityDescriptor ', '$&ID="{b9c1+/=}" ')
  const signed = signElement(text, { id: '{b9c1+/=}', key: { privateKey, certificate } })
  const rules = { entityId: undefined, certificates: [certificate], allowSha1: false }
  t.match(readIdpMetadata(Buffer.from(signed), rules), { ok: true })
  const changed = edit(signed, ['idp.example.org/sso', 'evil.example.org/sso'])
  t.match(readIdpMetadata(Buffer.from(changed), rules), { because: 'signature_invalid' })
  t.end()
})

const withComments = 'http://www.w3.org/2001/10/xml-exc-c14n#WithComments'

t.test('canonicalisation with comments is taken, in SignedInfo and as a transform', async t => {
  const lab = await SamlLab.open(t, 'okta')
  for (const place of ['CanonicalizationMethod', 'Transform', 'both']) {
    const asked = await lab.browser.login('/')
    const { response, ...writing } = lab.idp.writing({ inResponseTo: asked.id })
    const plain = responseXml(response, assertionXml(writing.assertion))
    const signer = new SignedXml({
      privateKey: writing.key.privateKey,
      signatureAlgorithm: signatureMethods.rsaSha256,
      canonicalizationAlgorithm: place === 'Transform' ? transforms.exclusive : withComments,
    })
    signer.addReference({
      xpath: `//*[@ID='${response.id}']`,
      transforms: [
        transforms.enveloped,
        place === 'CanonicalizationMethod' ? transforms.exclusive : withComments,
      ],
      digestAlgorithm: digestMethods.sha256,
    })
    signer.computeSignature(plain, {
      location: { reference: "//*[local-name(.)='Issuer']", action: 'after' },
    })
    await lab.browser.deliver(signer.getSignedXml(), asked.relayState)
  }
  t.strictSame(lab.codes, [])
  t.equal(lab.subjects.length, 3)
})

t.test('IDs that are no xs:ID are taken when nothing can be read out of them', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const ids = [
    ...[
      '4312abc',
      '0f8fad5b-d9cb-469f-a165-70867728950e',
      '{0F8FAD5B-D9CB-469F-A165-70867728950E}',
    ],
    ...['1ORZ+Qw/x==', 'urn:uuid:0f8fad5b', 'a@b,c;d!e$f*g[h]~', '_ünï', 'x'.repeat(1024)],
  ]
  for (const id of ids) {
    for (const signs of ['assertion', 'response', 'both'] as const) {
      const browser = lab.browser.other()
      const asked = await browser.login('/')
      const answer = { signs, assertion: { id: `${id.slice(0, 999)}.${signs}` }, response: { id } }
      await browser.deliver(lab.idp.respond({ inResponseTo: asked.id, ...answer }))
      t.equal(lab.codes.at(-1), undefined, `${id.slice(0, 40)} at ${signs}`)
    }
  }
})
