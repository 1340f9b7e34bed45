/**
 * What stands encrypted inside an assertion with a good signature: nothing that comes out of it may be more than a name or an
 * attribute.
 */
import t from 'tap'
import { encryptElement } from '../../../demo/idp/encrypt.ts'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { attackedLab, edit, good } from '../../fixtures/saml/attack-toolkit.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import type { SamlLab } from '../../fixtures/saml/lab.ts'

t.setTimeout(600_000)

const { refuses } = await attackedLab()

const methods = { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' } as const
const to = { certificate: rsaPair('sp').certificate, methods }
const saml = `xmlns:saml="${ns.assertion}"`
const nameOf = (text: string) => encryptElement('EncryptedID', text, to)
const attributeOf = (text: string) => encryptElement('EncryptedAttribute', text, to)
const goodName = `<saml:NameID ${saml}>admin</saml:NameID>`
const value = '<saml:AttributeValue>x</saml:AttributeValue>'
const goodAttribute = `<saml:Attribute ${saml} Name="email">${value}</saml:Attribute>`
const within = (inner: string) =>
  `<saml:Attribute ${saml} Name="email"><saml:AttributeValue>${inner}</saml:AttributeValue></saml:Attribute>`

const named = (nameIdXml: string) => (lab: SamlLab, inResponseTo: string) =>
  lab.idp.respond({ inResponseTo, assertion: { nameIdXml } })
const attributed = (attributesXml: string) => (lab: SamlLab, inResponseTo: string) =>
  lab.idp.respond({ inResponseTo, assertion: { attributesXml } })

// What is no document that may be read: one code, whatever is wrong with it.
for (const [what, text] of [
  ['a DTD', `<!DOCTYPE a [<!ENTITY x "y">]>${goodName}`],
  ['an entity', `<saml:NameID ${saml}>&x;</saml:NameID>`],
  ['a comment in the name', `<saml:NameID ${saml}>admin<!---->@example.org</saml:NameID>`],
  ['CDATA', `<saml:NameID ${saml}><![CDATA[admin]]></saml:NameID>`],
  ['two roots', `${goodName}${goodName}`],
  ['text behind the root', `${goodName}x`],
  ['no XML', 'admin'],
  ['an undeclared prefix', '<x:NameID>admin</x:NameID>'],
  ['too many elements', within('<a/>'.repeat(9000))],
] as const) {
  const code = what === 'too many elements' ? 'encryption_limit' : 'encryption_document'
  refuses(`39: an EncryptedID with ${what}`, code, named(nameOf(text)))
  refuses(`39: an EncryptedAttribute with ${what}`, code, attributed(attributeOf(text)))
}
const stranger = { ...to, certificate: rsaPair('stranger').certificate }
refuses(
  'an EncryptedID for another key',
  'encryption_key',
  named(encryptElement('EncryptedID', goodName, stranger)),
)
refuses(
  'an EncryptedAttribute by a method that leaks',
  'encryption_algorithm',
  attributed(
    encryptElement('EncryptedAttribute', goodAttribute, {
      ...to,
      methods: { ...methods, key: 'rsa-1_5' },
    }),
  ),
)

// What is something else than it should be.
const assertion = `<saml:Assertion ${saml} ID="_evil" Version="2.0"><saml:Subject>${goodName}</saml:Subject></saml:Assertion>`
refuses('an EncryptedID with an Assertion', 'encryption_content', named(nameOf(assertion)))
refuses('an EncryptedID with an Attribute', 'encryption_content', named(nameOf(goodAttribute)))
refuses(
  'an EncryptedAttribute with a NameID',
  'encryption_content',
  attributed(attributeOf(goodName)),
)
refuses(
  'an EncryptedAttribute with an Assertion',
  'encryption_content',
  attributed(attributeOf(assertion)),
)
refuses(
  'an EncryptedID with a NameID of a foreign namespace',
  'encryption_content',
  named(nameOf('<NameID xmlns="urn:evil">admin</NameID>')),
)
refuses(
  'an element inside the name',
  'encryption_content',
  named(nameOf(`<saml:NameID ${saml}>a<b/></saml:NameID>`)),
)
for (const [what, inner] of [
  ['an Assertion', assertion],
  ['a Response', `<p:Response xmlns:p="${ns.protocol}"/>`],
  ['a Signature', `<ds:Signature xmlns:ds="${ns.signature}"/>`],
  ['a Subject', `<saml:Subject>${goodName}</saml:Subject>`],
  ['an EncryptedAssertion', '<saml:EncryptedAssertion/>'],
  ['something encrypted again', nameOf(goodName)],
  ['an Assertion of no namespace', '<Assertion/>'],
] as const) {
  refuses(`${what} inside a value`, 'encryption_content', attributed(attributeOf(within(inner))))
}
refuses(
  'something beside the values',
  'encryption_content',
  attributed(
    attributeOf(`<saml:Attribute ${saml} Name="email"><saml:Issuer/>${value}</saml:Attribute>`),
  ),
)

// Too much of it.
refuses('two EncryptedIDs', 'encryption_form', named(nameOf(goodName) + nameOf(goodName)))
refuses(
  'a NameID beside the EncryptedID',
  'encryption_form',
  named(`<saml:NameID>bob</saml:NameID>${nameOf(goodName)}`),
)
const one = attributeOf(goodAttribute)
refuses('65 EncryptedAttributes', 'encryption_limit', attributed(one.repeat(65)))
refuses('2000 EncryptedAttributes', 'form_too_large', (lab, id) =>
  edit(good(lab, id), [
    '</saml:AttributeStatement>',
    `${one.repeat(2000)}</saml:AttributeStatement>`,
  ]),
)
const stub = `<saml:EncryptedAttribute ${saml}><a/></saml:EncryptedAttribute>`
refuses('4500 short ones', 'xml_too-many-elements', attributed(stub.repeat(4500)))
const big = attributeOf(within(`${'<a/>'.repeat(3500)}`))
refuses('three that are too large together', 'encryption_limit', attributed(big.repeat(3)))

// The signature is over what was encrypted.
refuses('another EncryptedID put in afterwards', 'signature_invalid', (lab, id) => {
  const signed = named(nameOf(goodName))(lab, id)
  return edit(signed, [/<saml:EncryptedID.*<\/saml:EncryptedID>/s, nameOf(goodName)])
})
refuses('one put in the place of the NameID', 'signature_invalid', (lab, id) =>
  edit(lab.idp.respond({ inResponseTo: id }), [
    /<saml:NameID .*<\/saml:NameID>/s,
    nameOf(goodName),
  ]),
)
refuses('one without any signature', 'signature_missing', (lab, id) =>
  lab.idp.respond({
    inResponseTo: id,
    signs: 'nothing',
    assertion: { nameIdXml: nameOf(goodName) },
  }),
)
