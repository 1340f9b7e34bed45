/**
 * Verifies enveloped XML signatures, as SAML profiles them (saml-core-2.0-os section 5.4). The result is the verified text: the
 * canonical bytes that were signed.
 *
 * The order keeps strangers cheap: first the form, on our own tree, and whether there is a key of the method's kind; then the
 * signature over SignedInfo; when a key of the IdP has made that, the digest over the element as we canonicalise it. For a
 * message that passes these steps xml-crypto decides: the text it writes has to have that digest, and all facts are read from
 * that text. One reference to the parent's ID, an ID that occurs once, two known transforms, known algorithms. KeyInfo is not
 * read at all.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { decodeBase64 } from '../xml/encoding.ts'
import { infoLimits, readMessage, refuse, signedLimits } from '../xml/message.ts'
import { digestMethods, digests, ns, transforms } from '../xml/vocabulary.ts'
import {
  allElements,
  allNamed,
  attributeOf,
  childOf,
  childrenOf,
  type XmlDocument,
  type XmlElement,
  type XmlLimits,
} from '../xml/xml.ts'
import { canonicalBytes } from './canonical.ts'
import { isSignedBy, methodProblem, type SignatureRules } from './method.ts'
import { signedText } from './signed-text.ts'

/** Whether an element carries a signature of its own. */
export function isSigned(element: XmlElement): boolean {
  return childrenOf(element, ns.signature, 'Signature').length > 0
}

/** The rules of a signature, and the limits of what it is over. */
type BoundedRules = SignatureRules & { readonly limits?: XmlLimits }

/**
 * The signed content of `element`, read from the canonical bytes that were signed. Unsigned parts of the message are not in it.
 * Refuses an invalid signature.
 */
export function signedContent(
  document: XmlDocument,
  element: XmlElement,
  rules: BoundedRules,
): XmlDocument {
  const { limits = signedLimits() } = rules
  return readMessage(verifySignature(document, element, rules), limits)
}

/**
 * The canonical text of `element`, a part of the document, without the signature directly in it, after that signature is
 * verified. Without a usable key the refusal is `signature_invalid`, because an unknown key and a changed content cannot be
 * distinguished.
 */
export function verifySignature(
  document: XmlDocument,
  element: XmlElement,
  { certificates, allowSha1, limits = signedLimits() }: BoundedRules,
): string {
  const { root } = document
  const { signature, info: unread } = checkForm(element)
  const info = signedInfo(root, unread)
  checkReference(root, element, info.root)
  const { method, digest, inclusive } = checkAlgorithms(info.root, allowSha1)
  const fail = (): never =>
    refuse(
      'signature_invalid',
      `the signature of ${element.name} does not verify with any key of the IdP`,
    )
  const value = decodeBase64(childOf(signature, ns.signature, 'SignatureValue')?.text ?? '')
  if (value === undefined) return fail()
  if (!isSignedBy(certificates, method, { data: info.text, value })) return fail()
  const expected = decodeBase64(allNamed(info.root, 'DigestValue')[0]?.text ?? '')
  const hash = digests.get(digest)
  if (expected === undefined || hash === undefined) return fail()
  const hasDigest = (content: string | Buffer) => {
    const found = createHash(hash).update(content).digest()
    return found.length === expected.length && timingSafeEqual(found, expected)
  }
  const parts = { inclusive, omitted: signature, most: limits.size }
  if (!hasDigest(canonicalBytes(root, element, parts))) return fail()
  const text = signedText(document, element, parts)
  if (!hasDigest(text)) {
    refuse('signature_invalid', `xml-crypto writes another canonical text of ${element.name}`)
  }
  return text
}

/** The most elements of a signature: enough for a chain of certificates in KeyInfo, and too few to hide another document. */
const MOST_ELEMENTS = 64
/** The most elements of SignedInfo. SAML has at most eleven. */
const MOST_INFO = 16

