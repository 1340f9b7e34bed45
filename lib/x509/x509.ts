/**
 * Certificates and revocation lists, RFC 5280: reads those of an authority, issues those that it signs, and makes a new authority. Knows
 * PEM and DER, no files and no policy. Node's OpenSSL reads; WebCrypto signs and makes keys, in threads.
 */

import {
  createPrivateKey,
  KeyObject,
  X509Certificate as NodeCertificate,
  webcrypto,
} from 'node:crypto'
import type { Milliseconds } from '../async/clock.ts'
import { attempt } from '../errors.ts'
import { isIP } from '../ip.ts'
import {
  alternativeNames,
  listNumberExtension,
  listNumberIn,
  nameConstraintCheck,
  nameConstraints,
  type PermittedNames,
} from './extensions.ts'
import { library } from './library.ts'

export type { PermittedNames } from './extensions.ts'

export type Certificate = Readonly<ReturnType<typeof readCertificate>>

/** The certificates in a PEM text, in its order. Private keys and other text are ignored. Throws when one is malformed. */
export function readCertificates(pem: string): readonly Certificate[] {
  const blocks = pem.match(
    /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]+-----END [A-Z0-9 ]+-----/g,
  )
  return (blocks ?? []).map(readCertificate)
}

function readCertificate(block: string) {
  const { x509 } = library()
  const node = new NodeCertificate(block)
  const parsed = new x509.X509Certificate(node.raw)
  const usage = parsed.getExtension(x509.KeyUsagesExtension)?.usages
  return {
    pem: `${node.toString().trim()}\n`,
    der: node.raw,
    /** `CN=Example CA, O=Example`, in one line. */
    subject: node.subject.split('\n').join(', '),
    /** SHA-256 of the DER, upper-case hex with colons, as `openssl x509 -fingerprint -sha256` prints it. */
    fingerprint: node.fingerprint256,
    notBefore: parsed.notBefore.getTime(),
    notAfter: parsed.notAfter.getTime(),
    /** Whether it may sign certificates: basicConstraints has CA:TRUE, and a key usage, if any, has keyCertSign. */
    isAuthority: node.ca && (usage === undefined || (usage & x509.KeyUsageFlags.keyCertSign) !== 0),
    /** Whether its key usage lets it sign revocation lists. */
    maySignLists: usage === undefined || (usage & x509.KeyUsageFlags.cRLSign) !== 0,
    selfSigned: node.checkIssued(node),
    /** Whether a certificate for this DNS name or IP address lies within its name constraints (4.2.1.10). */
    permits: nameConstraintCheck(parsed.extensions),
    /** Whether another certificate was signed with the key of this one. */
    hasSigned({ der }: { readonly der: Buffer }): boolean {
      const other = new NodeCertificate(der)
      return other.checkIssued(node) && other.verify(node.publicKey)
    },
    hasKey: (key: KeyObject) => node.checkPrivateKey(key),
  }
}

type KeyProblem = 'password-missing' | 'password-wrong' | 'absent' | 'unreadable'

/**
 * The first private key in a PEM text: PKCS#8, PKCS#1 or SEC 1, plain or encrypted, among certificates or alone. It works synchronously,
 * and decryption is slow, so call it only at start-up.
 */
export function readPrivateKey(pem: string, password: string): KeyObject | KeyProblem {
  const [block] =
    /-----BEGIN ((?:[A-Z0-9]+ )*PRIVATE KEY)-----[\s\S]+?-----END \1-----/.exec(pem) ?? []
  if (block === undefined) return 'absent'
  const encrypted = /ENCRYPTED/.test(block)
  if (encrypted && password === '') return 'password-missing'
  const key = attempt(() => createPrivateKey({ key: block, passphrase: password }))
  return key ?? (encrypted ? 'password-wrong' : 'unreadable')
}

