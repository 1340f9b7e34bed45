/**
 * Signatures and encryption that are not what they should be.
 */
import { createHmac } from 'node:crypto'
import { encryptElement } from '../../../demo/idp/encrypt.ts'
import { assertionXml, responseXml } from '../../../demo/idp/response.ts'
import { signatureMethods } from '../../../lib/saml/signature/method.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { digestMethods, ns } from '../../../lib/saml/xml/vocabulary.ts'
import {
  attackedLab,
  edit,
  evilId,
  good,
  part,
  signaturePart,
} from '../../fixtures/saml/attack-toolkit.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { keyPair } from '../../fixtures/saml/lab.ts'

const { refuses } = await attackedLab()

refuses('2: nothing is signed', 'signature_missing', (lab, id) =>
  lab.idp.respond({ inResponseTo: id, signs: 'nothing' }),
)
refuses('2: signed with an unknown key', 'signature_invalid', (lab, id) =>
  lab.idp.respond({ inResponseTo: id, key: rsaPair('stranger') }),
)
refuses('2: a value was changed after signing', 'signature_invalid', (lab, id) =>
  edit(good(lab, id), ['alice@example.org', 'admin@example.org']),
)
refuses('2: an attribute was added after signing', 'signature_invalid', (lab, id) =>
  edit(good(lab, id), [
    '<saml:AttributeStatement>',
    '<saml:AttributeStatement><saml:Attribute Name="x"/>',
  ]),
)
refuses(
  '2: the response is signed by a stranger, the assertion by the IdP',
  'signature_invalid',
  (lab, id) => {
    const { response } = lab.idp.writing({ inResponseTo: id })
    return signElement(good(lab, id).replace(/ID="_response\d+"/, `ID="${response.id}"`), {
      id: response.id,
      key: rsaPair('stranger'),
    })
  },
)
refuses(
  '2: the assertion is signed by a stranger, the response around it by the IdP',
  'signature_invalid',
  (lab, id) => {
    const { response, assertion } = lab.idp.writing({ inResponseTo: id })
    const foreign = { id: assertion.id, key: rsaPair('stranger') }
    const whole = responseXml(response, signElement(assertionXml(assertion), foreign))
    return signElement(whole, { id: response.id, key: lab.idp.key })
  },
)
refuses(
  '8: the signature is by HMAC with the public certificate',
  'signature_algorithm',
  (lab, id) => {
    const hmac = 'http://www.w3.org/2000/09/xmldsig#hmac-sha1'
    const value = createHmac('sha1', lab.idp.key.certificate).update('x').digest('base64')
    return edit(
      good(lab, id),
      [signatureMethods.rsaSha256, hmac],
      [/<ds:SignatureValue>[^<]*/, `<ds:SignatureValue>${value}`],
    )
  },
)
refuses('18: the signature is made with SHA-1', 'signature_sha1', (lab, id) =>
  lab.idp.respond({
    inResponseTo: id,
    algorithms: { signatureMethod: signatureMethods.rsaSha1, digestMethod: digestMethods.sha1 },
  }),
)
refuses('18: only the signature is made with SHA-1', 'signature_sha1', (lab, id) =>
  lab.idp.respond({
    inResponseTo: id,
    algorithms: { signatureMethod: signatureMethods.rsaSha1 },
  }),
)
refuses('10: a third transform', 'signature_algorithm', (lab, id) =>
  edit(good(lab, id), [
    '</ds:Transforms>',
    '<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/></ds:Transforms>',
  ]),
)
refuses('18: only the digest is made with SHA-1', 'signature_sha1', (lab, id) =>
  lab.idp.respond({ inResponseTo: id, algorithms: { digestMethod: digestMethods.sha1 } }),
)
refuses('7: a certificate of the forger in KeyInfo', 'signature_invalid', (lab, id) => {
  const stranger = rsaPair('stranger')
  const text = lab.idp.respond({ inResponseTo: id, key: stranger })
  if (!text.includes('X509Certificate')) throw new Error('no KeyInfo')
  return text
})
refuses('10: the reference is to the whole document', 'signature_reference', (lab, id) =>
  edit(good(lab, id), [/URI="#[^"]*"/, 'URI=""']),
)
refuses('10: two references', 'signature_reference', (lab, id) => {
  const text = good(lab, id)
  const reference = part(text, /<ds:Reference .*<\/ds:Reference>/s)
  return text.replace(reference, () => reference + reference)
})
refuses('19: 2,000 references', /xml_too-many-elements|signature_form/, (lab, id) => {
  const text = good(lab, id)
  const reference = part(text, /<ds:Reference .*<\/ds:Reference>/s)
  return text.replace(reference, () => reference.repeat(280))
})
refuses('10: another transform', 'signature_algorithm', (lab, id) =>
  edit(good(lab, id), [
    'http://www.w3.org/2000/09/xmldsig#enveloped-signature',
    'http://www.w3.org/TR/1999/REC-xslt-19991116',
  ]),
)
refuses('4: a comment inside the digest', 'xml_comment', (lab, id) =>
  edit(good(lab, id), ['<ds:DigestValue>', '<ds:DigestValue><!--AAAA-->']),
)
refuses('4: an element inside the digest', /signature_form|signature_invalid/, (lab, id) =>
  edit(good(lab, id), ['<ds:DigestValue>', '<ds:DigestValue><ds:DigestValue/>']),
)
refuses('3: two SignedInfo', 'signature_form', (lab, id) => {
  const text = good(lab, id)
  const info = part(text, /<ds:SignedInfo>.*<\/ds:SignedInfo>/s)
  return text.replace(info, () => info + info)
})
refuses('17: two signatures', 'signature_form', (lab, id) => {
  const text = good(lab, id)
  const signature = part(text, signaturePart)
  return text.replace(signature, () => signature + signature)
})
refuses('17: a copy of the signature where none may stand', 'response_form', (lab, id) => {
  const text = good(lab, id)
  return edit(text, ['<samlp:Status>', `<samlp:Status>${part(text, signaturePart)}`])
})
for (const spelling of ['ID', 'Id', 'id', 'xml:id', 'samlp:ID']) {
  refuses(
    `9, 11: a second element answers to the ID, as ${spelling}`,
    'signature_reference',
    (lab, id) => {
      const text = good(lab, id)
      const signed = /<saml:Assertion [^>]*ID="([^"]+)"/.exec(text)?.[1] ?? ''
      return edit(text, [/<samlp:Status>/, `<samlp:Status ${spelling}="${signed}">`])
    },
  )
}
for (const [what, code, from, to] of [
  [
    '2: the ID was changed to one that begins with a digit',
    'signature_reference',
    /ID="_a/,
    'ID="1',
  ],
  ['10: a space in the ID', 'signature_reference', /ID="_a/, 'ID="_ a'],
  ['10: a quote in the ID', 'signature_reference', /ID="_a/, 'ID="\'a'],
  ['10: another quote in the ID', 'signature_reference', /ID="_a/, 'ID="&#34;a'],
  ['10: an escape in the ID', 'signature_reference', /ID="_a/, 'ID="%41a'],
  ['10: a function of XPointer in the ID', 'signature_reference', /ID="_a/, 'ID="xpointer(/)a'],
  ['2: no ID at what is signed', 'signature_reference', / ID="_assertion\d+"/, ''],
  ['2: a SignatureValue that is not base64', 'signature_invalid', '<ds:SignatureValue>', '$&*'],
  ['3: no SignatureValue', 'signature_form', /<ds:SignatureValue>.*<\/ds:SignatureValue>/s, ''],
  ['16: an Object in the signature', 'signature_form', '</ds:Signature>', '<ds:Object/>$&'],
  ['3: an element of another kind', 'signature_form', '</ds:SignedInfo>', '<saml:Issuer/>$&'],
  [
    '3: InclusiveNamespaces of a foreign namespace',
    'signature_form',
    '</ds:Transforms>',
    '<InclusiveNamespaces xmlns="urn:x" PrefixList="xs"/>$&',
  ],
  ['3: an unknown element inside the digest', 'signature_form', '</ds:DigestValue>', '<ds:X/>$&'],
  ['8: a length of HMAC', 'signature_form', '</ds:SignatureMethod>', '<ds:HMACOutputLength/>$&'],
  ['16: a Manifest', 'signature_form', '</ds:SignedInfo>', '<ds:Manifest/>$&'],
  ['10: an XPath', 'signature_form', '</ds:Transform>', '<ds:XPath>1</ds:XPath>$&'],
  [
    '19: much in SignedInfo',
    'signature_form',
    '</ds:SignedInfo>',
    `${'<ds:Transforms/>'.repeat(12)}$&`,
  ],
  ['8: no SignatureMethod', 'signature_form', /<ds:SignatureMethod.*SignatureMethod>/s, ''],
  ['8: no DigestMethod', 'signature_form', /<ds:DigestMethod.*DigestMethod>/s, ''],
  ['8: a DigestMethod without a name', 'signature_algorithm', /(<ds:DigestMethod)[^>]*/, '$1'],
  ['18: MD5', 'signature_algorithm', digestMethods.sha256, `${ns.signature}md5`],
] as const) {
  refuses(what, code, (lab, id) => {
    const text = good(lab, id)
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`nothing to replace: ${from}`)
    return changed
  })
}

// Encryption.
refuses('39: encrypted to a key that is not ours', 'encryption_key', (lab, id) =>
  lab.idp.respond({ inResponseTo: id, encryptTo: rsaPair('stranger').certificate }),
)
refuses('39: encrypted, but neither signed inside nor outside', 'signature_missing', (lab, id) =>
  lab.idp.respond({ inResponseTo: id, signs: 'nothing', encryptTo: keyPair('sp').certificate }),
)
refuses('38: encrypted with a key by RSA PKCS #1 1.5', 'encryption_algorithm', (lab, id) =>
  lab.idp.respond({
    inResponseTo: id,
    encryptTo: keyPair('sp').certificate,
    encryption: { content: 'aes256-cbc', key: 'rsa-1_5' },
  }),
)
refuses('39: a DOCTYPE inside the encrypted content', 'encryption_document', (lab, id) => {
  const { response } = lab.idp.writing({ inResponseTo: id })
  const methods = { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' } as const
  return responseXml(
    response,
    encryptElement('EncryptedAssertion', '<!DOCTYPE x><x/>', {
      certificate: keyPair('sp').certificate,
      methods,
    }),
  )
})
refuses('39: two assertions inside the encrypted content', 'response_form', (lab, id) => {
  const { response, assertion } = lab.idp.writing({ inResponseTo: id })
  const inner = assertionXml(assertion)
  const two = inner.replace(
    '</saml:Assertion>',
    `${inner.replace(assertion.id, evilId)}</saml:Assertion>`,
  )
  const methods = { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' } as const
  return responseXml(
    response,
    encryptElement('EncryptedAssertion', two, {
      certificate: keyPair('sp').certificate,
      methods,
    }),
  )
})
refuses('39: no assertion inside the encrypted content', 'response_form', (lab, id) => {
  const { response } = lab.idp.writing({ inResponseTo: id })
  const methods = { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' } as const
  const { certificate } = keyPair('sp')
  const issuer = `<saml:Issuer xmlns:saml="${ns.assertion}"/>`
  return responseXml(
    response,
    encryptElement('EncryptedAssertion', issuer, { certificate, methods }),
  )
})
