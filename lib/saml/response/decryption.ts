/**
 * Decrypts EncryptedAssertion, EncryptedID and EncryptedAttribute: XML Encryption 1.1 as SAML uses it (saml-core-2.0-os sections
 * 2.2.4, 2.7.3.2 and 6.1). Any client can encrypt to us, so the decrypted text is as untrusted as the message.
 *
 * # Facts
 * - EncryptedID and EncryptedAttribute are decrypted only in elements whose signature has been verified over the encrypted form,
 *   so that only the IdP decides what is decrypted. Each has to be one NameID or one Attribute.
 * - CBC without a signature around it is an oracle for its plain text. We take it, since AD FS and Entra offer nothing else,
 *   but every failure takes the same steps, and clients see one page for all: what was deciphered is scanned and parsed whether
 *   its padding was right or not. The codes, which only the administrator sees, tell a wrong key from a wrong document. How
 *   often one EncryptedKey may be tried is bounded (parts.ts).
 * - What is decrypted takes the place of its EncryptedData (XML Encryption section 4.3.3), so it may use prefixes that are
 *   declared around it.
 * - `rsa-oaep-mgf1p` means MGF1 with SHA-1 whatever the digest; Node can only set both to one hash, so where they differ the
 *   padding is removed here.
 */
import {
  constants,
  createDecipheriv,
  createHash,
  type KeyObject,
  privateDecrypt,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { privateKeyOf } from '../signature/method.ts'
import { decodeBase64 } from '../xml/encoding.ts'
import { messageLimits, refuse } from '../xml/message.ts'
import { isTooMuch, parseXml } from '../xml/scan.ts'
import { digestMethods, digests, ns, shortName } from '../xml/vocabulary.ts'
import {
  allElements,
  allNamed,
  attributeOf,
  childOf,
  childrenOf,
  NOTHING,
  type Prefixes,
  prefixesAt,
  type XmlDocument,
  type XmlElement,
  type XmlLimits,
} from '../xml/xml.ts'

/** An encrypted element whose form and methods are accepted. It has not been decrypted yet. */
type EncryptedElement = Readonly<ReturnType<typeof readEncrypted>>

/** The keys that are tried (PEM), the limits of the text inside, and the declarations around it. */
interface Opening {
  readonly privateKeys: readonly string[]
  readonly limits?: XmlLimits | undefined
  readonly around?: Prefixes
}

/** The document that was encrypted, parsed with what is declared `around` it. Every private key is tried. */
export function decrypt(
  { name, cipher, oaep, content, keys }: EncryptedElement,
  { privateKeys, limits = messageLimits, around = NOTHING }: Opening,
): XmlDocument {
  let why: string | undefined
  let tooMuch: string | undefined
  for (const pem of privateKeys) {
    const privateKey = privateKeyOf(pem)
    for (const wrapped of keys) {
      const { key, opened } = unwrap(wrapped, privateKey, oaep, cipher.bits / 8)
      const { bytes, good } = decipher(cipher, key, content)
      // A wrong key may give valid padding, so only a text that parses counts as decrypted.
      const parsed = parseXml(bytes, limits, around)
      if (good && parsed.ok) return parsed
      if (!opened) continue
      if (good && !parsed.ok && isTooMuch(parsed.because)) tooMuch = parsed.problem
      why = good && !parsed.ok ? parsed.problem : 'its content does not belong to its key'
    }
  }
  if (tooMuch !== undefined) refuse('encryption_limit', `what is inside the ${name}: ${tooMuch}`)
  return why === undefined
    ? refuse('encryption_key', `none of our keys opens the EncryptedKey of the ${name}`)
    : refuse(
        'encryption_document',
        `one of our keys opens the ${name}, but what is inside is not a permitted document: ${why}`,
      )
}

/** A name for each EncryptedKey that stays the same however the message around it is changed: the SHA-256 of its number. */
export function namesOfKeys({ keys }: EncryptedElement): readonly string[] {
  return keys.map(key => {
    const start = key.findIndex(byte => byte !== 0)
    return createHash('sha256')
      .update(key.subarray(Math.max(0, start)))
      .digest('base64url')
  })
}

interface Cipher {
  readonly bits: 128 | 192 | 256
  readonly mode: 'cbc' | 'gcm'
}

/** The table is a Map, so that a name in a message cannot match a member that every object inherits. */
const CIPHERS: ReadonlyMap<string, Cipher> = new Map<string, Cipher>([
  [`${ns.encryption}aes128-cbc`, { bits: 128, mode: 'cbc' }],
  [`${ns.encryption}aes192-cbc`, { bits: 192, mode: 'cbc' }],
  [`${ns.encryption}aes256-cbc`, { bits: 256, mode: 'cbc' }],
  [`${ns.encryption11}aes128-gcm`, { bits: 128, mode: 'gcm' }],
  [`${ns.encryption11}aes192-gcm`, { bits: 192, mode: 'gcm' }],
  [`${ns.encryption11}aes256-gcm`, { bits: 256, mode: 'gcm' }],
])

interface Oaep {
  readonly digest: string
  readonly mask: string
}

/** EncryptedKeys stand inside EncryptedData/KeyInfo or beside EncryptedData (saml-core section 6). */
export function readEncrypted(encrypted: XmlElement) {
  const [data, ...more] = childrenOf(encrypted, ns.encryption, 'EncryptedData')
  if (data === undefined || more.length > 0) {
    refuse('encryption_form', 'not exactly one EncryptedData')
  }
  const method = algorithmOf(data)
  const cipher =
    CIPHERS.get(method) ??
    refuse('encryption_algorithm', `content encrypted by ${method || 'an unnamed method'}`)
  const content = cipherValue(data)
  const encryptedKeys = allNamed(encrypted, 'EncryptedKey').filter(
    element => element.namespace === ns.encryption,
  )
  if (content === undefined || encryptedKeys.length === 0 || encryptedKeys.length > MOST_KEYS) {
    refuse('encryption_form', 'its CipherValue or its EncryptedKey is missing or malformed')
  }
  const all = encryptedKeys.map(element => ({ ...readOaep(element), key: cipherValue(element) }))
  const [oaep] = all
  const keys = all
    .filter(({ digest, mask }) => digest === oaep?.digest && mask === oaep.mask)
    .flatMap(({ key }) => key ?? [])
  if (oaep === undefined || keys.length === 0) {
    refuse('encryption_form', 'no EncryptedKey can be read')
  }
  return { name: encrypted.name, cipher, oaep, content, keys }
}

/** The most EncryptedKeys: one for every key pair we may have published, and a few for other recipients. */
const MOST_KEYS = 4

function readOaep(key: XmlElement): Oaep {
  const method = childOf(key, ns.encryption, 'EncryptionMethod')
  const algorithm = algorithmOf(key)
  const named = childOf(method, ns.signature, 'DigestMethod')
  const uri = named === undefined ? digestMethods.sha1 : (attributeOf(named, 'Algorithm') ?? '')
  const digest = DIGESTS.get(uri) ?? refuse('encryption_algorithm', `OAEP with digest ${uri}`)
  if (algorithm === `${ns.encryption}rsa-oaep-mgf1p`) return { digest, mask: 'sha1' }
  if (algorithm === `${ns.encryption11}rsa-oaep`) {
    const mgf = childOf(method, ns.encryption11, 'MGF')
    const maskUri = mgf === undefined ? `${MGF1}sha1` : (attributeOf(mgf, 'Algorithm') ?? '')
    const mask = MASKS.find(hash => maskUri === `${MGF1}${hash}`)
    return mask === undefined
      ? refuse('encryption_algorithm', `OAEP with mask generation ${maskUri}`)
      : { digest, mask }
  }
  // Other methods are refused, rsa-1_5 among them: a client that can post to us could use us to decrypt (Bleichenbacher).
  const name = shortName(algorithm) || 'an unnamed method'
  return refuse('encryption_algorithm', `key encrypted by ${name}`)
}

const MGF1 = `${ns.encryption11}mgf1`
const MASKS = ['sha1', 'sha224', 'sha256', 'sha384', 'sha512']

const DIGESTS: ReadonlyMap<string, string> = new Map([
  ...digests,
  // These URIs are wrong, but some libraries write them.
  ['http://www.w3.org/2000/09/xmldsig#sha256', 'sha256'],
  ['http://www.w3.org/2000/09/xmldsig#sha512', 'sha512'],
])

function algorithmOf(element: XmlElement): string {
  return attributeOf(childOf(element, ns.encryption, 'EncryptionMethod'), 'Algorithm') ?? ''
}

function cipherValue(element: XmlElement): Buffer | undefined {
  const data = childOf(element, ns.encryption, 'CipherData')
  const value = childOf(data, ns.encryption, 'CipherValue')
  return value === undefined ? undefined : decodeBase64(value.text)
}

/** The content key, or a random one when it cannot be `opened` or has another size: the next steps then fail as with any error. */
function unwrap(wrapped: Buffer, privateKey: KeyObject, oaep: Oaep, size: number) {
  const decoy = randomBytes(size)
  try {
    const padding = constants.RSA_PKCS1_OAEP_PADDING
    const key =
      oaep.digest === oaep.mask
        ? privateDecrypt({ key: privateKey, padding, oaepHash: oaep.digest }, wrapped)
        : removeOaep(
            privateDecrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, wrapped),
            oaep,
          )
    return { key: key?.length === size ? key : decoy, opened: key !== undefined }
  } catch {
    return { key: decoy, opened: false }
  }
}

