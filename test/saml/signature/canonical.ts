/**
 * Our canonicalisation against xml-crypto's, on documents that seeded chance makes: what one signs, the other verifies.
 */
import { createHash, createPrivateKey } from 'node:crypto'
import t from 'tap'
import { SignedXml } from 'xml-crypto'
import { signatureBy, signatureMethods } from '../../../lib/saml/signature/method.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { verifySignature } from '../../../lib/saml/signature/signature.ts'
import { readMessage } from '../../../lib/saml/xml/message.ts'
import { digestMethods, ns, transforms } from '../../../lib/saml/xml/vocabulary.ts'
import { type Chance, seeded } from '../../fixtures/chance/seeded-random.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'

const key = rsaPair('idp')
const rules = { certificates: [key.certificate], allowSha1: false }
const prefixes = ['', 'a', 'b', 'a-b', 'xs']
const text = [
  'x',
  ' ',
  '\n',
  '\t',
  '&amp;',
  '&lt;',
  '>',
  '&gt;',
  '&quot;',
  '&#13;',
  '&#10;',
  '&#9;',
  'é',
  '😀',
  "'",
]

/** An element in which every prefix is declared, somewhere. */
function element(chance: Chance, depth: number): string {
  const name = (prefix: string, local: string) => (prefix === '' ? local : `${prefix}:${local}`)
  const declarations = prefixes
    .filter(() => chance.below(4) === 0)
    .map(prefix => ` xmlns${prefix === '' ? '' : `:${prefix}`}="urn:${chance.below(3)}"`)
  const attributes = new Map<string, string>()
  for (let i = chance.below(4); i > 0; i -= 1) {
    attributes.set(name(chance.pick(['', 'a', 'b']), `n${i}`), chance.text(text, 4))
  }
  const written = [...attributes].map(([tag, value]) => ` ${tag}="${value}"`)
  const tag = name(chance.pick(prefixes), chance.pick(['e', 'f']))
  const content = Array.from({ length: depth === 0 ? 0 : chance.below(4) }, () =>
    chance.below(2) === 0 ? chance.text(text, 5) : element(chance, depth - 1),
  )
  const head = `<${tag}${[...declarations, ...written].join('')}`
  return content.length === 0 && chance.below(2) === 0
    ? `${head}/>`
    : `${head}>${content.join('')}</${tag}>`
}

function documentOf(chance: Chance): string {
  const all = prefixes.slice(1).map(prefix => ` xmlns:${prefix}="urn:${prefix}"`)
  const inner = Array.from({ length: 3 }, () => element(chance, 4)).join('')
  return `<r${all.join('')}><s ID="_1" xml:lang="en"${chance.below(2) === 0 ? ' xmlns="urn:d"' : ''}>${inner}</s></r>`
}

t.test('what xml-crypto signs verifies here, with inclusive namespaces too', async t => {
  for (let seed = 0; seed < 150; seed += 1) {
    const chance = seeded(seed)
    const plain = documentOf(chance)
    const signer = new SignedXml({
      privateKey: key.privateKey,
      signatureAlgorithm: signatureMethods.rsaSha256,
      canonicalizationAlgorithm: transforms.exclusive,
    })
    signer.addReference({
      xpath: "//*[@ID='_1']",
      transforms: [transforms.enveloped, transforms.exclusive],
      digestAlgorithm: digestMethods.sha256,
      inclusiveNamespacesPrefixList: chance.below(2) === 0 ? ['xs', 'b'] : [],
    })
    signer.computeSignature(plain, {
      prefix: 'ds',
      location: { reference: "//*[@ID='_1']", action: 'prepend' },
    })
    const document = readMessage(signer.getSignedXml())
    const [signed] = document.root.children
    if (signed === undefined) throw new Error('there is nothing signed')
    t.doesNotThrow(() => verifySignature(document, signed, rules), `seed ${seed}: ${plain}`)
  }
})

t.test('what is signed here verifies by xml-crypto, and is the same canonical text', async t => {
  for (let seed = 1000; seed < 1150; seed += 1) {
    const plain = documentOf(seeded(seed))
    const text = signElement(plain, { id: '_1', key })
    const document = readMessage(text)
    const [signed] = document.root.children
    if (signed === undefined) throw new Error('there is nothing signed')
    const ours = verifySignature(document, signed, rules)
    const [signature = ''] = /<ds:Signature .*<\/ds:Signature>/s.exec(text) ?? []
    const check = new SignedXml({ publicCert: key.certificate })
    check.loadSignature(signature)
    t.ok(check.checkSignature(text), `seed ${seed}: ${plain}`)
    t.strictSame(check.getSignedReferences(), [ours])
  }
})

