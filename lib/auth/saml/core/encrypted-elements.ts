/**
 * Replaces EncryptedID and EncryptedAttribute by what they encrypt: saml-core-2.0-os sections 2.2.4 and 2.7.3.2. Only called with an
 * element whose signature has been verified over the encrypted form, so that only the IdP decides what is decrypted. What comes
 * out is as untrusted as any message: scanned, bounded, one NameID or one Attribute and nothing that could be taken for more.
 */
import { agreed } from './agreement.ts'
import { decryptElement } from './decryption.ts'
import { messageLimits, refuse } from './message.ts'
import { ns } from './vocabulary.ts'
import { allElements, allNamed, childrenOf, type XmlElement } from './xml.ts'

/** Encrypted parts of one message: each costs an RSA operation for every key. */
const MOST = 64

/** A verified Assertion with the NameID of its Subject and its attributes in the open. */
export function revealAssertion(root: XmlElement, privateKeys: readonly string[]): XmlElement {
  const reveal = new Reveal(privateKeys)
  const children = root.children.map(child => {
    if (child.namespace !== ns.assertion) return child
    if (child.name === 'Subject') return reveal.name(child)
    return child.name === 'AttributeStatement' ? reveal.attributes(child) : child
  })
  return { ...root, children }
}

/** A verified message with the NameID directly in it in the open, as in a LogoutRequest (3.7.1). */
export function revealName(root: XmlElement, privateKeys: readonly string[]): XmlElement {
  return new Reveal(privateKeys).name(root)
}

/** Decrypts the parts of one message: all of them together keep the limits of one message. */
class Reveal {
  readonly #privateKeys: readonly string[]
  #parts = 0
  #characters = 0
  #elements = 0

  constructor(privateKeys: readonly string[]) {
    this.#privateKeys = privateKeys
  }

  /** A NameID or an EncryptedID, never both (2.4.1). */
  name(parent: XmlElement): XmlElement {
    const encrypted = childrenOf(parent, ns.assertion, 'EncryptedID')
    if (encrypted.length === 0) return parent
    if (encrypted.length > 1 || childrenOf(parent, ns.assertion, 'NameID').length > 0) {
      refuse('encryption_form', `more than one name in ${parent.name}`)
    }
    const children = parent.children.map(child => {
      if (child !== encrypted[0]) return child
      const nameId = this.#open(child, 'NameID')
      if (nameId.children.length > 0) {
        refuse('encryption_content', 'an element inside the encrypted NameID')
      }
      return nameId
    })
    return { ...parent, children }
  }

  attributes(statement: XmlElement): XmlElement {
    const children = statement.children.map(child => {
      const encrypted = child.name === 'EncryptedAttribute' && child.namespace === ns.assertion
      return encrypted ? this.#attribute(child) : child
    })
    return { ...statement, children }
  }

  /** 2.7.3.1: an Attribute holds values and nothing else; what a value holds must not pass for a part of the message. */
  #attribute(encrypted: XmlElement): XmlElement {
    const attribute = this.#open(encrypted, 'Attribute')
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

  #open(encrypted: XmlElement, expected: 'NameID' | 'Attribute'): XmlElement {
    this.#parts += 1
    if (this.#parts > MOST) refuse('encryption_limit', `more than ${MOST} encrypted parts`)
    const document = decryptElement(encrypted, this.#privateKeys)
    const { root, text } = document
    this.#characters += text.length
    this.#elements += allElements(root).length
    if (this.#characters > messageLimits.size || this.#elements > messageLimits.elements) {
      refuse('encryption_limit', 'the encrypted parts together are too large')
    }
    agreed(document)
    if (root.name !== expected || root.namespace !== ns.assertion) {
      refuse('encryption_content', `a ${root.name} in the place of the ${expected}`)
    }
    return root
  }
}

/** Local names, in any namespace: what has one place in a message only, or would have to be decrypted again. */
const FORBIDDEN: readonly string[] = [
  ...['Response', 'Assertion', 'Signature', 'Attribute', 'Subject'],
  ...['EncryptedAssertion', 'EncryptedID', 'EncryptedAttribute', 'EncryptedData', 'EncryptedKey'],
]