/** EME-OAEP decoding, RFC 8017 section 7.1.2 step 3. Reads every byte, valid or not. */
function removeOaep(encoded: Buffer, { digest, mask }: Oaep): Buffer | undefined {
  const labelHash = createHash(digest).digest()
  const size = labelHash.length
  if (encoded.length < 2 * size + 2) return undefined
  const maskedDb = encoded.subarray(1 + size)
  const seed = xor(encoded.subarray(1, 1 + size), mgf1(maskedDb, size, mask))
  const db = xor(maskedDb, mgf1(seed, maskedDb.length, mask))
  let wrong = encoded[0] ?? 1
  if (!timingSafeEqual(db.subarray(0, size), labelHash)) wrong |= 1
  let start = 0
  for (let i = size; i < db.length; i += 1) {
    const byte = db[i] ?? 0
    if (start === 0 && byte === 1) start = i + 1
    else if (start === 0 && byte !== 0) wrong |= 1
  }
  return wrong === 0 && start > 0 ? db.subarray(start) : undefined
}

/** RFC 8017 section B.2.1 */
function mgf1(seed: Buffer, length: number, hash: string): Buffer {
  const blocks: Buffer[] = []
  for (let counter = 0, made = 0; made < length; counter += 1) {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(counter)
    const block = createHash(hash).update(seed).update(count).digest()
    blocks.push(block)
    made += block.length
  }
  return Buffer.concat(blocks).subarray(0, length)
}

