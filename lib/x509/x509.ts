/**
 * Certificates and revocation lists, RFC 5280: reads those of an authority, issues those that it signs, and makes a new authority or a
 * self-signed pair. Knows PEM and DER, no files and no policy. Node's OpenSSL reads; WebCrypto signs and makes keys, in threads.
 */

import {
  createPrivateKey,
  KeyObject,
  X509Certificate as NodeCertificate,
  webcrypto,
} from 'node:crypto'
import { createRequire } from 'node:module'
import type * as asn1 from '@peculiar/asn1-schema'
import type * as structures from '@peculiar/asn1-x509'
import type * as x509 from '@peculiar/x509'
import { hour, type Milliseconds } from '../async/clock.ts'
import { attempt } from '../errors.ts'
import { AddressSet, isIP } from '../ip.ts'

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
    /** Makes a revocation list that revokes nothing, in DER (RFC 5280 section 5). Its number is its moment in seconds. */
    async issueList(options: {
      readonly thisUpdate: Milliseconds
      readonly nextUpdate: Milliseconds
    }): Promise<Buffer> {
      const list = await x509.X509CrlGenerator.create({
        ...signed,
        thisUpdate: wholeSeconds(options.thisUpdate),
        nextUpdate: wholeSeconds(options.nextUpdate),
        extensions: [authorityKey, listNumberExtension(Math.floor(options.thisUpdate / 1000))],
      })
      return Buffer.from(list.rawData)
    },
  }
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

export interface SelfSignedOptions {
  /** Common name of subject and issuer. */
  readonly name: string
  readonly now: Milliseconds
  readonly lifetime: Milliseconds
  /** Bits of the RSA modulus; 3072 if undefined. */
  readonly modulusLength?: number
  /** Host names for which it is valid as the certificate of a TLS server. */
  readonly hosts?: readonly string[]
}

/**
 * Makes a key pair with a self-signed certificate in PEM, for SAML. Identity providers compare the key and check the dates, and ignore all
 * other fields. The key is RSA, because every identity provider can encrypt to it, and the signature uses SHA-256. The library gives the
 * certificate a random serial number of 128 bits, which is positive (4.1.2.2).
 */
export async function selfSignedCertificate(options: SelfSignedOptions) {
  const { name, now, lifetime, modulusLength = 3072, hosts = [] } = options
  const algorithm = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength,
  }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await library().x509.X509CertificateGenerator.createSelfSigned(
    {
      name: `CN=${name.replace(/[^A-Za-z0-9.:\-_[\]]/g, '')}`,
      // It is valid from an hour ago, because the clocks of peers differ.
      notBefore: new Date(now - hour),
      notAfter: new Date(now + lifetime),
      signingAlgorithm: algorithm,
      keys,
      ...(hosts.length > 0 && { extensions: [alternativeNames(hosts)] }),
    },
    webcrypto,
  )
  return {
    privateKey: exportKey(keys.privateKey),
    certificate: `${certificate.toString('pem')}\n`,
  }
}

const p256 = { name: 'ECDSA', namedCurve: 'P-256' } as const
const usages = ['sign', 'verify'] as const

/** A private key as PKCS #8 in PEM. */
function exportKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Certificates have no fractions of a second (4.1.2.5). */
function wholeSeconds(moment: Milliseconds): Date {
  return new Date(Math.floor(moment / 1000) * 1000)
}

/** The names for which a certificate is valid, DNS names and IP addresses (4.2.1.6). */
function alternativeNames(names: readonly string[], critical = false): x509.Extension {
  const general = names.map(value => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const)
  return new (library().x509.SubjectAlternativeNameExtension)(general, critical)
}

/** The names an authority may issue for: DNS names, each with all names below it, and networks in CIDR notation. */
export interface PermittedNames {
  readonly names: readonly string[]
  readonly networks: readonly string[]
}

