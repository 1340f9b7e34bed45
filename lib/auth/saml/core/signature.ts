/**
 * Enveloped XML signatures over a whole element, as SAML profiles them (saml-core-2.0-os section 5.4). The only importer of
 * xml-crypto. It is handed text, never nodes, and what it verified comes back as text: the canonical bytes that were signed.
 *
 * Everything about the form of a signature is decided here, on our own tree, before any of it is computed: one reference to
 * the parent's ID, an ID that occurs once, two known transforms, known algorithms. What is left for the library is arithmetic.
 */
import { type SignatureAlgorithm, SignedXml } from 'xml-crypto'
import { digestMethods, ns, signatureMethods, transforms } from './vocabulary.ts'
import { allElements, attributeOf, childrenOf, cutOut, type XmlElement } from './xml.ts'

export interface SignatureRules {
  /** Certificates in PEM; a signature by the key of any of them counts. */
  readonly certificates: readonly string[]
  readonly allowSha1: boolean
}

export type SignatureReason =
  | 'signature_missing'
  | 'signature_form'
  | 'signature_reference'
  | 'signature_algorithm'
  | 'signature_sha1'
  | 'signature_invalid'

export type Verified =
  /** `text` is the signed element in canonical form, its signature left out. */
  | { readonly ok: true; readonly text: string; readonly certificate: string }
  | { readonly ok: false; readonly because: SignatureReason; readonly problem: string }

/**
 * Verifies the signature that stands directly in `element`, which lives in the document `root` with the text `text`. With no
 * usable key `signature_invalid` is the answer: whether the key is unknown or the content was changed cannot be told apart.
 */
export function verifySignature(
  document: { readonly root: XmlElement; readonly text: string },
  element: XmlElement,
  rules: SignatureRules,
): Verified {
  const signature = signatureOf(element)
  if (signature === undefined) return refuse('signature_missing', `${element.name} is not signed`)
  const problem = checkForm(document.root, element, rules.allowSha1)
  if (problem !== undefined) return problem
  // The element alone, so that nothing around it can take part; exclusive canonicalisation makes that the same.
  const alone = cutOut(element, document.text)
  const signatureText = cutOut(signature, document.text)
  const verified = verifyWith(alone, signatureText, rules.certificates)
  if (verified !== undefined) return { ok: true, ...verified }
  return refuse(
    'signature_invalid',
    `the signature of ${element.name} does not verify with any key of the IdP`,
  )
}

/** Whether an element carries a signature of its own. */
export function isSigned(element: XmlElement): boolean {
  return signatureOf(element) !== undefined
}

function signatureOf(element: XmlElement): XmlElement | undefined {
  return childrenOf(element, ns.signature, 'Signature')[0]
}

/**
 * What is wrong with the form of the signature in `element`; undefined when it is as SAML wants it. Needs no key and does
 * no arithmetic.
 */
export function checkForm(
  root: XmlElement,
  element: XmlElement,
  allowSha1: boolean,
): (Verified & { ok: false }) | undefined {
  const signatures = childrenOf(element, ns.signature, 'Signature')
  if (signatures.length !== 1) return refuse('signature_form', 'more than one signature')
  const [signature] = signatures
  const infos = signature === undefined ? [] : childrenOf(signature, ns.signature, 'SignedInfo')
  const [info] = infos
  if (signature === undefined || info === undefined || infos.length !== 1) {
    return refuse('signature_form', 'not exactly one SignedInfo')
  }
  if (childrenOf(signature, ns.signature, 'SignatureValue').length !== 1) {
    return refuse('signature_form', 'not exactly one SignatureValue')
  }
  // ds:Object could carry another document (XSW), and SAML has no use for it (5.4.5 leaves it out).
  if (childrenOf(signature, ns.signature, 'Object').length > 0) {
    return refuse('signature_form', 'an Object inside the signature')
  }
  const names = [...allElements(info)]
  if (
    names.some(other => other.namespace !== ns.signature && other.name !== 'InclusiveNamespaces')
  ) {
    return refuse('signature_form', 'a foreign element inside SignedInfo')
  }
  return checkReference(root, element, info) ?? checkAlgorithms(info, allowSha1)
}

/** 5.4.2: one reference, to the ID of the parent; and no second element may answer to that ID, however it is spelt. */
function checkReference(root: XmlElement, element: XmlElement, info: XmlElement) {
  const references = [...allElements(info)].filter(other => other.name === 'Reference')
  const [reference] = references
  if (reference === undefined || references.length !== 1) {
    return refuse('signature_reference', `${references.length} references instead of one`)
  }
  const id = attributeOf(element, 'ID')
  if (id === undefined || !/^[A-Za-z_][\w.-]{0,255}$/.test(id)) {
    return refuse('signature_reference', 'the signed element has no proper ID')
  }
  if (attributeOf(reference, 'URI') !== `#${id}`) {
    return refuse('signature_reference', 'the reference is not to the element around the signature')
  }
  let bearers = 0
  for (const other of allElements(root)) {
    for (const attribute of other.attributes) {
      if (attribute.name.toLowerCase() === 'id' && attribute.value === id) bearers += 1
    }
  }
  if (bearers !== 1)
    return refuse('signature_reference', 'the ID of the signed element is not unique')
  return undefined
}