function xor(a: Buffer, b: Buffer): Buffer {
  return Buffer.from(a.map((byte, i) => byte ^ (b[i] ?? 0)))
}

/** The decrypted bytes, and whether the tag (16 bytes) or the padding was right. When it was not, the bytes are meaningless. */
function decipher({ bits, mode }: Cipher, key: Buffer, content: Buffer) {
  try {
    if (mode === 'gcm') {
      if (content.length < 12 + 16) return nothing
      const iv = content.subarray(0, 12)
      const opened = createDecipheriv(`aes-${bits}-gcm`, key, iv, { authTagLength: 16 })
      opened.setAuthTag(content.subarray(content.length - 16))
      const bytes = opened.update(content.subarray(12, content.length - 16))
      return { bytes: Buffer.concat([bytes, opened.final()]), good: true }
    }
    const opened = createDecipheriv(`aes-${bits}-cbc`, key, content.subarray(0, 16))
    opened.setAutoPadding(false)
    const padded = Buffer.concat([opened.update(content.subarray(16)), opened.final()])
    // XML Encryption section 5.2: the last byte counts the padding; its other bytes may be anything.
    const padding = padded[padded.length - 1] ?? 0
    const good = padding >= 1 && padding <= 16
    return { bytes: padded.subarray(0, padded.length - (good ? padding : 16)), good }
  } catch {
    return nothing
  }
}

const nothing = { bytes: Buffer.alloc(0), good: false }

/** The keys for the encrypted parts of a message, and the declarations these parts may use. */
export interface DecryptionKeys {
  readonly privateKeys: readonly string[]
  readonly limits?: XmlLimits | undefined
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

/** 2.7.3.1: an Attribute contains only values. An element inside one must not be taken for a part of the message. */
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
function opener({
  privateKeys,
  limits = messageLimits,
  root: whole,
  fallback = NOTHING,
}: DecryptionKeys): Open {
  let parts = 0
  let characters = 0
  let elements = 0
  return (encrypted, expected) => {
    parts += 1
    if (parts > MOST) refuse('encryption_limit', `more than ${MOST} encrypted parts`)
    const around = new Map([...fallback, ...prefixesAt(whole, encrypted)])
    const { root, text } = decrypt(readEncrypted(encrypted), { privateKeys, limits, around })
    characters += text.length
    elements += allElements(root).length
    if (characters > limits.size || elements > limits.elements) {
      const most = `${limits.size} characters or ${limits.elements} elements`
      refuse('encryption_limit', `the encrypted parts together have more than ${most}`)
    }
    if (root.name !== expected || root.namespace !== ns.assertion) {
      refuse('encryption_content', `a ${root.name} instead of the ${expected}`)
    }
    return root
  }
}

/** Refused local names, in any namespace: elements with one place in a message, or that would have to be decrypted again. */
const FORBIDDEN: readonly string[] = [
  ...['Response', 'Assertion', 'Signature', 'Attribute', 'Subject'],
  ...['EncryptedAssertion', 'EncryptedID', 'EncryptedAttribute', 'EncryptedData', 'EncryptedKey'],
]
