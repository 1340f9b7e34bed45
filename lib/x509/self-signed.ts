/**
 * A key pair with a self-signed certificate, as SAML wants it: identity providers compare the key and look at the dates, and
 * at nothing else.
 */
import 'reflect-metadata' // the library asks for it, and it has to come first
import { webcrypto } from 'node:crypto'
import { SubjectAlternativeNameExtension, X509CertificateGenerator } from '@peculiar/x509'
import type { Milliseconds } from '../async/clock.ts'
import { isIP } from '../ip.ts'

export interface SelfSigned {
  /** PKCS #8 in PEM. */
  readonly privateKey: string
  /** Certificate in PEM. */
  readonly certificate: string
}

export interface SelfSignedOptions {
  /** Common name of subject and issuer. */
  readonly name: string
  readonly now: Milliseconds
  readonly lifetime: Milliseconds
  readonly serialNumber: Buffer
  /** Bits of the RSA modulus; 3072 unless told. */
  readonly modulusLength?: number
  /** Host names it is good for as the certificate of a TLS server. */
  readonly hosts?: readonly string[]
}

/** Makes the pair: RSA, because that is what every identity provider encrypts to, signed with SHA-256. */
export async function selfSigned(options: SelfSignedOptions): Promise<SelfSigned> {
  const { name, now, lifetime, serialNumber, modulusLength = 3072, hosts = [] } = options
  const algorithm = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength,
  }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  // Positive, and never zero (RFC 5280 section 4.1.2.2).
  const serial = Buffer.concat([Buffer.from([0x01]), serialNumber])
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial.toString('hex'),
      name: `CN=${name.replace(/[^A-Za-z0-9.:\-_[\]]/g, '')}`,
      // An hour back: clocks of those who check differ.
      notBefore: new Date(now - 3_600_000),
      notAfter: new Date(now + lifetime),
      signingAlgorithm: algorithm,
      keys,
      ...(hosts.length > 0 && { extensions: [alternativeNames(hosts)] }),
    },
    webcrypto,
  )
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey))
  return { privateKey: pem(pkcs8, 'PRIVATE KEY'), certificate: `${certificate.toString('pem')}\n` }
}

function alternativeNames(hosts: readonly string[]): SubjectAlternativeNameExtension {
  return new SubjectAlternativeNameExtension(
    hosts.map(value => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const),
  )
}

function pem(bytes: Buffer, label: string): string {
  const lines = bytes
    .toString('base64')
    .replace(/(.{64})/g, '$1\n')
    .trimEnd()
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`
}
