/**
 * Properties of the scanner and of metadata: no text crashes them, and none costs more work than its size allows.
 */
import fc from 'fast-check'
import t from 'tap'
import { readIdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'
import { messageLimits, metadataLimits } from '../../../lib/saml/xml/message.ts'
import { parseXml } from '../../../lib/saml/xml/scan.ts'
import type { XmlElement } from '../../../lib/saml/xml/xml.ts'
import { settings, textOf, within } from '../../fixtures/chance/properties.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'

const xmlPieces = [
  ...[
    '<a',
    '<b:c',
    '>',
    '/>',
    '</a>',
    '</b:c>',
    ' x="1"',
    " y='2'",
    ' xmlns:b="u"',
    ' xmlns="v"',
    'text',
    '&amp;',
  ],
  ...[
    '&#65;',
    '&#0;',
    '&x;',
    '<!--',
    '-->',
    '<![CDATA[',
    ']]>',
    '<?p',
    '?>',
    '<!DOCTYPE a>',
    '\ufeff',
    '\r\n',
  ],
  ...['<?xml version="1.0"?>', '"', "'", '=', ' ', '&', '<'],
]

t.test('scanner: any text is an element and what stands in it, or a reason', t => {
  fc.assert(
    fc.property(textOf(xmlPieces), text => {
      const scanned = within(() => parseXml(text, messageLimits))
      if (!scanned.ok) return scanned.problem.length > 0
      const { root, text: read } = scanned
      const again = parseXml(read.slice(root.start, root.end), messageLimits)
      // What is signed is cut out of the whole: it has to read the same alone.
      return again.ok && shapeOf(again.root) === shapeOf(root)
    }),
    settings(10),
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
      const scanned = parseXml(bytes, messageLimits)
      return scanned.ok || scanned.because.length > 0
    }),
    settings(3),
  )
  t.end()
})

const name = fc.stringMatching(/^[a-z][a-z0-9]{0,5}$/)
/** Text between elements: none is next to another, and none is empty. */
const words = fc
  .stringMatching(/^[a-zA-Z0-9 .,;'"=>]{1,10}$/)
  .map(text => text.replaceAll(']]>', '.'))
interface Tree {
  readonly name: string
  readonly attributes: ReadonlyArray<readonly [string, string]>
  readonly content: ReadonlyArray<Tree | string>
}
/** Elements up to so many levels deep. */
function treeOf(depth: number): fc.Arbitrary<Tree> {
  const children =
    depth === 0 ? fc.constant<Tree[]>([]) : fc.array(treeOf(depth - 1), { maxLength: 3 })
  return fc.record({
    name,
    attributes: fc.uniqueArray(fc.tuple(name, fc.stringMatching(/^[a-z0-9 :/]{0,8}$/)), {
      selector: ([key]) => key,
      maxLength: 4,
    }),
    content: fc
      .tuple(children, fc.option(words))
      .map(([elements, text]) => (text === null ? elements : [text, ...elements])),
  })
}

t.test('scanner: what is written is what is read', t => {
  const write = ({ name, attributes, content }: Tree): string =>
    `<${name}${attributes.map(([key, value]) => ` ${key}="${value}"`).join('')}>${content
      .map(part => (typeof part === 'string' ? part : write(part)))
      .join('')}</${name}>`
  const written = ({ name, attributes, content }: Tree): unknown => [
    name,
    attributes,
    content.map(part => (typeof part === 'string' ? part : written(part))),
  ]
  fc.assert(
    fc.property(treeOf(3), document => {
      const scanned = parseXml(write(document), messageLimits)
      return scanned.ok && shapeOf(scanned.root) === JSON.stringify(written(document))
    }),
    settings(1),
  )
  t.end()
})

function shapeOf(root: XmlElement): string {
  const shape = ({ tag, declares, attributes, content }: XmlElement): unknown => [
    tag,
    [...declares, ...attributes.map(({ tag, value }) => [tag, value])],
    content.map(part => (typeof part === 'string' ? part : shape(part))),
  ]
  return JSON.stringify(shape(root))
}

t.test('scanner, metadata: whatever is repeated to a megabyte costs no more than its size', t => {
  const rules = { entityId: undefined, certificates: undefined, allowSha1: false }
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...xmlPieces), { minLength: 1, maxLength: 4 }), pieces => {
      const piece = pieces.join('')
      const large = `<a ${piece.repeat(Math.floor(messageLimits.size / (piece.length + 1)))}`
      within(() => parseXml(large, messageLimits))
      within(() => readIdpMetadata(Buffer.from(large.slice(0, metadataLimits.size)), rules))
      return true
    }),
    settings(0.2),
  )
  t.end()
})

t.test('metadata: whatever is changed, its keys stand in the document', t => {
  const rules = { entityId: undefined, certificates: undefined, allowSha1: false }
  const idp = new ScriptedIdp('entra', { now: () => Date.parse('2026-11-20T12:00:00Z') })
  const good = idp.metadata()
  const splice = fc.tuple(
    fc.nat(good.length),
    fc.nat(30),
    textOf([...xmlPieces, '//', 'https:', 'http:', '@', '\\n', 'AAAA']),
  )
  let read = 0
  fc.assert(
    fc.property(fc.array(splice, { minLength: 1, maxLength: 3 }), splices => {
      let text = good
      for (const [at, skipped, put] of splices)
        text = text.slice(0, at) + put + text.slice(at + skipped)
      const verdict = within(() => readIdpMetadata(Buffer.from(text), rules))
      if (!verdict.ok) return verdict.problem.length > 0
      read += 1
      const bare = text.replace(/\s+/g, '')
      return (
        verdict.idp.keys.every(({ certificate }) =>
          bare.includes(certificate.split('\n').slice(1, -2).join('')),
        ) &&
        verdict.idp.singleSignOn.every(({ location }) => /^https?:\/\/[\x21-\x7e]+$/.test(location))
      )
    }),
    settings(3),
  )
  t.ok(read > 0, `${read} were read`)
  t.end()
})
