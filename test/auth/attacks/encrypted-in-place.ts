/**
 * Encrypted assertions, names and attributes whose namespaces are declared around them (XML Encryption section 4.3.3), and what a
 * stranger makes of that.
 */
import t from 'tap'
import { encryptElement } from '../../../demo/idp/encrypt.ts'
import { assertionXml, responseXml } from '../../../demo/idp/response.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { edit } from '../../fixtures/saml/attack-toolkit.ts'
import { keyPair, SamlLab } from '../../fixtures/saml/lab.ts'

const { certificate } = keyPair('sp')
const xs = 'http://www.w3.org/2001/XMLSchema'
const xsi = 'http://www.w3.org/2001/XMLSchema-instance'
const declare = (prefix: string, uri: string) => ` xmlns:${prefix}="${uri}"`
const saml = declare('saml', ns.assertion)
const schema = `${declare('xs', xs)}${declare('xsi', xsi)}`

type Signs = 'assertion' | 'response' | 'both'

interface Odd {
  readonly signs: Signs
  /** What is done to the text of the assertion after it was signed. */
  readonly inner: (text: string) => string
  /** Declarations at the Response. */
  readonly outer?: string
  /** What is done to the Response before it is signed, and after. */
  readonly before?: (text: string) => string
  readonly after?: (text: string) => string
}

