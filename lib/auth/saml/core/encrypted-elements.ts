/**
 * EncryptedID and EncryptedAttribute (saml-core-2.0-os sections 2.2.4 and 2.7.3.2): put in the place of what they encrypt. Only ever
 * called with an element whose signature has been verified, over the encrypted form: so nobody but the IdP decides what is
 * decrypted here. What comes out is no better than what came in: scanned, bounded, one NameID or one Attribute and nothing
 * that could be taken for more.
 */
import { type DecryptionReason, decryptElement } from './decryption.ts'
import { messageLimits } from './scan.ts'
import { ns } from './vocabulary.ts'
import { allElements, childrenOf, type XmlElement } from './xml.ts'

export type RevealReason = DecryptionReason | 'encryption_content' | 'encryption_limit'

export type Revealed =
  /** The element with its parts in the open. Positions in its text are those of where each part came from. */
  | { readonly ok: true; readonly root: XmlElement }
  | { readonly ok: false; readonly because: RevealReason; readonly problem: string }

/** Encrypted parts of one message: each costs an RSA operation for every key. */
const MOST = 64

/** The NameID of the Subject and the attributes of a verified Assertion. */
export function revealAssertion(root: XmlElement, privateKeys: readonly string[]): Revealed {
  return attempt(privateKeys, reveal => {
    const children = root.children.map(child => {
      if (child.namespace !== ns.assertion) return child
      if (child.name === 'Subject') return reveal.name(child)
      return child.name === 'AttributeStatement' ? reveal.attributes(child) : child
    })
    return { ...root, children }
  })
}

/** The NameID that stands directly in a verified message, as in a LogoutRequest (3.7.1). */
export function revealName(root: XmlElement, privateKeys: readonly string[]): Revealed {
  return attempt(privateKeys, reveal => reveal.name(root))
}

class Refusal extends Error {
  readonly because: RevealReason

  constructor(because: RevealReason, problem: string) {
    super(problem)
    this.because = because
  }
}

function attempt(privateKeys: readonly string[], work: (reveal: Reveal) => XmlElement): Revealed {
  try {
    return { ok: true, root: work(new Reveal(privateKeys)) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { ok: false, because: error.because, problem: error.message }
  }
}

/** Counts what has come out of one message: all of it together keeps the limits of one. */
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
      throw new Refusal('encryption_form', `more than one name in ${parent.name}`)
    }
    const children = parent.children.map(child => {
      if (child !== encrypted[0]) return child
      const nameId = this.#open(child, 'NameID')
      if (nameId.children.length > 0) {
        throw new Refusal('encryption_content', 'an element inside the encrypted NameID')
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
        throw new Refusal('encryption_content', `a ${child.name} inside the encrypted Attribute`)
      }
    }
    for (const { name } of attribute.children.flatMap(value => [...allElements(value)])) {
      if (FORBIDDEN.has(name)) {
        throw new Refusal('encryption_content', `a ${name} inside the encrypted Attribute`)
      }
    }
    return attribute
  }

  #open(encrypted: XmlElement, expected: 'NameID' | 'Attribute'): XmlElement {
    this.#parts += 1
    if (this.#parts > MOST)
      throw new Refusal('encryption_limit', `more than ${MOST} encrypted parts`)
    const decrypted = decryptElement(encrypted, this.#privateKeys)
    if (!decrypted.ok)
      throw new Refusal(decrypted.because, `${encrypted.name}: ${decrypted.problem}`)
    const { root, text } = decrypted
    this.#characters += text.length
    this.#elements += [...allElements(root)].length
    if (this.#characters > messageLimits.size || this.#elements > messageLimits.elements) {
      throw new Refusal('encryption_limit', 'the encrypted parts together are too large')
    }
    if (root.name !== expected || root.namespace !== ns.assertion) {
      throw new Refusal('encryption_content', `a ${root.name} in the place of the ${expected}`)
    }
    return root
  }
}

/** Local names, in whatever namespace: what may stand in one place of a message only, or would have to be decrypted again. */
const FORBIDDEN: ReadonlySet<string> = new Set([
  ...['Response', 'Assertion', 'Signature', 'Attribute', 'Subject'],
  ...['EncryptedAssertion', 'EncryptedID', 'EncryptedAttribute', 'EncryptedData', 'EncryptedKey'],
])