/** 5.4.3 and 5.4.4, and no algorithm that is not listed. */
function checkAlgorithms(info: XmlElement, allowSha1: boolean) {
  const values = (name: string) =>
    [...allElements(info)]
      .filter(other => other.name === name)
      .map(other => attributeOf(other, 'Algorithm') ?? '')
  const canonicalization = values('CanonicalizationMethod')
  if (canonicalization.length !== 1 || canonicalization[0] !== transforms.exclusive) {
    return refuse('signature_algorithm', `canonicalisation ${canonicalization.join(' ')}`)
  }
  const used = values('Transform')
  if (used.length !== 2 || used[0] !== transforms.enveloped || used[1] !== transforms.exclusive) {
    return refuse('signature_algorithm', `transforms ${used.join(' ')}`)
  }
  const [method, ...moreMethods] = values('SignatureMethod')
  const [digest, ...moreDigests] = values('DigestMethod')
  if (method === undefined || digest === undefined || moreMethods.length + moreDigests.length > 0) {
    return refuse('signature_form', 'not exactly one SignatureMethod and one DigestMethod')
  }
  if (!isOneOf(signatureMethods, method))
    return refuse('signature_algorithm', `signature method ${method}`)
  if (!isOneOf(digestMethods, digest))
    return refuse('signature_algorithm', `digest method ${digest}`)
  const sha1 = method === signatureMethods.rsaSha1 || digest === digestMethods.sha1
  if (sha1 && !allowSha1) return refuse('signature_sha1', 'it is made with SHA-1')
  return undefined
}

function isOneOf(known: Readonly<Record<string, string>>, uri: string): boolean {
  return Object.values(known).includes(uri)
}

/**
 * The canonical text of the one signed element, and the certificate whose key signed it; undefined when none of them did, or
 * not this content. The element is made canonical once, however many keys there are: strangers may send what they like.
 */
function verifyWith(
  alone: string,
  signature: string,
  certificates: readonly string[],
): { readonly text: string; readonly certificate: string } | undefined {
  const [publicCert] = certificates
  if (publicCert === undefined) return undefined
  try {
    const keys = new AnyKey(certificates)
    const check = new SignedXml({ publicCert, getCertFromKeyInfo: () => null })
    for (const [name, Known] of Object.entries(check.SignatureAlgorithms)) {
      Reflect.set(check.SignatureAlgorithms, name, keys.algorithm(Known))
    }
    check.loadSignature(signature)
    if (!check.checkSignature(alone)) return undefined
    const [text, ...more] = check.getSignedReferences()
    const { certificate } = keys
    if (text === undefined || certificate === undefined || more.length > 0) return undefined
    return { text, certificate }
  } catch {
    return undefined
  }
}

/** Verifies with one key after the other and remembers which it was. */
class AnyKey {
  certificate: string | undefined
  readonly #certificates: readonly string[]

  constructor(certificates: readonly string[]) {
    this.#certificates = certificates
  }

  /** The algorithm, with our keys in place of the one it is given. */
  algorithm(Known: new () => SignatureAlgorithm): new () => SignatureAlgorithm {
    const verify = (known: SignatureAlgorithm, material: string, value: string) => {
      this.certificate = this.#certificates.find(one => isBy(known, material, one, value))
      return this.certificate !== undefined
    }
    return class implements SignatureAlgorithm {
      readonly #known = new Known()
      getSignature(): never {
        throw new Error('this one verifies')
      }
      verifySignature(material: string, _key: unknown, value: string): boolean {
        return verify(this.#known, material, value)
      }
      getAlgorithmName(): ReturnType<SignatureAlgorithm['getAlgorithmName']> {
        return this.#known.getAlgorithmName()
      }
    }
  }
}

/** Whether the signature is by this key; a key of another kind throws, and is not the one. */
function isBy(known: SignatureAlgorithm, material: string, key: string, value: string): boolean {
  try {
    return known.verifySignature(material, key, value)
  } catch {
    return false
  }
}

export interface SigningKey {
  /** PEM */
  readonly privateKey: string
  /** PEM */
  readonly certificate: string
}

export interface SigningOptions {
  /** ID of the element to sign. */
  readonly id: string
  readonly key: SigningKey
  /** XPath of the element behind which the signature goes; the issuer of the signed element when not given. */
  readonly after?: string
  readonly signatureMethod?: string
  readonly digestMethod?: string
}

/** Signs the element with this ID, RSA with SHA-256 unless told; the signature follows its Issuer, as the schema wants. */
export function signElement(text: string, options: SigningOptions): string {
  const { id, key } = options
  const element = `//*[@ID='${id}']`
  const signer = new SignedXml({
    privateKey: key.privateKey,
    publicCert: key.certificate,
    signatureAlgorithm: options.signatureMethod ?? signatureMethods.rsaSha256,
    canonicalizationAlgorithm: transforms.exclusive,
  })
  signer.addReference({
    xpath: element,
    transforms: [transforms.enveloped, transforms.exclusive],
    digestAlgorithm: options.digestMethod ?? digestMethods.sha256,
  })
  const location = options.after ?? `${element}/*[local-name()='Issuer']`
  signer.computeSignature(text, {
    prefix: 'ds',
    location: { reference: location, action: 'after' },
  })
  return signer.getSignedXml()
}

function refuse(because: SignatureReason, problem: string): Verified & { ok: false } {
  return { ok: false, because, problem }
}
