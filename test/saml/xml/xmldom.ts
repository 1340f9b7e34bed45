/**
 * Our scan against xmldom: what the scan lets pass, xmldom reads alike. In the program xmldom only reads what is about to be hashed.
 */
import t from 'tap'
import { profiles } from '../../../demo/idp/profile.ts'
import { canonicalBytes } from '../../../lib/saml/signature/canonical.ts'
import { messageLimits, metadataLimits, readMessage } from '../../../lib/saml/xml/message.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'
import { isReadAlike } from '../../fixtures/saml/xmldom.ts'

t.test('two parsers read the same in what is plain', async t => {
  for (const text of [
    '<a/>',
    '<p:a xmlns:p="urn:p" xmlns="urn:d" id="1\t2&#10;" p:id="2">x<b>y&amp;&lt;</b>z</p:a>',
    '<a xmlns="urn:a"><b xmlns="">&#13;\r\n</b><c xml:lang="en"/></a>',
    // What a directory has in the name of a person after a wrong conversion.
    '<a b="J\ufffdrgen">J\ufffdrgen</a>',
  ]) {
    t.ok(isReadAlike(readMessage(text)), text)
  }
  t.ok(isReadAlike(readMessage('<a>x<!-- c -->y<b/></a>', metadataLimits)))
})

t.test('two parsers read the same in messages and metadata of each profile', async t => {
  for (const name of Object.keys(profiles) as Array<keyof typeof profiles>) {
    const idp = new ScriptedIdp(name, { now: () => 0 })
    t.ok(isReadAlike(readMessage(idp.respond({ inResponseTo: '_1' }))), name)
    t.ok(isReadAlike(readMessage(idp.metadata(), metadataLimits)), name)
  }
})

t.test('the comparison finds what xmldom reads as another document', async t => {
  const ours = readMessage('<a xmlns:p="urn:p" b="1"><c>x</c>y</a>')
  for (const text of [
    '<a xmlns:p="urn:p" b="2"><c>x</c>y</a>',
    '<a xmlns:p="urn:q" b="1"><c>x</c>y</a>',
    '<a xmlns:p="urn:p" p:b="1"><c>x</c>y</a>',
    '<a xmlns:p="urn:p" b="1" d=""><c>x</c>y</a>',
    '<a xmlns:p="urn:p" b="1"><c>x</c>y<d/></a>',
    '<a xmlns:p="urn:p" b="1"><c>x</c></a>',
    '<a xmlns:p="urn:p" b="1"><c>x<!-- -->z</c>y</a>',
    '<a xmlns:p="urn:p" b="1">y<c>x</c></a>',
    '<a xmlns:p="urn:p" b="1"><c xmlns="urn:c">x</c>y</a>',
  ]) {
    t.notOk(isReadAlike({ root: ours.root, text }), text)
  }
  t.throws(() => isReadAlike({ root: ours.root, text: '<a' }), /xmldom/)
})

t.test('13: whatever the scan lets pass, both parsers read alike', async t => {
  const sample =
    '<p:a xmlns:p="urn:p" xmlns="urn:d" b="1&amp;" p:b=\'2\'>x\r\n<b c="">&#x41;</b><b/>z</p:a>'
  const pieces = [
    ...hostilePieces,
    '<',
    '>',
    '</',
    '/>',
    ' xmlns:q="urn:q"',
    ' q:x="1"',
    '&#9;',
    '&lt;',
    '<q:e/>',
    '\u0085',
    '\u2028',
  ]
  let passed = 0
  for (let seed = 0; seed < 4000; seed += 1) {
    const text = seeded(seed).mutate(sample, pieces)
    let document: ReturnType<typeof readMessage>
    try {
      document = readMessage(Buffer.from(text), messageLimits)
    } catch {
      continue
    }
    passed += 1
    const canonical = canonicalBytes(document.root, document.root).toString()
    const again = readMessage(canonical)
    try {
      if (isReadAlike(document) && isReadAlike(again)) continue
      t.fail(`seed ${seed}: ${JSON.stringify(text)}`)
    } catch (error) {
      t.fail(`seed ${seed}: ${JSON.stringify(text)}: ${error}`)
    }
  }
  t.ok(passed > 500, `${passed} passed the scan`)
})
