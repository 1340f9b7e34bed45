/**
 * What stands in the text: everything a parser could read in two ways, and too much of anything.
 */
import { attackedLab, edit, good } from '../../fixtures/saml/attack-toolkit.ts'

const { refuses } = await attackedLab()

refuses('6: a comment inside the NameID', 'xml_comment', (lab, id) =>
  edit(good(lab, id), [
    'alice@example.org</saml:NameID>',
    'alice@example.org<!-- -->.evil.example</saml:NameID>',
  ]),
)
refuses('5: a processing instruction inside the NameID', 'xml_processing-instruction', (lab, id) =>
  edit(good(lab, id), ['alice@example.org</saml:NameID>', 'alice@<?x admin?></saml:NameID>']),
)
refuses('13: a CDATA section', 'xml_cdata', (lab, id) =>
  edit(good(lab, id), [
    'alice@example.org</saml:NameID>',
    '<![CDATA[alice@example.org]]></saml:NameID>',
  ]),
)
refuses('13, 15: a DOCTYPE', 'xml_doctype', (lab, id) => `<!DOCTYPE x>${good(lab, id)}`)
refuses(
  '15: an external entity',
  'xml_doctype',
  (lab, id) =>
    `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>${edit(good(lab, id), ['alice@example.org</saml:NameID>', '&e;</saml:NameID>'])}`,
)
refuses(
  '15: a billion laughs',
  'xml_doctype',
  (lab, id) => `<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;">]>${good(lab, id)}`,
)
refuses('15: an undeclared entity', 'xml_entity', (lab, id) =>
  edit(good(lab, id), ['alice@example.org</saml:NameID>', '&nbsp;</saml:NameID>']),
)
refuses('14: a second root', 'xml_not-well-formed', (lab, id) => good(lab, id) + good(lab, id))
refuses('13: text behind the root', 'xml_not-well-formed', (lab, id) => `${good(lab, id)}x`)
refuses('13: a duplicate attribute', 'xml_duplicate-attribute', (lab, id) =>
  edit(good(lab, id), ['<saml:NameID ', '<saml:NameID Format="x" ']),
)
refuses('13: a duplicate attribute by another prefix', 'xml_parser', (lab, id) =>
  edit(good(lab, id), [
    '<samlp:Status>',
    '<samlp:Status xmlns:p="urn:x" xmlns:q="urn:x" p:a="1" q:a="2">',
  ]),
)
refuses(
  '13: another encoding',
  'xml_declaration',
  (lab, id) => `<?xml version="1.0" encoding="UTF-16"?>${good(lab, id)}`,
)
refuses(
  '13: two byte order marks',
  'xml_not-well-formed',
  (lab, id) => `\ufeff\ufeff${good(lab, id)}`,
)
refuses('21: nested too deeply', 'xml_too-deep', (lab, id) =>
  edit(good(lab, id), [
    '<samlp:Status>',
    `<samlp:Status>${'<a>'.repeat(100)}${'</a>'.repeat(100)}`,
  ]),
)
refuses('20: too many elements', 'xml_too-many-elements', (lab, id) =>
  edit(good(lab, id), ['<samlp:Status>', `<samlp:Status>${'<a b="c"/>'.repeat(20_000)}`]),
)
refuses('20: too many attributes', 'xml_too-many-attributes', (lab, id) =>
  edit(good(lab, id), [
    '<samlp:Status>',
    `<samlp:Status ${Array.from({ length: 20_000 }, (_, i) => `a${i}=""`).join(' ')}>`,
  ]),
)
refuses('20: too large', 'xml_too-large', (lab, id) => `${good(lab, id)}${' '.repeat(1_048_576)}`)
refuses(
  '13: an XML declaration inside',
  'xml_processing-instruction',
  (lab, id) => ` <?xml version="1.0"?>${good(lab, id)}`,
)
