import { createSign, sign } from 'node:crypto'
import t from 'tap'
import { checkRedirectSignature, readRedirect } from '../../../../lib/auth/saml/binding/redirect.ts'
import { digestMethods } from '../../../../lib/auth/saml/core/vocabulary.ts'
import { signatureMethods } from '../../../../lib/auth/saml/signature/method.ts'
import { edit, good } from '../../../fixtures/saml/attack-toolkit.ts'
import { ecPair, rsaPair } from '../../../fixtures/saml/keys.ts'
import { SamlLab } from '../../../fixtures/saml/lab.ts'

const ways = [
  ['RSA-SHA384', rsaPair('idp'), signatureMethods.rsaSha384, digestMethods.sha384],
  ['RSA-SHA512', rsaPair('idp'), signatureMethods.rsaSha512, digestMethods.sha512],
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

t.test('by redirect ECDSA may be written in either way, and RSA with SHA-384', t => {
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
  const rsa = query(signatureMethods.rsaSha384)
  const value = createSign('sha384').update(rsa).sign(rsaPair('idp').privateKey)
  t.equal(verdict(rsa, value), undefined)
  t.end()
})