/** WebCrypto's names of keys, by OpenSSL's name of their kind or curve. */
const ALGORITHMS = new Map([
  ['rsa', { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }],
  ['prime256v1', { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }],
  ['secp384r1', { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' }],
  ['secp521r1', { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-512' }],
])

/** The algorithm of a key; undefined for kinds that are not supported. */
function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  return ALGORITHMS.get(asymmetricKeyDetails?.namedCurve ?? asymmetricKeyType ?? '')
}

/** Whether a private key can issue: RSA, or EC on P-256, P-384 or P-521. */
export const canIssue = (key: KeyObject): boolean => algorithmOf(key) !== undefined

/** The key of leaves: the public key, and the private key as PKCS #8 in PEM. */
export type LeafKey = Readonly<Awaited<ReturnType<typeof generateLeafKey>>>

export async function generateLeafKey() {
  const { publicKey, privateKey } = await webcrypto.subtle.generateKey(p256, true, usages)
  return { publicKey, pem: exportKey(privateKey) }
}

export interface LeafOptions {
  /** DNS names and IP addresses, at least one; the first is the subject's common name when it fits. */
  readonly names: readonly [string, ...string[]]
  readonly publicKey: webcrypto.CryptoKey
  readonly notBefore: Milliseconds
  readonly notAfter: Milliseconds
  /** The URI of the authority's certificate (4.2.2.1). */
  readonly caIssuers?: string | undefined
  /** The URI of its revocation list (4.2.1.13). */
  readonly distributionPoint?: string | undefined
}

/** An authority's certificate with its key, ready to sign. */
export type Issuer = Awaited<ReturnType<typeof createIssuer>>

/** Makes an issuer. Throws for keys that `canIssue` rejects. */
export async function createIssuer(certificate: Certificate, key: KeyObject) {
  const signingAlgorithm = algorithmOf(key)
  if (signingAlgorithm === undefined) throw new TypeError('not a key that can issue')
  const der = key.export({ type: 'pkcs8', format: 'der' })
  const { subtle } = webcrypto
  const signingKey = await subtle.importKey('pkcs8', der, signingAlgorithm, false, ['sign'])
  const { x509 } = library()
  const own = new x509.X509Certificate(certificate.der)
  const signed = { issuer: own.subjectName, signingKey, signingAlgorithm }
  // The key identifier is that of the authority's own certificate, however it was made (4.2.1.1).
  const named = own.getExtension(x509.SubjectKeyIdentifierExtension)
  const authorityKey =
    named === null
      ? await x509.AuthorityKeyIdentifierExtension.create(own.publicKey)
      : new x509.AuthorityKeyIdentifierExtension(named.keyId)
  return {
    /** Makes a certificate for a TLS server, in PEM. The library gives it a random serial number of 128 bits. */
    async issueLeaf(options: LeafOptions): Promise<string> {
      const { names, publicKey, caIssuers, distributionPoint } = options
      const [first] = names
      // ub-common-name is 64 (RFC 5280 appendix A.1). OpenSSL checks a common name that is an address against constraints on DNS names.
      // Without a subject the names are critical (4.2.1.6).
      const named = first.length <= 64 && isIP(first) === 0
      const certificate = await x509.X509CertificateGenerator.create({
        ...signed,
        ...(named ? { subject: [{ CN: [{ utf8String: first }] }] as never } : {}),
        notBefore: wholeSeconds(options.notBefore),
        notAfter: wholeSeconds(options.notAfter),
        publicKey,
        extensions: [
          new x509.BasicConstraintsExtension(false, undefined, true),
          new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
          new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
          alternativeNames(names, !named),
          await x509.SubjectKeyIdentifierExtension.create(publicKey),
          authorityKey,
          ...(caIssuers === undefined
            ? []
            : [new x509.AuthorityInfoAccessExtension({ caIssuers })]),
          ...(distributionPoint === undefined
            ? []
            : [new x509.CRLDistributionPointsExtension([distributionPoint])]),
        ],
      })
      return `${certificate.toString('pem').trim()}\n`
    },
    /** Makes a revocation list that revokes nothing, in DER (RFC 5280 section 5). */
    async issueList(options: {
      readonly number: number
      readonly thisUpdate: Milliseconds
      readonly nextUpdate: Milliseconds
    }): Promise<Buffer> {
      const list = await x509.X509CrlGenerator.create({
        ...signed,
        thisUpdate: wholeSeconds(options.thisUpdate),
        nextUpdate: wholeSeconds(options.nextUpdate),
        extensions: [authorityKey, listNumberExtension(options.number)],
      })
      return Buffer.from(list.rawData)
    },
  }
}

/** The number of a revocation list in DER; undefined when there is none. */
export function listNumber(der: Buffer): number | undefined {
  return attempt(() => listNumberIn(new (library().x509.X509Crl)(der).extensions))
}

export interface AuthorityOptions {
  readonly commonName: string
  /** The names it may issue for; undefined is no limit. */
  readonly permittedNames: PermittedNames | undefined
  readonly notBefore: Milliseconds
  readonly notAfter: Milliseconds
}

/** A new self-signed authority on P-256 that may issue only leaves. Certificate and key are in PEM. */
export async function generateAuthority(options: AuthorityOptions) {
  const { x509 } = library()
  const { commonName, permittedNames } = options
  const keys = await webcrypto.subtle.generateKey(p256, true, usages)
  const { keyCertSign, cRLSign } = x509.KeyUsageFlags
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [{ utf8String: commonName }] }] as never,
    notBefore: wholeSeconds(options.notBefore),
    notAfter: wholeSeconds(options.notAfter),
    keys,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' } as never,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(keyCertSign | cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(permittedNames === undefined ? [] : [nameConstraints(permittedNames)]),
    ],
  })
  return {
    certificate: `${certificate.toString('pem').trim()}\n`,
    key: exportKey(keys.privateKey),
  }
}

const p256 = { name: 'ECDSA', namedCurve: 'P-256' } as const
const usages = ['sign', 'verify'] as const

/** A private key as PKCS #8 in PEM. */
export function exportKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Certificates have no fractions of a second (4.1.2.5). */
function wholeSeconds(moment: Milliseconds): Date {
  return new Date(Math.floor(moment / 1000) * 1000)
}
