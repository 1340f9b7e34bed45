/**
 * The signature methods that are taken, by their URIs, and the arithmetic of each (RFC 6931). A method counts with a key of its own
 * kind alone, so that no key is used for what it was not made for.
 */
import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto'

interface Method {
  readonly hash: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  readonly key: 'rsa' | 'ec'
}

const more = 'http://www.w3.org/2001/04/xmldsig-more#'

export const signatureMethods = {
  rsaSha1: 'http://www.w3.org/2000/09/xmldsig#rsa-sha1',
  rsaSha256: `${more}rsa-sha256`,
  rsaSha384: `${more}rsa-sha384`,
  rsaSha512: `${more}rsa-sha512`,
  ecdsaSha256: `${more}ecdsa-sha256`,
  ecdsaSha384: `${more}ecdsa-sha384`,
  ecdsaSha512: `${more}ecdsa-sha512`,
} as const

/** A Map, and not an object, so that the names strangers send never find what every object inherits. */
const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [signatureMethods.rsaSha1, { hash: 'sha1', key: 'rsa' }],
  [signatureMethods.rsaSha256, { hash: 'sha256', key: 'rsa' }],
  [signatureMethods.rsaSha384, { hash: 'sha384', key: 'rsa' }],
  [signatureMethods.rsaSha512, { hash: 'sha512', key: 'rsa' }],
  [signatureMethods.ecdsaSha256, { hash: 'sha256', key: 'ec' }],
  [signatureMethods.ecdsaSha384, { hash: 'sha384', key: 'ec' }],
  [signatureMethods.ecdsaSha512, { hash: 'sha512', key: 'ec' }],
])

export interface SignatureRules {
  /** Certificates in PEM; a signature by the key of any of them counts. */
  readonly certificates: readonly string[]
  readonly allowSha1: boolean
}

/** Why a method is not taken; undefined when it is. */
export function methodProblem(
  uri: string,
  allowSha1: boolean,
): 'signature_algorithm' | 'signature_sha1' | undefined {
  const method = METHODS.get(uri)
  if (method === undefined) return 'signature_algorithm'
  return method.hash === 'sha1' && !allowSha1 ? 'signature_sha1' : undefined
}

/**
 * Whether one of the certificates' keys has made the signature. ECDSA values are two numbers side by side, as XML Signature has
 * them (RFC 6931 section 2.3.6), unless `form` says otherwise.
 */
export function isSignedBy(
  certificates: readonly string[],
  uri: string,
  signed: { readonly data: string; readonly value: Buffer; readonly form?: 'ieee-p1363' | 'der' },
): boolean {
  const method = METHODS.get(uri)
  if (method === undefined) return false
  const { value, form = 'ieee-p1363' } = signed
  const data = Buffer.from(signed.data)
  return certificates.some(certificate => {
    const key = createPublicKey(certificate)
    if (key.asymmetricKeyType !== method.key) return false
    return verify(method.hash, data, { key, dsaEncoding: form }, value)
  })
}

/** The signature over `data` by a key of the method's kind. */
export function signatureBy(key: KeyObject, uri: string, data: string): Buffer {
  const method = METHODS.get(uri)
  if (method?.key !== key.asymmetricKeyType) throw new Error(`no key for ${uri}`)
  return sign(method?.hash, Buffer.from(data), { key, dsaEncoding: 'ieee-p1363' })
}