function answer(lab: SamlLab, id: string, odd: Odd): string {
  const { response, assertion, key } = lab.idp.writing({ inResponseTo: id })
  const { signs, inner, outer = '', before = same, after = same } = odd
  const plain = assertionXml(assertion)
  const signed = signs === 'response' ? plain : signElement(plain, { id: assertion.id, key })
  const methods = { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' } as const
  const held = encryptElement('EncryptedAssertion', inner(signed), { certificate, methods })
  const whole = before(responseXml(response, held).replace(' ID="', () => `${outer} ID="`))
  return after(signs === 'assertion' ? whole : signElement(whole, { id: response.id, key }))
}

function same(text: string): string {
  return text
}

/** The text without these declarations. */
function without(...declarations: readonly string[]): (text: string) => string {
  return text => declarations.reduce((rest, each) => rest.replaceAll(each, ''), text)
}

/** With `saml` as the default namespace, declared nowhere in it. */
function unprefixed(text: string): string {
  return without(saml)(text).replaceAll(/(<\/?)saml:/g, '$1')
}

const taken: ReadonlyArray<readonly [string, Odd]> = [
  ...(['assertion', 'response', 'both'] as const).flatMap(
    (signs): Array<[string, Odd]> => [
      [
        `saml at the EncryptedAssertion, signed: ${signs}`,
        { signs, inner: text => text.replace(saml, '') },
      ],
      [
        `saml at the Response, signed: ${signs}`,
        { signs, inner: text => text.replace(saml, ''), outer: saml, before: atRoot },
      ],
      [
        `xs and xsi at the Response, signed: ${signs}`,
        { signs, inner: without(declare('xs', xs), declare('xsi', xsi)), outer: schema },
      ],
      [
        `all at the Response, signed: ${signs}`,
        {
          signs,
          inner: text =>
            without(schema, declare('xs', xs), declare('xsi', xsi))(text).replace(saml, ''),
          outer: `${saml}${schema}`,
          before: atRoot,
        },
      ],
      [
        `with an XML declaration, signed: ${signs}`,
        {
          signs,
          inner: text => `<?xml version="1.0" encoding="UTF-8"?>\n${text.replace(saml, '')}\n`,
        },
      ],
      [`a byte order mark before it, signed: ${signs}`, { signs, inner: text => `\ufeff${text}` }],
    ],
  ),
  [
    'an assertion without a prefix, in the default namespace of the Response',
    {
      signs: 'response',
      inner: unprefixed,
      outer: ` xmlns="${ns.assertion}"`,
      before: text =>
        text
          .replaceAll(/<(\/?)saml:EncryptedAssertion/g, '<$1EncryptedAssertion')
          .replace(`<EncryptedAssertion${saml}`, '<EncryptedAssertion'),
    },
  ],
  [
    'an assertion that declares all itself, in a Response whose default namespace is another',
    { signs: 'assertion', inner: same, outer: ' xmlns="urn:other"' },
  ],
]

/** The EncryptedAssertion takes the prefix from the Response too. */
function atRoot(text: string): string {
  return text.replace(`<saml:EncryptedAssertion${saml}`, '<saml:EncryptedAssertion')
}

for (const [name, odd] of taken) {
  t.test(`taken: ${name}`, async t => {
    const lab = await SamlLab.open(t, 'okta')
    const asked = await lab.browser.login('/')
    await lab.browser.deliver(answer(lab, asked.id, odd))
    t.strictSame(lab.failures, [])
    t.equal(lab.subjects[0]?.nameId?.value, 'alice@example.org')
    t.ok((lab.subjects[0]?.attributes.length ?? 0) > 0)
  })
}

const foreign = (text: string) =>
  text.replace('<saml:AttributeStatement>', '$&<ext:Attribute Name="groups"/>')

const refused: ReadonlyArray<readonly [string, string, Odd]> = [
  [
    'the prefix means another namespace around it',
    'response_form',
    {
      signs: 'assertion',
      inner: text => text.replace(saml, ''),
      after: text =>
        text
          .replace(
            `<saml:EncryptedAssertion${saml}`,
            `<a:EncryptedAssertion xmlns:a="${ns.assertion}" xmlns:saml="urn:evil"`,
          )
          .replace('</saml:EncryptedAssertion', '</a:EncryptedAssertion'),
    },
  ],
  [
    'a prefix is declared around it that the IdP did not sign with',
    'signature_invalid',
    {
      signs: 'assertion',
      inner: foreign,
      outer: declare('ext', ns.assertion),
    },
  ],
  [
    'a default namespace around it changes what was signed',
    'signature_invalid',
    {
      signs: 'assertion',
      inner: text => text.replace('<saml:AttributeStatement>', '$&<x/>').replace(saml, ''),
      outer: ' xmlns="urn:evil"',
    },
  ],
  [
    'a declaration was added to the signed Response, where no signature notices',
    'encryption_document',
    {
      signs: 'response',
      inner: foreign,
      after: text => text.replace(' ID="', `${declare('ext', ns.assertion)} ID="`),
    },
  ],
  [
    'the prefix of XML Schema was made that of assertions in the signed Response',
    'encryption_document',
    {
      signs: 'response',
      inner: text => without(declare('xs', xs), declare('xsi', xsi))(text),
      outer: schema,
      after: text => text.replace(xsi, ns.assertion),
    },
  ],
  [
    'a quote in a namespace around it',
    'response_form',
    {
      signs: 'assertion',
      inner: text => text.replace(saml, ''),
      after: text =>
        text
          .replace(
            `<saml:EncryptedAssertion${saml}`,
            `<a:EncryptedAssertion xmlns:a="${ns.assertion}" xmlns:saml="x&quot; xmlns:saml=&quot;${ns.assertion}"`,
          )
          .replace('</saml:EncryptedAssertion', '</a:EncryptedAssertion'),
    },
  ],
  [
    'two byte order marks',
    'encryption_document',
    { signs: 'assertion', inner: text => `\ufeff\ufeff${text}` },
  ],
]

for (const [name, code, odd] of refused) {
  t.test(`39: refused (${code}): ${name}`, async t => {
    const lab = await SamlLab.open(t, 'okta')
    const asked = await lab.browser.login('/')
    await lab.browser.deliver(answer(lab, asked.id, odd))
    t.strictSame(lab.codes, [code])
    t.strictSame(lab.subjects, [])
  })
}

for (const signs of ['assertion', 'response', 'both'] as const) {
  t.test(
    `encrypted names and attributes with prefixes from around them, signed: ${signs}`,
    async t => {
      const lab = await SamlLab.open(t, 'okta')
      const methods = { content: 'aes256-gcm', key: 'rsa-oaep-mgf1p' } as const
      const to = { certificate, methods }
      const asked = await lab.browser.login('/')
      const { response, assertion, key } = lab.idp.writing({
        inResponseTo: asked.id,
        assertion: {
          nameIdXml: encryptElement(
            'EncryptedID',
            '<saml:NameID>ada@example.org</saml:NameID>',
            to,
          ),
          attributesXml: encryptElement(
            'EncryptedAttribute',
            '<saml:Attribute Name="groups"><saml:AttributeValue xsi:type="xs:string">staff</saml:AttributeValue></saml:Attribute>',
            to,
          ),
        },
      })
      const plain = edit(assertionXml(assertion), [' ID="', `${schema} ID="`])
      const inner = signs === 'response' ? plain : signElement(plain, { id: assertion.id, key })
      const whole = responseXml(response, inner)
      await lab.browser.deliver(
        signs === 'assertion' ? whole : signElement(whole, { id: response.id, key }),
      )
      t.strictSame(lab.failures, [])
      t.equal(lab.subjects[0]?.nameId?.value, 'ada@example.org')
      t.match(lab.subjects[0]?.attributes, [{ name: 'groups', values: ['staff'] }])
    },
  )
}
