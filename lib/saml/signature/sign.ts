/**
 * Makes enveloped XML signatures, as SAML profiles them (saml-core-2.0-os section 5.4).
 */
import { createHash } from 'node:crypto'
import { metadataLimits, readMessage } from '../xml/message.ts'
import { digestMethods, ns, shortName, transforms } from '../xml/vocabulary.ts'
import { allElements, attributeOf, childOf } from '../xml/xml.ts'
import { canonicalBytes } from './canonical.ts'
import { privateKeyOf, signatureBehind, signatureBy, usualMethod } from './method.ts'

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
  readonly signatureMethod?: string
  readonly digestMethod?: string
}

/** Signs the element with this ID. The signature follows its Issuer, or is its first child, as the schemas require. */
export function signElement(text: string, options: SigningOptions): string {
  const { unsigned, finish } = prepare(text, options)
  return finish(signatureBy(unsigned))
}

/** Does what `signElement` does; another thread makes the signature. */
export async function signElementBehind(text: string, options: SigningOptions): Promise<string> {
  const { unsigned, finish } = prepare(text, options)
  return finish(await signatureBehind(unsigned))
}

/** The data to be signed, and a function that makes the signed text of the signature. */
function prepare(text: string, options: SigningOptions) {
  const { id, key, digestMethod = digestMethods.sha256 } = options
  const privateKey = privateKeyOf(key.privateKey)
  const { signatureMethod = usualMethod(privateKey) } = options
  const document = readMessage(text, metadataLimits)
  const element = allElements(document.root).find(each => attributeOf(each, 'ID') === id)
  if (element === undefined) throw new Error(`there is no element with the ID ${id}`)
  const digest = createHash(shortName(digestMethod))
    .update(canonicalBytes(document.root, element))
    .digest('base64')
  // The text is canonical except for the namespace, which is declared at Signature, and at SignedInfo when SignedInfo is
  // canonicalised alone.
  const info = (namespace: string) =>
    `<ds:SignedInfo${namespace}>` +
    `<ds:CanonicalizationMethod Algorithm="${transforms.exclusive}"></ds:CanonicalizationMethod>` +
    `<ds:SignatureMethod Algorithm="${signatureMethod}"></ds:SignatureMethod>` +
    `<ds:Reference URI="#${id}"><ds:Transforms>` +
    `<ds:Transform Algorithm="${transforms.enveloped}"></ds:Transform>` +
    `<ds:Transform Algorithm="${transforms.exclusive}"></ds:Transform></ds:Transforms>` +
    `<ds:DigestMethod Algorithm="${digestMethod}"></ds:DigestMethod>` +
    `<ds:DigestValue>${digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>`
  const namespace = ` xmlns:ds="${ns.signature}"`
  const certificate = key.certificate.replace(/-----[^-]+-----|\s/g, '')
  const at = childOf(element, ns.assertion, 'Issuer')?.end ?? element.inside
  return {
    unsigned: { key: privateKey, uri: signatureMethod, data: info(namespace) },
    finish(value: Buffer) {
      const signature =
        `<ds:Signature${namespace}>${info('')}<ds:SignatureValue>${value.toString('base64')}</ds:SignatureValue>` +
        `<ds:KeyInfo><ds:X509Data><ds:X509Certificate>${certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>` +
        '</ds:Signature>'
      return document.text.slice(0, at) + signature + document.text.slice(at)
    },
  }
}
