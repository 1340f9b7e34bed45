/**
 * Encrypts an assertion, or parts of one, to the certificate of a service provider (XML Encryption 1.1).
 * For development and tests; the gateway decrypts in saml/response/decryption.ts.
 */
import { constants, createCipheriv, publicEncrypt, randomBytes, X509Certificate } from 'node:crypto'
import { ns } from '../../lib/saml/xml/vocabulary.ts'

type ContentMethod = 'aes128-cbc' | 'aes256-cbc' | 'aes128-gcm' | 'aes256-gcm'

type KeyMethod = 'rsa-oaep-mgf1p' | 'rsa-oaep-sha256' | 'rsa-1_5'

const digestUri = 'http://www.w3.org/2001/04/xmlenc#sha256'

const keyMethods: Readonly<Record<KeyMethod, string>> = {
  'rsa-oaep-mgf1p': `<xenc:EncryptionMethod Algorithm="${ns.encryption}rsa-oaep-mgf1p"/>`,
  'rsa-oaep-sha256':
    `<xenc:EncryptionMethod Algorithm="${ns.encryption11}rsa-oaep">` +
    `<ds:DigestMethod xmlns:ds="${ns.signature}" Algorithm="${digestUri}"/>` +
    `<xenc11:MGF xmlns:xenc11="${ns.encryption11}" Algorithm="${ns.encryption11}mgf1sha256"/>` +
    '</xenc:EncryptionMethod>',
  'rsa-1_5': `<xenc:EncryptionMethod Algorithm="${ns.encryption}rsa-1_5"/>`,
}

export interface EncryptionMethods {
  readonly content: ContentMethod
  readonly key: KeyMethod
}

/** An element of this name around the text of another, which has to declare its namespaces itself. */
export function encryptElement(
  name: 'EncryptedAssertion' | 'EncryptedID' | 'EncryptedAttribute',
  text: string,
  to: { readonly certificate: string; readonly methods: EncryptionMethods },
): string {
  const { certificate, methods } = to
  const key = randomBytes(methods.content.startsWith('aes128') ? 16 : 32)
  const content = encryptContent(text, key, methods.content)
  const namespace = methods.content.endsWith('gcm') ? ns.encryption11 : ns.encryption
  const wrapped = wrapKey(key, certificate, methods.key).toString('base64')
  return (
    `<saml:${name} xmlns:saml="${ns.assertion}">` +
    `<xenc:EncryptedData xmlns:xenc="${ns.encryption}" Type="${ns.encryption}Element">` +
    `<xenc:EncryptionMethod Algorithm="${namespace}${methods.content}"/>` +
    `<ds:KeyInfo xmlns:ds="${ns.signature}"><xenc:EncryptedKey>${keyMethods[methods.key]}` +
    `<xenc:CipherData><xenc:CipherValue>${wrapped}</xenc:CipherValue></xenc:CipherData>` +
    '</xenc:EncryptedKey></ds:KeyInfo>' +
    `<xenc:CipherData><xenc:CipherValue>${content.toString('base64')}</xenc:CipherValue></xenc:CipherData>` +
    `</xenc:EncryptedData></saml:${name}>`
  )
}

function wrapKey(key: Buffer, certificate: string, method: KeyMethod): Buffer {
  const { publicKey } = new X509Certificate(certificate)
  if (method === 'rsa-1_5') {
    return publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_PADDING }, key)
  }
  const oaepHash = method === 'rsa-oaep-sha256' ? 'sha256' : 'sha1'
  return publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash }, key)
}

/** The initialisation vector, the ciphertext and, of GCM, the tag. */
function encryptContent(text: string, key: Buffer, method: ContentMethod): Buffer {
  const bits = key.length === 16 ? 128 : 256
  if (method.endsWith('cbc')) {
    const iv = randomBytes(16)
    const cipher = createCipheriv(`aes-${bits}-cbc`, key, iv)
    return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final()])
  }
  const iv = randomBytes(12)
  const cipher = createCipheriv(`aes-${bits}-gcm`, key, iv)
  return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}