/** The namespaces of InclusiveNamespaces: xml-crypto writes one in each transform, in that of its name, and one of them counts. */
const LISTING: readonly string[] = Object.values(transforms)

/** The elements that SignedInfo may contain. Another could change the meaning of a signature without this verifier knowing. */
const INFO_PARTS: readonly string[] = [
  ...['SignedInfo', 'CanonicalizationMethod', 'SignatureMethod', 'Reference'],
  ...['Transforms', 'Transform', 'DigestMethod', 'DigestValue'],
]

/** The signature in `element` and its SignedInfo, in the form that SAML requires. The check computes nothing. */
function checkForm(element: XmlElement) {
  if (!isSigned(element)) refuse('signature_missing', `${element.name} is not signed`)
  const signature = only(element, 'Signature')
  if (allElements(signature).length > MOST_ELEMENTS) {
    refuse('signature_form', `more than ${MOST_ELEMENTS} elements in the signature`)
  }
  const info = only(signature, 'SignedInfo')
  only(signature, 'SignatureValue')
  // ds:Object could carry another document (signature wrapping), and SAML does not use it (5.4.5).
  if (childrenOf(signature, ns.signature, 'Object').length > 0) {
    refuse('signature_form', 'an Object inside the signature')
  }
  const foreign = ({ namespace, name }: XmlElement) =>
    namespace === ns.signature
      ? !INFO_PARTS.includes(name)
      : !LISTING.includes(namespace) || name !== 'InclusiveNamespaces'
  const parts = allElements(info)
  if (parts.some(foreign)) refuse('signature_form', 'a foreign element inside SignedInfo')
  const references = allNamed(info, 'Reference')
  if (references.length !== 1) {
    refuse('signature_reference', `${references.length} references instead of one`)
  }
  if (parts.length > MOST_INFO) refuse('signature_form', 'too much inside SignedInfo')
  return { signature, info }
}

function only(parent: XmlElement, name: string): XmlElement {
  const [first, ...more] = childrenOf(parent, ns.signature, name)
  return first === undefined || more.length > 0
    ? refuse('signature_form', `not exactly one ${name} in ${parent.name}`)
    : first
}

/** SignedInfo, read from the canonical bytes that the signature is over. */
function signedInfo(root: XmlElement, info: XmlElement): XmlDocument {
  const inclusive = prefixesOf(childOf(info, ns.signature, 'CanonicalizationMethod'))
  // The size is checked before the canonical text is written, which can be four times as long.
  const { size } = infoLimits
  if (info.end - info.start > size)
    refuse('xml_too-large', `SignedInfo is larger than ${size} bytes`)
  return readMessage(canonicalBytes(root, info, { inclusive, most: size }).toString(), infoLimits)
}

/** The most characters of the PrefixList of an InclusiveNamespaces. IdPs name one or two prefixes. */
const LONGEST_LIST = 256

function prefixesOf(method: XmlElement | undefined): readonly string[] {
  const element = childOf(method, transforms.exclusive, 'InclusiveNamespaces')
  const list = attributeOf(element, 'PrefixList') ?? ''
  if (list.length > LONGEST_LIST) refuse('signature_form', 'too many inclusive namespaces')
  const prefixes = list.split(/[\t\n\r ]+/).filter(Boolean)
  return prefixes.map(prefix => (prefix === '#default' ? '' : prefix))
}

