/**
 * Verifies and makes enveloped XML signatures, as SAML profiles them (saml-core-2.0-os section 5.4). The only importer of
 * xml-crypto. It is given text, never nodes, and what it verified comes back as text: the canonical bytes that were signed.
 *
 * Everything about the form of a signature is decided here, on our own tree, before any of it is computed: one reference to
 * the parent's ID, an ID that occurs once, two known transforms, known algorithms. The library only computes.
 */
import { type SignatureAlgorithm, SignedXml } from 'xml-crypto'
import { readMessage, refuse } from '../core/message.ts'
import { digestMethods, ns, signatureMethods, transforms } from '../core/vocabulary.ts'
import {
  allElements,
  allNamed,
  attributeOf,
  childrenOf,
  cutOut,
  type XmlDocument,
  type XmlElement,
} from '../core/xml.ts'

export interface SignatureRules {
  /** Certificates in PEM; a signature by the key of any of them counts. */
  readonly certificates: readonly string[]
  readonly allowSha1: boolean
}

/** Whether an element carries a signature of its own. */
export function isSigned(element: XmlElement): boolean {
  return childrenOf(element, ns.signature, 'Signature').length > 0
}

/**
 * The signed content of `element`, read from the canonical bytes that were signed: what stood elsewhere, or was read another
 * way, is not in it. Refuses a signature that does not hold.
 */
export function signedContent(
  document: XmlDocument,
  element: XmlElement,
  rules: SignatureRules,
): XmlDocument {
  return readMessage(verifySignature(document, element, rules))
}

/**
 * The canonical text of `element`, a part of `document`, without the signature directly in it, once that is verified. With no
 * usable key the refusal is `signature_invalid`: whether the key is unknown or the content was changed cannot be told apart.
 */
export function verifySignature(
  document: XmlDocument,
  element: XmlElement,
  rules: SignatureRules,
): string {
  const signature = checkForm(document.root, element, rules.allowSha1)
  // The element alone, so that nothing around it can take part; exclusive canonicalisation makes that the same.
  const alone = cutOut(element, document.text)
  const text = verifyWith(rules.certificates, alone, cutOut(signature, document.text))
  const problem = `the signature of ${element.name} does not verify with any key of the IdP`
  return text ?? refuse('signature_invalid', problem)
}

/** The signature in `element`, whose form is as SAML wants it. Needs no key and computes nothing. */
function checkForm(root: XmlElement, element: XmlElement, allowSha1: boolean): XmlElement {
  if (!isSigned(element)) refuse('signature_missing', `${element.name} is not signed`)
  const signature = only(element, 'Signature')
  const info = only(signature, 'SignedInfo')
  only(signature, 'SignatureValue')
  // ds:Object could carry another document (signature wrapping), and SAML has no use for it (5.4.5 leaves it out).
  if (childrenOf(signature, ns.signature, 'Object').length > 0) {
    refuse('signature_form', 'an Object inside the signature')
  }
  const foreign = ({ namespace, name }: XmlElement) =>
    namespace !== ns.signature && name !== 'InclusiveNamespaces'
  if ([...allElements(info)].some(foreign)) {
    refuse('signature_form', 'a foreign element inside SignedInfo')
  }
  checkReference(root, element, info)
  checkAlgorithms(info, allowSha1)
  return signature
}

function only(parent: XmlElement, name: string): XmlElement {
  const [first, ...more] = childrenOf(parent, ns.signature, name)
  return first === undefined || more.length > 0
    ? refuse('signature_form', `not exactly one ${name} in ${parent.name}`)
    : first
}

