/**
 * From the bytes of a Response to what its signed assertion says. Runs in a thread of its own (verifier.ts), knows no time and
 * no request: whether the assertion is meant for us, now, is decided by check-assertion.ts.
 *
 * The order is the argument: nothing is computed over a document whose form could deceive, and everything that is read in the
 * end is read from the canonical bytes a signature was verified over.
 */
import { explainError } from '../../../errors.ts'
import { decryptElement } from './decryption.ts'
import { type RevealReason, revealAssertion } from './encrypted-elements.ts'
import {
  type AssertionFacts,
  issuerOf,
  type ResponseFacts,
  readAssertion,
  readResponse,
} from './read-assertion.ts'
import { messageLimits } from './scan.ts'
import { signedAssertionOf } from './second-opinion.ts'
import { isSigned, type SignatureReason, verifySignature } from './signature.ts'
import { ns, shortName, status } from './vocabulary.ts'
import {
  allElements,
  attributeOf,
  childOf,
  childrenOf,
  parseXml,
  parseXmlText,
  type XmlElement,
  type XmlReason,
} from './xml.ts'

export interface ResponseRules {
  readonly certificates: readonly string[]
  /** Private keys in PEM, newest first. */
  readonly decryptionKeys: readonly string[]
  readonly allowSha1: boolean
}

export type ResponseReason =
  | `xml_${XmlReason}`
  | 'response_form'
  | 'assertion_missing'
  | 'assertion_several'
  | 'idp_status'
  | 'second_opinion'
  | SignatureReason
  | RevealReason

export type ResponseVerdict =
  | {
      readonly ok: true
      readonly response: ResponseFacts
      readonly assertion: AssertionFacts
      readonly encrypted: boolean
    }
  | {
      readonly ok: false
      readonly because: ResponseReason
      readonly problem: string
      /** Issuer as the response claims it, for the log; nobody has verified it. */
      readonly claimedIssuer?: string | undefined
    }

interface Document {
  readonly root: XmlElement
  readonly text: string
}

/** Verifies a response. Never throws for what is in it. */
export async function verifyResponse(
  bytes: Uint8Array,
  rules: ResponseRules,
): Promise<ResponseVerdict> {
  const parsed = parseXml(bytes, messageLimits)
  if (!parsed.ok) return refuse(`xml_${parsed.because}`, parsed.problem)
  const verdict = await verifyDocument(parsed, rules)
  return verdict.ok ? verdict : { ...verdict, claimedIssuer: issuerOf(parsed.root)?.slice(0, 200) }
}

async function verifyDocument(given: Document, rules: ResponseRules): Promise<ResponseVerdict> {
  const problem = checkResponseForm(given.root) ?? checkStatus(given.root)
  if (problem !== undefined) return problem

  // A signature that is there must hold, even if another would do.
  const signed = isSigned(given.root)
  let source = given
  if (signed) {
    const verified = verifySignature(given, given.root, rules)
    if (!verified.ok) return verified
    const canonical = parseXmlText(verified.text, messageLimits)
    if (!canonical.ok) return refuse(`xml_${canonical.because}`, canonical.problem)
    source = canonical
  }
  const response = readResponse(source.root, signed)

  const held = holderOf(source.root)
  if ('because' in held) return held
  const encrypted = held.name === 'EncryptedAssertion'
  const plain = encrypted ? decrypt(held, rules) : { ...source, assertion: held }
  if ('because' in plain) return plain
  const { assertion } = plain

  if (!isSigned(assertion)) {
    if (!signed)
      return refuse('signature_missing', 'neither the response nor the assertion is signed')
    if (encrypted) return readOpen(assertion, { response, encrypted }, rules)
    return agreed(given.text, assertion, { response, encrypted }, rules)
  }
  const verified = verifySignature(plain, assertion, rules)
  if (!verified.ok) return verified
  const canonical = parseXmlText(verified.text, messageLimits)
  if (!canonical.ok) return refuse(`xml_${canonical.because}`, canonical.problem)
  const text = encrypted ? wrapped(plain.text) : given.text
  return agreed(text, canonical.root, { response, encrypted }, rules)
}

/**
 * One Response, one assertion directly in it, signatures only where SAML has them: whatever moves, hides or doubles an element
 * (signature wrapping) ends here.
 */
function checkResponseForm(root: XmlElement): (ResponseVerdict & { ok: false }) | undefined {
  if (root.name !== 'Response' || root.namespace !== ns.protocol) {
    return refuse('response_form', 'the root is no SAML 2.0 Response')
  }
  for (const child of root.children) {
    if (!isKnownChild(child)) return refuse('response_form', `a ${child.name} inside the Response`)
  }
  const counted = countNames(root)
  if (counted('Response') !== 1) return refuse('response_form', 'a Response inside the Response')
  const direct = root.children.filter(child => CARRIERS.includes(child.name))
  if (counted('Assertion') + counted('EncryptedAssertion') !== direct.length) {
    return refuse('response_form', 'an assertion where none may stand')
  }
  if (direct.length > 1)
    return refuse('assertion_several', `${direct.length} assertions instead of one`)
  const places = [root, ...direct.filter(child => child.name === 'Assertion')]
  return checkSignatures(root, places)
}

function checkSignatures(root: XmlElement, places: readonly XmlElement[]) {
  const inPlace = places.flatMap(place => childrenOf(place, ns.signature, 'Signature'))
  const everywhere = [...allElements(root)].filter(element => element.name === 'Signature')
  return everywhere.length === inPlace.length && inPlace.length <= places.length
    ? undefined
    : refuse('response_form', 'a signature where none may stand')
}

