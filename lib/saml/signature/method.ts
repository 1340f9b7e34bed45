/**
 * The accepted signature methods, by their URIs, and the arithmetic of each (RFC 6931). A method works only with a key of its
 * own kind, so that a key is used only for its purpose.
 */
import {
  constants,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'

interface Method {
  readonly hash: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  /** The kinds of keys, by their names in Node. `rsa-pss` is a key whose certificate allows only RSA-PSS. */
  readonly keys: ReadonlyArray<'rsa' | 'rsa-pss' | 'ec'>
  /** RFC 6931 section 2.3.10: MGF1 with the same hash, and a salt as long as its digest. */
  readonly padding?: { readonly padding: number; readonly saltLength: number }
}

const more = 'http://www.w3.org/2001/04/xmldsig-more#'
const more2007 = 'http://www.w3.org/2007/05/xmldsig-more#'

export const signatureMethods = {
  rsaSha1: 'http://www.w3.org/2000/09/xmldsig#rsa-sha1',
  rsaSha256: `${more}rsa-sha256`,
  rsaSha384: `${more}rsa-sha384`,
  rsaSha512: `${more}rsa-sha512`,
  pssSha256: `${more2007}sha256-rsa-MGF1`,
  pssSha384: `${more2007}sha384-rsa-MGF1`,
  pssSha512: `${more2007}sha512-rsa-MGF1`,
  ecdsaSha256: `${more}ecdsa-sha256`,
  ecdsaSha384: `${more}ecdsa-sha384`,
  ecdsaSha512: `${more}ecdsa-sha512`,
} as const

const pss = {
  padding: constants.RSA_PKCS1_PSS_PADDING,
  saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
} as const

/** The table is a Map, so that a name in a message cannot match a member that every object inherits. */
const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [signatureMethods.rsaSha1, { hash: 'sha1', keys: ['rsa'] }],
  [signatureMethods.rsaSha256, { hash: 'sha256', keys: ['rsa'] }],
  [signatureMethods.rsaSha384, { hash: 'sha384', keys: ['rsa'] }],
  [signatureMethods.rsaSha512, { hash: 'sha512', keys: ['rsa'] }],
  [signatureMethods.pssSha256, { hash: 'sha256', keys: ['rsa', 'rsa-pss'], padding: pss }],
  [signatureMethods.pssSha384, { hash: 'sha384', keys: ['rsa', 'rsa-pss'], padding: pss }],
  [signatureMethods.pssSha512, { hash: 'sha512', keys: ['rsa', 'rsa-pss'], padding: pss }],
  [signatureMethods.ecdsaSha256, { hash: 'sha256', keys: ['ec'] }],
  [signatureMethods.ecdsaSha384, { hash: 'sha384', keys: ['ec'] }],
  [signatureMethods.ecdsaSha512, { hash: 'sha512', keys: ['ec'] }],
])

function fits(method: Method, { asymmetricKeyType: kind }: KeyObject): boolean {
  return method.keys.some(key => key === kind)
}

export interface SignatureRules {
  /** Certificates in PEM; a signature by the key of any of them counts. */
  readonly certificates: readonly string[]
  readonly allowSha1: boolean
}

/** The reason why a method is refused; undefined when it is accepted. */
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
    const key = publicKeys.memo(certificate)
    if (!fits(method, key)) return false
    try {
      return verify(method.hash, data, { key, dsaEncoding: form, ...method.padding }, value)
    } catch {
      // A key for RSA-PSS may name the one hash and the shortest salt it is for.
      return false
    }
  })
}

/** The method with SHA-256 for a key. */
export function usualMethod({ asymmetricKeyType: kind }: KeyObject): string {
  if (kind === 'ec') return signatureMethods.ecdsaSha256
  return kind === 'rsa-pss' ? signatureMethods.pssSha256 : signatureMethods.rsaSha256
}

/** The data to be signed, the key and the method. */
export interface UnsignedText {
  readonly key: KeyObject
  /** The URI of the signature method. */
  readonly uri: string
  readonly data: string
}

/** The signature over `data` by a key of the method's kind. */
export function signatureBy(unsigned: UnsignedText): Buffer {
  return sign(...signArguments(unsigned))
}

const signInPool = promisify(sign)

/** The most signatures at a time for requests. The thread pool of Node also reads and writes files. */
const MOST_AT_ONCE = 2
let running = 0
const waiting: Array<() => void> = []

/** Signs like `signatureBy`, in a thread of Node's pool, because any client can cause signatures by its requests. */
export async function signatureBehind(unsigned: UnsignedText): Promise<Buffer> {
  if (running >= MOST_AT_ONCE) await new Promise<void>(resolve => waiting.push(resolve))
  else running += 1
  try {
    return await signInPool(...signArguments(unsigned))
  } finally {
    const next = waiting.shift()
    if (next === undefined) running -= 1
    else next()
  }
}

function signArguments({ key, uri, data }: UnsignedText) {
  const method = METHODS.get(uri)
  if (method === undefined || !fits(method, key)) throw new Error(`no key for ${uri}`)
  const { hash, padding } = method
  return [hash, Buffer.from(data), { key, dsaEncoding: 'ieee-p1363', ...padding }] as const
}

/** Keys that have been read: that costs 0.3 ms for a certificate and 0.6 ms for a private key, more than to verify a signature. */
const publicKeys = new LRUCache<string, KeyObject>({
  max: 16,
  memoMethod: certificate => createPublicKey(certificate),
})
const privateKeys = new LRUCache<string, KeyObject>({
  max: 8,
  memoMethod: pem => createPrivateKey(pem),
})

/** The private key in PEM, read once. */
export function privateKeyOf(pem: string): KeyObject {
  return privateKeys.memo(pem)
}
