/**
 * Signatures by methods, canonicalisations and IDs that are near to those that are taken.
 */
import { constants, sign } from 'node:crypto'
import { signatureMethods } from '../../../lib/saml/signature/method.ts'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { attackedLab, edit, good, part } from '../../fixtures/saml/attack-toolkit.ts'
import type { SamlLab } from '../../fixtures/saml/lab.ts'

const { refuses } = await attackedLab()

for (const [what, uri] of [
  ['10: inclusive canonicalisation', 'http://www.w3.org/TR/2001/REC-xml-c14n-20010315'],
  ['10: inclusive canonicalisation 1.1', 'http://www.w3.org/2006/12/xml-c14n11'],
  ['10: canonicalisation by another name', 'http://www.w3.org/2001/10/xml-exc-c14n#withcomments'],
] as const) {
  refuses(what, 'signature_algorithm', (lab, id) =>
    edit(good(lab, id), [
      /(CanonicalizationMethod Algorithm=")[^"]*/,
      `CanonicalizationMethod Algorithm="${uri}`,
    ]),
  )
}
refuses(
  '10: canonicalisation with comments, which the IdP did not sign',
  'signature_invalid',
  (lab, id) =>
    edit(good(lab, id), [
      /(CanonicalizationMethod Algorithm="[^"]*)#/,
      'CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#WithComments',
    ]),
)
refuses('4: a comment in what is signed with comments', 'xml_comment', (lab, id) =>
  edit(good(lab, id), [/<saml:NameID[^>]*>/, '<saml:NameID><!---->']),
)

/** A good answer by RSA-PSS with SHA-256, signed again as a forger or a broken library would. */
function bySalt(lab: SamlLab, id: string, hash: string, saltLength: number): string {
  const signatureMethod = signatureMethods.pssSha256
  const text = lab.idp.respond({ inResponseTo: id, algorithms: { signatureMethod } })
  const info = part(text, /<ds:SignedInfo>.*<\/ds:SignedInfo>/s).replace(
    '>',
    ` xmlns:ds="${ns.signature}">`,
  )
  const { privateKey: key } = lab.idp.key
  const padding = constants.RSA_PKCS1_PSS_PADDING
  const value = sign(hash, Buffer.from(info), { key, padding, saltLength }).toString('base64')
  return edit(text, [/<ds:SignatureValue>[^<]*/, `<ds:SignatureValue>${value}`])
}
refuses('8: RSA-PSS without a salt', 'signature_invalid', (lab, id) => bySalt(lab, id, 'sha256', 0))
refuses('8: RSA-PSS with a salt of another length', 'signature_invalid', (lab, id) =>
  bySalt(lab, id, 'sha256', 222),
)
refuses('8: RSA-PSS with another hash than it says', 'signature_invalid', (lab, id) =>
  bySalt(lab, id, 'sha512', 32),
)
refuses('8: a signature by PKCS #1 1.5 relabelled as RSA-PSS', 'signature_invalid', (lab, id) =>
  edit(good(lab, id), [signatureMethods.rsaSha256, signatureMethods.pssSha256]),
)
refuses('8: RSA-PSS with parameters of its own', 'signature_form', (lab, id) =>
  edit(good(lab, id), [
    `Algorithm="${signatureMethods.rsaSha256}">`,
    'Algorithm="http://www.w3.org/2007/05/xmldsig-more#rsa-pss"><RSAPSSParams xmlns="http://www.w3.org/2007/05/xmldsig-more#"/>',
  ]),
)
refuses('8: RSA-PSS with SHA-1', 'signature_algorithm', (lab, id) =>
  edit(good(lab, id), [
    signatureMethods.rsaSha256,
    'http://www.w3.org/2007/05/xmldsig-more#sha1-rsa-MGF1',
  ]),
)

for (const odd of [
  "x' or '1'='1",
  'x" or "1"="1',
  'xpointer(/)',
  'a b',
  'a%20b',
  'a#b',
  '\u200b',
  '',
]) {
  refuses(`10: the IdP itself signs the ID ${odd}`, 'signature_reference', (lab, id) => {
    const text = lab.idp.respond({ inResponseTo: id, assertion: { id: '_plain' } })
    return text.replaceAll('_plain', odd.replaceAll('"', '&quot;'))
  })
}
