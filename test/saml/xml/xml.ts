import t from 'tap'
import { messageLimits } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import { attributeOf, childOf, escapeXml } from '../../../lib/saml/xml/xml.ts'

function root(text: string) {
  const parsed = parseXml(text, messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  return parsed.root
}

t.test('a document becomes names, namespaces, attributes and text', async t => {
  const text = '<p:a xmlns:p="urn:p" xmlns="urn:d" id="1" p:id="2">x<b>y&amp;</b>z</p:a>'
  const a = root(text)
  t.match(a, { name: 'a', namespace: 'urn:p', tag: 'p:a', text: 'xz' })
  t.equal(attributeOf(a, 'id'), '1', 'the attribute without a namespace')
  t.equal(attributeOf(root('<a xmlns:p="urn:p" p:id="2" id="1"/>'), 'id'), '1', 'in any order')
  t.equal(attributeOf(root('<a xmlns:p="urn:p" p:id="2"/>'), 'id'), undefined, 'and no other')
  t.equal(a.attributes.length, 2, 'declarations are no attributes')
  t.match(childOf(a, 'urn:d', 'b'), { text: 'y&', namespace: 'urn:d' })
  t.equal(childOf(a, '', 'b'), undefined)
})

t.test('prefixes must be declared, and attributes once by any prefix', async t => {
  const bad = [
    '<p:a/>',
    '<a p:b=""/>',
    '<a xmlns:p="u" xmlns:q="u" p:b="" q:b=""/>',
    '<a xmlns:p=""/>',
    '<xmlns:a/>',
    '<a xmlns:xml="urn:x"/>',
    '<a xmlns:x="http://www.w3.org/XML/1998/namespace"/>',
  ]
  for (const text of bad)
    t.match(parseXml(text, messageLimits), { ok: false, because: 'parser' }, text)
})

t.test('the prefix xml may be declared as what it is', async t => {
  const namespace = 'http://www.w3.org/XML/1998/namespace'
  const a = root(`<a xmlns:xml="${namespace}" xml:lang="en"/>`)
  t.match(a.attributes, [{ name: 'lang', namespace, value: 'en' }])
})

t.test('text that was escaped comes back', async t => {
  const odd = `<&>"'\t\r\n é`
  t.equal(root(`<a>${escapeXml(odd)}</a>`).text, odd)
  t.equal(attributeOf(root(`<a b="${escapeXml(odd)}"/>`), 'b'), odd)
})
