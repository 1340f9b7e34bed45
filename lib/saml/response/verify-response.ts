/**
 * Verifies a Response, from its bytes to the facts of its signed assertion. The code runs in a worker thread and knows neither
 * time nor requests: check-assertion.ts decides whether the assertion is for this service and this moment.
 *
 * The order of the steps is the security argument. Signatures are computed only over documents with a checked form, and all
 * facts are read from the canonical bytes that a verified signature is over.
 */
import type { SignatureRules } from '../signature/method.ts'
import { isSigned, signedContent, verifySignature } from '../signature/signature.ts'
import {
  messageLimits,
  type RefusedMessage,
  readMessage,
  refuse,
  refusedBy,
  signedLimits,
} from '../xml/message.ts'
import { ns, shortName, status } from '../xml/vocabulary.ts'
import {
  allElements,
  allNamed,
  attributeOf,
  childOf,
  childrenOf,
  type Prefixes,
  prefixesAt,
  trimXml,
  type XmlDocument,
  type XmlElement,
  type XmlLimits,
} from '../xml/xml.ts'
import { decrypt, namesOfKeys, readEncrypted, revealAssertion } from './decryption.ts'
import {
  type AssertionFacts,
  issuerOf,
  type MessageHead,
  readAssertion,
  readHead,
} from './read-assertion.ts'

export interface ResponseRules extends SignatureRules {
  /** The private keys in PEM, newest first. */
  readonly decryptionKeys: readonly string[]
  /** The limits of a Response; by default those of every message. */
  readonly limits?: XmlLimits
}

export interface VerifiedResponse {
  readonly ok: true
  readonly response: MessageHead
  readonly assertion: AssertionFacts
  readonly encrypted: boolean
}

/** Asks whether a message that was encrypted by these keys may be decrypted; each is named by its hash. */
export type MayDecrypt = (encryptedKeys: readonly string[]) => boolean | Promise<boolean>

/** Verifies a response. Never throws because of its content. */
export async function verifyResponse(
  bytes: Uint8Array,
  rules: ResponseRules,
  mayDecrypt: MayDecrypt,
): Promise<VerifiedResponse | RefusedMessage> {
  let claimedIssuer: string | undefined
  try {
    // 1. One Response with one assertion, each signature in its place, and the status Success.
    const given = readMessage(bytes, rules.limits)
    // Canonicalisation repeats declarations, so the limit is one of the message that came: a small one cannot become a large text.
    const size = Math.max(bytes.length, LEAST_TEXT)
    const limits = signedLimits({ ...messageLimits, ...rules.limits, size })
    const bounded = { ...rules, limits }
    claimedIssuer = issuerOf(given.root)?.slice(0, 200)
    checkForm(given.root)
    checkStatus(given.root)

    // 2. A signature over the Response must hold, even if one over the assertion would do.
    const signed = isSigned(given.root) ? signedContent(given, given.root, bounded) : undefined
    const source = signed ?? given
    const response = readHead(source.root, signed !== undefined)

    // 3. The assertion, decrypted if it has to be.
    const [held] = carriersIn(source.root)
    if (held === undefined) refuse('assertion_missing', 'the response holds no assertion')
    const encrypted = held.name === 'EncryptedAssertion'
    const [carrier = held] = carriersIn(given.root)
    const schema = schemaPrefixes(prefixesAt(given.root, carrier))
    const prefixes = new Map([...schema, ...prefixesAt(source.root, held)])
    const decrypted = encrypted
      ? await decryptAssertion(held, { rules, prefixes, mayDecrypt })
      : undefined
    const inner = decrypted?.root ?? held

    // 4. A signature over the assertion must hold; without one, that over the Response counts.
    const holder = decrypted ?? source
    const text = isSigned(inner) ? verifySignature(holder, inner, bounded) : undefined
    if (text === undefined && signed === undefined) {
      refuse('signature_missing', 'neither Response nor Assertion is signed')
    }
    // In the text of a signed Response the assertion has been hashed as it stands there, so it is not read again.
    const isRead = text === undefined || holder === signed
    const whole = isRead ? holder : readMessage(text, limits)
    const assertion = isRead ? inner : whole.root

    // 5. What is encrypted inside is decrypted last, when a signature over its encrypted form has held.
    const fallback = new Map([...schema, ...schemaPrefixes(inner.declares)])
    const opening = {
      privateKeys: rules.decryptionKeys,
      limits: rules.limits,
      root: whole.root,
      fallback,
    }
    const revealed = revealAssertion(assertion, opening)
    return { ok: true, response, encrypted, assertion: readAssertion(revealed) }
  } catch (error) {
    return { ...refusedBy(error), claimedIssuer }
  }
}

/**
 * Requires one Response, one assertion directly in it, and signatures only where SAML has them. This refuses messages in which
 * an element was moved, hidden or doubled (signature wrapping). Elements are counted by local name, in any namespace.
 */