/** 5.4.2: one reference, to the ID of the parent; and no second element may have that ID, however the attribute is spelt. */
function checkReference(root: XmlElement, element: XmlElement, info: XmlElement): void {
  const references = allNamed(info, 'Reference')
  if (references.length !== 1) {
    refuse('signature_reference', `${references.length} references instead of one`)
  }
  const id = attributeOf(element, 'ID')
  if (id === undefined || !/^[A-Za-z_][\w.-]{0,255}$/.test(id)) {
    refuse('signature_reference', 'the signed element has no proper ID')
  }
  if (attributeOf(references[0], 'URI') !== `#${id}`) {
    refuse('signature_reference', 'the reference is not to the element around the signature')
  }
  const bearers = [...allElements(root)].flatMap(({ attributes }) =>
    attributes.filter(({ name, value }) => name.toLowerCase() === 'id' && value === id),
  )
  if (bearers.length !== 1) {
    refuse('signature_reference', 'the ID of the signed element is not unique')
  }
}

/** 5.4.3 and 5.4.4, and no algorithm that is not listed. */
function checkAlgorithms(info: XmlElement, allowSha1: boolean): void {
  const used = (name: string) =>
    allNamed(info, name).map(each => attributeOf(each, 'Algorithm') ?? '')
  const canonicalization = used('CanonicalizationMethod')
  if (canonicalization.length !== 1 || canonicalization[0] !== transforms.exclusive) {
    refuse('signature_algorithm', `canonicalisation ${canonicalization.join(' ')}`)
  }
  const steps = used('Transform')
  const [first, second] = steps
  if (steps.length !== 2 || first !== transforms.enveloped || second !== transforms.exclusive) {
    refuse('signature_algorithm', `transforms ${steps.join(' ')}`)
  }
  const [method, ...moreMethods] = used('SignatureMethod')
  const [digest, ...moreDigests] = used('DigestMethod')
  if (method === undefined || digest === undefined || moreMethods.length + moreDigests.length > 0) {
    refuse('signature_form', 'not exactly one SignatureMethod and one DigestMethod')
  }
  if (!isOneOf(signatureMethods, method)) {
    refuse('signature_algorithm', `signature method ${method}`)
  }
  if (!isOneOf(digestMethods, digest)) refuse('signature_algorithm', `digest method ${digest}`)
  const sha1 = method === signatureMethods.rsaSha1 || digest === digestMethods.sha1
  if (sha1 && !allowSha1) refuse('signature_sha1', 'it is made with SHA-1')
}

function isOneOf(known: Readonly<Record<string, string>>, uri: string): boolean {
  return Object.values(known).includes(uri)
}

/**
 * The canonical text of the one signed element; undefined when no key has made the signature, or it is not over this content.
 * The element is made canonical once, however many keys there are: strangers may send what they like.
 */
function verifyWith(
  certificates: readonly string[],
  alone: string,
  signature: string,
): string | undefined {
  const [publicCert] = certificates
  if (publicCert === undefined) return undefined
  let verified = false
  const tryAll = (known: SignatureAlgorithm, material: string, value: string) => {
    verified = certificates.some(one => isBy(one, known, { material, value }))
    return verified
  }
  try {
    const check = new SignedXml({ publicCert, getCertFromKeyInfo: () => null })
    for (const [name, Known] of Object.entries(check.SignatureAlgorithms)) {
      Reflect.set(check.SignatureAlgorithms, name, withKeys(Known, tryAll))
    }
    check.loadSignature(signature)
    if (!check.checkSignature(alone) || !verified) return undefined
    const [text, ...more] = check.getSignedReferences()
    return more.length === 0 ? text : undefined
  } catch {
    return undefined
  }
}

/** The algorithm, with our keys in place of the one it is given. */
function withKeys(
  Known: new () => SignatureAlgorithm,
  verify: (known: SignatureAlgorithm, material: string, value: string) => boolean,
): new () => SignatureAlgorithm {
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

/** Whether the signature is by the key of this certificate; a key of another kind throws, and has not made it. */
function isBy(
  certificate: string,
  known: SignatureAlgorithm,
  signed: { readonly material: string; readonly value: string },
): boolean {
  try {
    return known.verifySignature(signed.material, certificate, signed.value)
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
