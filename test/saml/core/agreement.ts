import t from 'tap'
import { agreedDocument } from '../../../lib/saml/core/agreement.ts'
import { messageLimits, metadataLimits, readMessage } from '../../../lib/saml/core/message.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('two parsers read the same in what is plain', async t => {
  for (const text of [
    '<a/>',
    '<p:a xmlns:p="urn:p" xmlns="urn:d" id="1\t2&#10;" p:id="2">x<b>y&amp;&lt;</b>z</p:a>',
    '<a xmlns="urn:a"><b xmlns="">&#13;\r\n</b><c xml:lang="en"/></a>',
    // What a directory has in the name of a person after a wrong conversion.
    '<a b="J\ufffdrgen">J\ufffdrgen</a>',
  ]) {
    t.doesNotThrow(() => agreedDocument(readMessage(text)), text)
  }
  t.doesNotThrow(() => agreedDocument(readMessage('<a>x<!-- c -->y<b/></a>', metadataLimits)))
})

t.test('a document that xmldom reads as another one is refused', async t => {
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
    '<a',
  ]) {
    t.throws(() => agreedDocument({ root: ours.root, text }), /xmldom|two parsers/, text)
  }
})

t.test('whatever the scan lets pass, both parsers read alike', async t => {
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
    try {
      agreedDocument(document)
    } catch (error) {
      t.fail(`seed ${seed}: ${JSON.stringify(text)}: ${error}`)
    }
  }
  t.ok(passed > 500, `${passed} passed the scan`)
})