/** Name constraints that permit only these names and networks. The extension is critical, as RFC 5280 demands. */
function nameConstraints({ names, networks }: PermittedNames): x509.Extension {
  const { asn1, structures, x509 } = library()
  const { GeneralName, GeneralSubtree, GeneralSubtrees, NameConstraints } = structures
  const subtree = (base: InstanceType<typeof GeneralName>) => new GeneralSubtree({ base })
  const none = [
    ...(names.length > 0 ? [] : [new GeneralName({ dNSName: '' })]),
    ...(networks.length > 0 ? [] : everywhere.map(iPAddress => new GeneralName({ iPAddress }))),
  ].map(subtree)
  const permitted = [
    ...names.map(dNSName => subtree(new GeneralName({ dNSName }))),
    ...networks.map(iPAddress => subtree(new GeneralName({ iPAddress }))),
  ]
  const constraints = new NameConstraints({
    ...(permitted.length > 0 ? { permittedSubtrees: new GeneralSubtrees(permitted) } : {}),
    ...(none.length > 0 ? { excludedSubtrees: new GeneralSubtrees(none) } : {}),
  })
  const value = asn1.AsnConvert.serialize(constraints)
  return new x509.Extension(structures.id_ce_nameConstraints, true, value)
}

const everywhere = ['0.0.0.0/0', '::/0'] as const

/**
 * Makes a function of a certificate's name constraints: whether it may issue for a DNS name or an IP address. Malformed constraints permit
 * nothing.
 */
function nameConstraintCheck(extensions: readonly x509.Extension[]): (name: string) => boolean {
  const { asn1, structures } = library()
  const found = extensions.find(({ type }) => type === structures.id_ce_nameConstraints)
  if (found === undefined) return () => true
  try {
    const constraints = asn1.AsnConvert.parse(found.value, structures.NameConstraints)
    const { permittedSubtrees, excludedSubtrees } = constraints
    const permitted = subtrees(permittedSubtrees)
    const excluded = subtrees(excludedSubtrees)
    return name => {
      const kind = isIP(name) === 0 ? 'names' : 'networks'
      if (excluded[kind].some(within => within(name))) return false
      return permitted[kind].length === 0 || permitted[kind].some(within => within(name))
    }
  } catch {
    return () => false
  }
}

type Within = (name: string) => boolean

type Subtrees = Iterable<{
  readonly base: { readonly dNSName?: string; readonly iPAddress?: string }
}>

function subtrees(from: Subtrees | undefined): { names: Within[]; networks: Within[] } {
  const names: Within[] = []
  const networks: Within[] = []
  for (const { base } of from ?? []) {
    if (base.dNSName !== undefined) names.push(belowName(base.dNSName.toLowerCase()))
    if (base.iPAddress !== undefined) networks.push(inNetwork(base.iPAddress))
  }
  return { names, networks }
}

/** A name "constructed by simply adding zero or more labels to the left". After a leading dot it is one or more labels, as in OpenSSL. */
function belowName(base: string): Within {
  if (base === '') return () => true
  if (base.startsWith('.')) return name => name.endsWith(base)
  return name => name === base || name.endsWith(`.${base}`)
}

function inNetwork(cidr: string): Within {
  // This throws for an address constraint whose mask is not contiguous.
  const network = AddressSet.fromCidrs([cidr])
  return address => network.has(address)
}

function listNumberExtension(number: number): x509.Extension {
  const { asn1, structures, x509 } = library()
  const value = asn1.AsnConvert.serialize(new structures.CRLNumber(number))
  return new x509.Extension(structures.id_ce_cRLNumber, false, value)
}

interface Library {
  readonly x509: typeof x509
  /** Encoding and decoding of ASN.1. */
  readonly asn1: typeof asn1
  /** The structures of RFC 5280. */
  readonly structures: typeof structures
}

let loaded: Library | undefined

/**
 * Loads @peculiar/x509 when the first certificate is read or made: it takes a quarter of a second, and most runs need none. It and the ASN.1
 * modules below it are CommonJS, so functions that use them need not wait.
 */
function library(): Library {
  if (loaded !== undefined) return loaded
  const require = createRequire(import.meta.url)
  // The library needs this module loaded before it.
  require('reflect-metadata')
  loaded = {
    x509: require('@peculiar/x509'),
    asn1: require('@peculiar/asn1-schema'),
    structures: require('@peculiar/asn1-x509'),
  }
  return loaded
}