const CARRIERS: readonly string[] = ['Assertion', 'EncryptedAssertion']

/** 3.2.2; Extensions are left out, since nobody needs them and forgeries hide there. */
function isKnownChild({ name, namespace }: XmlElement): boolean {
  if (namespace === ns.assertion) return name === 'Issuer' || CARRIERS.includes(name)
  if (namespace === ns.signature) return name === 'Signature'
  return namespace === ns.protocol && name === 'Status'
}

/** How often a local name occurs, in whatever namespace. */
function countNames(root: XmlElement): (name: string) => number {
  const counts = new Map<string, number>()
  for (const { name } of allElements(root)) counts.set(name, (counts.get(name) ?? 0) + 1)
  return name => counts.get(name) ?? 0
}

/** 3.2.2.1. An IdP that says no need not sign that; it only ever leads to a page that says so. */
function checkStatus(root: XmlElement): (ResponseVerdict & { ok: false }) | undefined {
  const found = childOf(root, ns.protocol, 'Status')
  const code = found === undefined ? undefined : childOf(found, ns.protocol, 'StatusCode')
  const value = code === undefined ? undefined : attributeOf(code, 'Value')
  if (found === undefined || code === undefined || value === undefined) {
    return refuse('response_form', 'the Response has no StatusCode')
  }
  if (value === status.success) return undefined
  const inner = childOf(code, ns.protocol, 'StatusCode')
  const innerValue = inner === undefined ? undefined : attributeOf(inner, 'Value')
  const codes = [value, innerValue].filter(each => each !== undefined).map(shortName)
  const message = childOf(found, ns.protocol, 'StatusMessage')?.text.trim().slice(0, 300)
  const said = message === undefined || message === '' ? '' : `: ${JSON.stringify(message)}`
  return refuse('idp_status', `the IdP answered ${codes.join(' / ').slice(0, 200)}${said}`)
}

function holderOf(root: XmlElement): XmlElement | ReturnType<typeof refuse> {
  const held = root.children.find(child => CARRIERS.includes(child.name))
  return held ?? refuse('assertion_missing', 'the response holds no assertion')
}

/** What was encrypted has to be one assertion and nothing else, by the same rules as one that was not. */
function decrypt(held: XmlElement, rules: ResponseRules) {
  const decrypted = decryptElement(held, rules.decryptionKeys)
  if (!decrypted.ok) return decrypted
  const { root, text } = decrypted
  if (root.name !== 'Assertion' || root.namespace !== ns.assertion) {
    return refuse('response_form', 'what was encrypted is no assertion')
  }
  const counted = countNames(root)
  if (counted('Assertion') + counted('EncryptedAssertion') + counted('Response') !== 1) {
    return refuse('response_form', 'an assertion inside the assertion')
  }
  return checkSignatures(root, [root]) ?? { root, text, assertion: root }
}

/** An assertion that was encrypted, as it would have come in the open: what the second opinion is asked about. */
function wrapped(text: string): string {
  const bare = text.replace(/^<\?xml[^>]*\?>/, '').trim()
  return `<samlp:Response xmlns:samlp="${ns.protocol}" Version="2.0">${bare}</samlp:Response>`
}

async function agreed(
  text: string,
  assertion: XmlElement,
  found: { readonly response: ResponseFacts; readonly encrypted: boolean },
  rules: ResponseRules,
): Promise<ResponseVerdict> {
  let other: string
  try {
    other = await signedAssertionOf(text, rules.certificates)
  } catch (error) {
    return refuse('second_opinion', `node-saml refuses it: ${explainError(error)}`)
  }
  const parsed = parseXmlText(other, messageLimits)
  if (!parsed.ok || !isSameElement(withoutSignature(parsed.root), withoutSignature(assertion))) {
    return refuse('second_opinion', 'node-saml finds another assertion in it')
  }
  return readOpen(assertion, found, rules)
}

/** The last step: what is encrypted inside is decrypted only now, when a signature over its encrypted form has held. */
function readOpen(
  assertion: XmlElement,
  found: { readonly response: ResponseFacts; readonly encrypted: boolean },
  rules: ResponseRules,
): ResponseVerdict {
  const revealed = revealAssertion(assertion, rules.decryptionKeys)
  return revealed.ok ? { ok: true, ...found, assertion: readAssertion(revealed.root) } : revealed
}

function withoutSignature(element: XmlElement): XmlElement {
  const children = element.children.filter(child => child.name !== 'Signature')
  return { ...element, children }
}

/** Whether two trees say the same, wherever they stood and whatever prefixes they use. */
function isSameElement(a: XmlElement, b: XmlElement): boolean {
  if (a.name !== b.name || a.namespace !== b.namespace || a.text !== b.text) return false
  if (a.attributes.length !== b.attributes.length || a.children.length !== b.children.length)
    return false
  const sameAttributes = a.attributes.every(one =>
    b.attributes.some(
      other =>
        other.name === one.name && other.namespace === one.namespace && other.value === one.value,
    ),
  )
  return sameAttributes && a.children.every((child, i) => isSame(child, b.children[i]))
}

function isSame(a: XmlElement, b: XmlElement | undefined): boolean {
  return b !== undefined && isSameElement(a, b)
}

function refuse(because: ResponseReason, problem: string) {
  return { ok: false, because, problem } as const
}
