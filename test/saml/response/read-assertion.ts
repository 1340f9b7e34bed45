import t from 'tap'
import { issuerOf, readAssertion, readHead } from '../../../lib/saml/response/read-assertion.ts'
import { messageLimits } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import { nameIdFormats, ns } from '../../../lib/saml/xml/vocabulary.ts'

/** An Assertion with this content. */
function assertion(content: string, attributes = '') {
  const text = `<Assertion xmlns="${ns.assertion}"${attributes}>${content}</Assertion>`
  const parsed = parseXml(text, messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  return parsed.root
}

t.test('an Issuer counts when it is one, of text alone, and an entity ID', t => {
  for (const [content, issuer] of [
    ['<Issuer> urn:idp\n</Issuer>', 'urn:idp'],
    [`<Issuer Format="${nameIdFormats.entity}">urn:idp</Issuer>`, 'urn:idp'],
    [
      '<Issuer Format="urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified">urn:idp</Issuer>',
      'urn:idp',
    ],
    [`<Issuer Format="${nameIdFormats.transient}">urn:idp</Issuer>`, undefined],
    ['<Issuer>urn:idp</Issuer><Issuer>urn:other</Issuer>', undefined],
    ['<Issuer>urn:idp<x/></Issuer>', undefined],
    ['', undefined],
  ] as const) {
    t.equal(issuerOf(assertion(content)), issuer, content)
  }
  t.end()
})

t.test('a NameID counts when it is one, of text alone, and not empty', t => {
  for (const [content, value] of [
    ['<NameID> alice </NameID>', ' alice '],
    ['<NameID> \n</NameID>', undefined],
    ['<NameID>alice</NameID><NameID>bob</NameID>', undefined],
    ['<NameID>alice<x/></NameID>', undefined],
    ['', undefined],
  ] as const) {
    t.equal(readAssertion(assertion(`<Subject>${content}</Subject>`)).nameId?.value, value, content)
  }
  t.equal(readAssertion(assertion('')).nameId, undefined)
  t.end()
})

t.test('what is not there is empty or undefined, and never something else', t => {
  t.match(readHead(assertion(''), false), { id: '', version: '', issued: undefined })
  const { confirmations, conditions, statements } = readAssertion(
    assertion('<Subject><SubjectConfirmation/></Subject><AuthnStatement/>'),
  )
  t.match(confirmations, [{ method: '', recipient: undefined, notOnOrAfter: undefined }])
  t.equal(conditions, undefined)
  t.match(statements, [{ instant: undefined, contextClass: undefined }])
  const soon = assertion('', ' IssueInstant="soon"')
  t.match(readHead(soon, false).issued, { text: 'soon', moment: undefined })
  t.end()
})

t.test('a value is its text, or that of the one element around it', t => {
  const values = (content: string) => {
    const attribute = `<Attribute>${content}</Attribute>`
    const [read] = readAssertion(
      assertion(`<AttributeStatement>${attribute}</AttributeStatement>`),
    ).attributes
    t.equal(read?.name, '')
    return read?.values
  }
  t.same(values('<AttributeValue>a</AttributeValue><AttributeValue/>'), ['a', ''])
  t.same(values('<AttributeValue> <NameID>a</NameID> </AttributeValue>'), ['a'])
  t.same(values('<AttributeValue>a<b>b</b></AttributeValue>'), ['a'])
  t.same(values('<AttributeValue><a>a</a><b>b</b></AttributeValue>'), [''])
  t.same(values(''), [])
  t.end()
})

t.test('conditions that SAML does not define are named', t => {
  const inside = '<OneTimeUse/><ProxyRestriction/><x:OneTimeUse xmlns:x="urn:x"/><Delegation/>'
  const { conditions } = readAssertion(assertion(`<Conditions>${inside}</Conditions>`))
  t.same(conditions?.unknown, ['OneTimeUse', 'Delegation'])
  t.same(conditions?.audiences, [])
  t.end()
})