/** Verifies an element with this start tag, in one of the namespace urn:d, whose signed digest is that of `canonical`. */
function verifyDigest(startTag: string, prefixes: string, canonical: string): string {
  const info = signedInfo(prefixes, createHash('sha256').update(canonical).digest('base64'))
  const data = info.replace('>', ` xmlns="${ns.signature}">`)
  const uri = signatureMethods.rsaSha256
  const value = signatureBy({ key: createPrivateKey(key.privateKey), uri, data }).toString('base64')
  const signature = `<Signature xmlns="${ns.signature}">${info}<SignatureValue>${value}</SignatureValue></Signature>`
  const document = readMessage(
    `<r xmlns="urn:d">${startTag}x${signature}<a:e xmlns="urn:e"/></a:s></r>`,
  )
  const [element] = document.root.children
  if (element === undefined) throw new Error('there is nothing signed')
  return verifySignature(document, element, rules)
}

t.test('#default has default namespaces declared that no name uses', async t => {
  const start = '<a:s xmlns:a="urn:a" ID="_1">'
  const plain = `${start}x<a:e></a:e></a:s>`
  t.equal(verifyDigest(start, 'a', plain), plain)
  const declared = '<a:s xmlns="urn:d" xmlns:a="urn:a" ID="_1">x<a:e xmlns="urn:e"></a:e></a:s>'
  t.equal(verifyDigest(start, '#default', declared), declared)
  t.throws(() => verifyDigest(start, 'a', declared), /does not verify/)
  t.throws(() => verifyDigest(start, '#default', plain), /does not verify/)
})

t.test('no default namespace is taken back once for all that is in an element', async t => {
  for (const inner of [
    '<e xmlns=""><f><g></g></f><g></g></e>',
    '<e xmlns=""><f xmlns="urn:f"><g xmlns=""><h></h></g></f></e>',
  ]) {
    for (const start of [
      '<s xmlns="urn:d" ID="_1">',
      '<a:s xmlns:a="urn:a" xmlns="urn:d" ID="_1"><d>',
    ]) {
      const end = start.startsWith('<s') ? '</s>' : '</d></a:s>'
      const text = `<r>${start}${inner}${end}</r>`
      const signed = signElement(text, {
        id: '_1',
        key,
        signatureMethod: signatureMethods.rsaSha256,
      })
      const document = readMessage(signed)
      const [element] = document.root.children
      if (element === undefined) throw new Error('there is nothing signed')
      t.doesNotThrow(() => verifySignature(document, element, rules), text)
    }
  }
})

t.test('a text that xml-crypto would not write is refused, signed or not', async t => {
  // xml-crypto escapes nothing in namespaces.
  const start = '<a:s xmlns:a="urn:a&amp;b" ID="_1">'
  t.throws(() => verifyDigest(start, 'a', `${start}x<a:e></a:e></a:s>`), {
    refused: { because: 'signature_invalid' },
    message: 'xml-crypto writes another canonical text of s',
  })
})

/** In its canonical form, but for its namespace, which stands at Signature. */
function signedInfo(prefixes: string, digest: string): string {
  return (
    `<SignedInfo><CanonicalizationMethod Algorithm="${transforms.exclusive}"></CanonicalizationMethod>` +
    `<SignatureMethod Algorithm="${signatureMethods.rsaSha256}"></SignatureMethod>` +
    `<Reference URI="#_1"><Transforms><Transform Algorithm="${transforms.enveloped}"></Transform>` +
    `<Transform Algorithm="${transforms.exclusive}">` +
    `<InclusiveNamespaces xmlns="${transforms.exclusive}" PrefixList="${prefixes}"></InclusiveNamespaces></Transform></Transforms>` +
    `<DigestMethod Algorithm="${digestMethods.sha256}"></DigestMethod>` +
    `<DigestValue>${digest}</DigestValue></Reference></SignedInfo>`
  )
}

t.test('prefixes are declared in the order of code points', async t => {
  const text = signElement('<r xmlns:a="urn:a" xmlns:S="urn:s" ID="_1"><a:e S:b="1"/></r>', {
    id: '_1',
    key,
  })
  const document = readMessage(text)
  t.match(
    verifySignature(document, document.root, rules),
    '<a:e xmlns:S="urn:s" xmlns:a="urn:a" S:b="1"></a:e>',
  )
})