/** 5.4.2: one reference, to the ID of the parent; and no second element may have that ID, however the attribute is spelt. */
function checkReference(root: XmlElement, element: XmlElement, info: XmlElement): void {
  const id = attributeOf(element, 'ID') ?? ''
  if (!ID.test(id)) {
    const expected = 'a value without white space, quotes and the characters ` < > & ( ) % # \\'
    const finding = { what: `${element.name} ID`, expected, received: id || '(nothing)' }
    refuse('signature_reference', 'the signed element has no proper ID', { finding })
  }
  const uri = attributeOf(childOf(info, ns.signature, 'Reference'), 'URI') ?? ''
  if (uri !== `#${id}`) {
    const finding = { what: 'Reference URI', expected: `#${id}`, received: uri || '(nothing)' }
    const problem = 'the reference is not to the element around the signature'
    refuse('signature_reference', problem, { finding })
  }
  let bearers = 0
  for (const { attributes } of allElements(root)) {
    for (const { name, value } of attributes) {
      if (value === id && name.toLowerCase() === 'id') bearers += 1
    }
  }
  if (bearers !== 1) {
    const received = `${id} at ${bearers} elements`
    const finding = {
      what: `${element.name} ID`,
      expected: 'an ID of this element alone',
      received,
    }
    refuse('signature_reference', 'the ID of the signed element is not unique', { finding })
  }
}

/**
 * The pattern allows more than xs:ID (saml-core-2.0-os section 1.3.4), because some IdPs write GUIDs and base64. The ID is only
 * compared. Characters that other libraries could read as the end of an XPath string, or as another reference (`#xpointer(/)`,
 * `%41`), are not allowed.
 */
const ID = /^[^\s\p{C}"'`<>&()%#\\]{1,1024}$/u

const EXCLUSIVE: readonly string[] = [transforms.exclusive, transforms.exclusiveWithComments]

/** 5.4.3 and 5.4.4, and no algorithm that is not listed. */
function checkAlgorithms(info: XmlElement, allowSha1: boolean) {
  const used = (name: string) =>
    allNamed(info, name).map(each => attributeOf(each, 'Algorithm') ?? '')
  const [canonicalization = '', ...moreCanonicalizations] = used('CanonicalizationMethod')
  if (moreCanonicalizations.length > 0 || !EXCLUSIVE.includes(canonicalization)) {
    const received = [canonicalization, ...moreCanonicalizations].join(' ')
    const finding = { what: 'CanonicalizationMethod', expected: transforms.exclusive, received }
    refuse('signature_algorithm', `canonicalisation ${received}`, { finding })
  }
  const steps = used('Transform')
  const [first, second = ''] = steps
  if (steps.length !== 2 || first !== transforms.enveloped || !EXCLUSIVE.includes(second)) {
    const expected = `${transforms.enveloped} ${transforms.exclusive}`
    const finding = { what: 'Transforms', expected, received: steps.join(' ') }
    refuse('signature_algorithm', `transforms ${steps.join(' ')}`, { finding })
  }
  const [method, ...moreMethods] = used('SignatureMethod')
  const [digest, ...moreDigests] = used('DigestMethod')
  const values = allNamed(info, 'DigestValue').length
  if (method === undefined || digest === undefined) {
    return refuse('signature_form', 'no SignatureMethod or no DigestMethod')
  }
  if (moreMethods.length + moreDigests.length > 0 || values !== 1) {
    refuse('signature_form', 'not exactly one SignatureMethod, DigestMethod and DigestValue')
  }
  const problem = methodProblem(method, allowSha1)
  const stronger = 'SHA-256, SHA-384 or SHA-512'
  const byMethod = {
    what: 'SignatureMethod',
    expected: `RSA, RSA-PSS or ECDSA with ${stronger}`,
    received: method,
  }
  const byDigest = { what: 'DigestMethod', expected: stronger, received: digest }
  if (problem === 'signature_algorithm')
    refuse(problem, `signature method ${method}`, { finding: byMethod })
  if (!digests.has(digest))
    refuse('signature_algorithm', `digest method ${digest}`, { finding: byDigest })
  if (problem !== undefined || (digest === digestMethods.sha1 && !allowSha1)) {
    const finding = problem === undefined ? byDigest : byMethod
    refuse('signature_sha1', 'it is made with SHA-1', { finding })
  }
  return { method, digest, inclusive: prefixesOf(allNamed(info, 'Transform')[1]) }
}
