/**
 * Reads the keys in metadata: ds:KeyInfo to certificates that can verify a signature (saml-metadata-2.0-os section 2.4.1.1).
 * Metadata is trusted as a whole, so the names, issuer and dates of a certificate decide nothing; its key does.
 */
import { X509Certificate } from 'node:crypto'
import type { Milliseconds } from '../../../async/clock.ts'
import { ns } from '../core/vocabulary.ts'
import { childrenOf, type XmlElement } from '../core/xml.ts'

export interface IdpKey {
  /** Certificate in PEM, 64 characters a line. */
  readonly certificate: string
  /** SHA-256 of the certificate, hexadecimal in lower case. */
  readonly fingerprint: string
  /** Moment its validity ends; it is warned about, not enforced. */
  readonly ends: Milliseconds
}

/** The keys in a KeyDescriptor, and a sentence for each that is of no use. */
export function readKeys(descriptor: XmlElement): {
  readonly keys: readonly IdpKey[]
  readonly problems: readonly string[]
} {
  const keys: IdpKey[] = []
  const problems: string[] = []
  const infos = childrenOf(descriptor, ns.signature, 'KeyInfo')
  if (infos.length === 0) problems.push('a KeyDescriptor has no ds:KeyInfo in the right namespace')
  for (const info of infos) {
    const certificates = childrenOf(info, ns.signature, 'X509Data').flatMap(data =>
      childrenOf(data, ns.signature, 'X509Certificate'),
    )
    if (certificates.length === 0) problems.push('a KeyInfo has no X509Certificate')
    for (const certificate of certificates) {
      const key = readCertificate(certificate.text)
      if (typeof key === 'string') problems.push(key)
      else keys.push(key)
    }
  }
  return { keys, problems }
}

/**
 * A certificate out of base64, with white space anywhere, and with the PEM lines around it that some people paste in. A sentence
 * when it is none, or its key cannot verify SAML signatures here.
 */
export function readCertificate(text: string): IdpKey | string {
  const base64 = text.replace(/-----(?:BEGIN|END) CERTIFICATE-----/g, '').replace(/\s+/g, '')
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return 'a certificate is not base64'
  const der = Buffer.from(base64, 'base64')
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(der)
  } catch {
    return 'a certificate cannot be read: it is damaged, cut off or a placeholder'
  }
  // OpenSSL stops reading where the certificate ends; two readers may then disagree on what it is.
  if (certificate.raw.length !== der.length) return 'a certificate has bytes behind its end'
  const { publicKey, fingerprint256, validTo } = certificate
  const { asymmetricKeyType: kind, asymmetricKeyDetails: details } = publicKey
  if (kind !== 'rsa' && (kind !== 'ec' || !CURVES.includes(details?.namedCurve ?? ''))) {
    return `a certificate has a key of kind ${details?.namedCurve ?? kind}; signatures are verified with RSA keys and those on the curves P-256, P-384 and P-521`
  }
  const bits = details?.modulusLength ?? 0
  if (kind === 'rsa' && bits < 1024)
    return `a certificate has an RSA key of ${bits} bits, which can be broken`
  return {
    certificate: certificate.toString(),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    ends: Date.parse(validTo),
  }
}

/** P-256, P-384 and P-521, as OpenSSL calls them. */
const CURVES: readonly string[] = ['prime256v1', 'secp384r1', 'secp521r1']