function checkForm(root: XmlElement): void {
  if (root.name !== 'Response' || root.namespace !== ns.protocol) {
    refuse('response_form', 'the root is not a SAML 2.0 Response')
  }
  for (const child of root.children) {
    if (!isKnownChild(child)) refuse('response_form', `a ${child.name} inside the Response`)
  }
  if (allNamed(root, 'Response').length !== 1) {
    refuse('response_form', 'a Response inside the Response')
  }
  const direct = carriersIn(root)
  if (allNamed(root, ...CARRIERS).length !== direct.length) {
    refuse('response_form', 'an assertion where none is allowed')
  }
  if (direct.length > 1) {
    refuse('assertion_several', `${direct.length} assertions instead of one`)
  }
  checkSignaturePlaces(root, [root, ...direct.filter(child => child.name === 'Assertion')])
  const within = direct.reduce((sum, each) => sum + allElements(each).length, 0)
  if (allElements(root).length - within > MOST_AROUND) {
    refuse('response_form', `more than ${MOST_AROUND} elements around the assertion`)
  }
}

/** The size of a usual message; a smaller one may become as large a text. */
const LEAST_TEXT = 65_536

/** The most elements of a Response beside its assertion: Issuer, Status and a signature. They may be unsigned. */
const MOST_AROUND = 100

const CARRIERS: readonly string[] = ['Assertion', 'EncryptedAssertion']

function carriersIn(root: XmlElement): readonly XmlElement[] {
  return root.children.filter(child => CARRIERS.includes(child.name))
}

/** 3.2.2. Extensions are refused, because no IdP needs them and forged elements can hide there. */
function isKnownChild({ name, namespace }: XmlElement): boolean {
  if (namespace === ns.assertion) return name === 'Issuer' || CARRIERS.includes(name)
  if (namespace === ns.signature) return name === 'Signature'
  return namespace === ns.protocol && name === 'Status'
}

function checkSignaturePlaces(root: XmlElement, places: readonly XmlElement[]): void {
  const inPlace = places.flatMap(place => childrenOf(place, ns.signature, 'Signature'))
  if (allNamed(root, 'Signature').length !== inPlace.length || inPlace.length > places.length) {
    refuse('response_form', 'a signature where none may stand')
  }
}

/** 3.2.2.1. An IdP need not sign the refusal of a login, because the only result is a page with the reason. */
function checkStatus(root: XmlElement): void {
  if (childrenOf(root, ns.protocol, 'Status').length > 1) {
    refuse('response_form', 'more than one Status')
  }
  const found = childOf(root, ns.protocol, 'Status')
  const code = childOf(found, ns.protocol, 'StatusCode')
  const value = attributeOf(code, 'Value')
  if (value === undefined) refuse('response_form', 'the Response has no StatusCode')
  if (value === status.success) return
  const innerValue = attributeOf(childOf(code, ns.protocol, 'StatusCode'), 'Value')
  const codes = [value, innerValue].filter(each => each !== undefined).map(shortName)
  const message = trimXml(childOf(found, ns.protocol, 'StatusMessage')?.text ?? '').slice(0, 300)
  const said = message === '' ? '' : `: ${JSON.stringify(message)}`
  refuse('idp_status', `the IdP answered ${codes.join(' / ').slice(0, 200)}${said}`, {
    idpStatus: codes.join(' ').slice(0, 200),
    idpMessage: message,
  })
}

/**
 * The prefixes of XML Schema: no name in them means anything here. Canonicalisation leaves unused declarations out, so a signature
 * does not keep a stranger from adding or changing one; these alone may therefore come from what was not signed.
 */
function schemaPrefixes(prefixes: Prefixes): Prefixes {
  return new Map([...prefixes].filter(([, uri]) => SCHEMA.includes(uri)))
}

const SCHEMA: readonly string[] = [
  'http://www.w3.org/2001/XMLSchema',
  'http://www.w3.org/2001/XMLSchema-instance',
]

/** Decrypts exactly one assertion, for which the rules are those of an unencrypted one. */
async function decryptAssertion(
  held: XmlElement,
  by: {
    readonly rules: ResponseRules
    readonly prefixes: Prefixes
    readonly mayDecrypt: MayDecrypt
  },
): Promise<XmlDocument> {
  const parts = readEncrypted(held)
  if (!(await by.mayDecrypt(namesOfKeys(parts)))) {
    refuse('encryption_tries', 'its EncryptedKey came in too many messages that were refused')
  }
  const { decryptionKeys: privateKeys, limits } = by.rules
  const decrypted = decrypt(parts, { privateKeys, limits, around: by.prefixes })
  const { root } = decrypted
  if (root.name !== 'Assertion' || root.namespace !== ns.assertion) {
    refuse('response_form', 'what was encrypted is not an assertion')
  }
  if (allNamed(root, 'Response', ...CARRIERS).length !== 1) {
    refuse('response_form', 'an assertion inside the assertion')
  }
  checkSignaturePlaces(root, [root])
  return decrypted
}
