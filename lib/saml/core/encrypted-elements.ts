/**
 * Replaces EncryptedID and EncryptedAttribute by their content: saml-core-2.0-os sections 2.2.4 and 2.7.3.2. Callers pass only
 * elements whose signature has been verified over the encrypted form, so that only the IdP decides what is decrypted. The
 * decrypted text is as untrusted as any message: it is scanned and bounded, and has to be one NameID or one Attribute.
 */
import { decrypt, readEncrypted } from './decryption.ts'
import { messageLimits, refuse } from './message.ts'
import { ns } from './vocabulary.ts'
import {
  allElements,
  allNamed,
  childrenOf,
  NOTHING,
  type Prefixes,
  prefixesAt,
  type XmlElement,
} from './xml.ts'

/** The keys for the encrypted parts of a message, and the declarations these parts may use. */
export interface DecryptionKeys {
  readonly privateKeys: readonly string[]
  /** The root of the verified document. Its declarations around a part apply to that part. */
  readonly root: XmlElement
  /** The prefixes that apply where none is declared. */
  readonly fallback?: Prefixes
}

/** The most encrypted parts of one message. Each costs an RSA operation for every key. */
const MOST = 64

/** A verified Assertion with the NameID of its Subject and its attributes decrypted. */
export function revealAssertion(assertion: XmlElement, opening: DecryptionKeys): XmlElement {
  const open = opener(opening)
  return withChildren(assertion, child => {
    if (child.namespace !== ns.assertion) return child
    if (child.name === 'Subject') return withName(child, open)
    return child.name === 'AttributeStatement' ? withAttributes(child, open) : child
  })
}

/** A verified message with its direct NameID decrypted, as in a LogoutRequest (3.7.1). */
export function revealName(message: XmlElement, opening: DecryptionKeys): XmlElement {
  return withName(message, opener(opening))
}

function withChildren(parent: XmlElement, change: (child: XmlElement) => XmlElement): XmlElement {
  return { ...parent, children: parent.children.map(change) }
}

type Open = (encrypted: XmlElement, expected: 'NameID' | 'Attribute') => XmlElement

/** A NameID or an EncryptedID, never both (2.4.1). */
function withName(parent: XmlElement, open: Open): XmlElement {
  const encrypted = childrenOf(parent, ns.assertion, 'EncryptedID')
  if (encrypted.length === 0) return parent
  if (encrypted.length > 1 || childrenOf(parent, ns.assertion, 'NameID').length > 0) {
    refuse('encryption_form', `more than one name in ${parent.name}`)
  }
  return withChildren(parent, child => {
    if (child !== encrypted[0]) return child
    const nameId = open(child, 'NameID')
    if (nameId.children.length > 0) {
      refuse('encryption_content', 'an element inside the encrypted NameID')
    }
    return nameId
  })
}

function withAttributes(statement: XmlElement, open: Open): XmlElement {
  return withChildren(statement, child => {
    const encrypted = child.name === 'EncryptedAttribute' && child.namespace === ns.assertion
    return encrypted ? checkedAttribute(open(child, 'Attribute')) : child
  })
}

/**
 * 2.7.3.1: an Attribute contains values and nothing else. An element inside a value must not be taken for a part of the
 * message.
 */
function checkedAttribute(attribute: XmlElement): XmlElement {
  for (const child of attribute.children) {
    if (child.name !== 'AttributeValue' || child.namespace !== ns.assertion) {
      refuse('encryption_content', `a ${child.name} inside the encrypted Attribute`)
    }
  }
  const [hidden] = attribute.children.flatMap(value => allNamed(value, ...FORBIDDEN))
  if (hidden !== undefined) {
    refuse('encryption_content', `a ${hidden.name} inside the encrypted Attribute`)
  }
  return attribute
}

/** Decrypts the parts of one message. All of them together have to keep the limits of one message. */
function opener({ privateKeys, root: whole, fallback = NOTHING }: DecryptionKeys): Open {
  let parts = 0
  let characters = 0
  let elements = 0
  return (encrypted, expected) => {
    parts += 1
    if (parts > MOST) refuse('encryption_limit', `more than ${MOST} encrypted parts`)
    const around = new Map([...fallback, ...prefixesAt(whole, encrypted)])
    const { root, text } = decrypt(readEncrypted(encrypted), privateKeys, around)
    characters += text.length
    elements += allElements(root).length
    if (characters > messageLimits.size || elements > messageLimits.elements) {
      refuse('encryption_limit', 'the encrypted parts together are too large')
    }
    if (root.name !== expected || root.namespace !== ns.assertion) {
      refuse('encryption_content', `a ${root.name} in the place of the ${expected}`)
    }
    return root
  }
}

/**
 * The local names that are refused in any namespace: elements with a single place in a message, and elements that would have to
 * be decrypted again.
 */
const FORBIDDEN: readonly string[] = [
  ...['Response', 'Assertion', 'Signature', 'Attribute', 'Subject'],
  ...['EncryptedAssertion', 'EncryptedID', 'EncryptedAttribute', 'EncryptedData', 'EncryptedKey'],
]
