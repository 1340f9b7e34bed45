/**
 * Makes a key pair with a self-signed certificate, for SAML. Identity providers compare the key and check the dates, and ignore all other
 * fields.
 */
import { webcrypto } from 'node:crypto'
import { hour, type Milliseconds } from '../async/clock.ts'
import { alternativeNames } from './extensions.ts'
import { library } from './library.ts'
import { exportKey } from './x509.ts'

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
 * Makes the pair in PEM. The key is RSA, because every identity provider can encrypt to it, and the signature uses SHA-256. The library
 * gives the certificate a random serial number of 128 bits, which is positive (RFC 5280 section 4.1.2.2).
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
