/**
 * Encrypts an assertion, or parts of one, to a service provider's certificate, as identity providers do: XML Encryption 1.1. For development
 * and tests only; the other direction, which guards something, is saml/decryption.ts.
 */
import { constants, createCipheriv, publicEncrypt, randomBytes, X509Certificate } from 'node:crypto'
import { ns } from '../../auth/saml/core/vocabulary.ts'

export type ContentMethod = 'aes128-cbc' | 'aes256-cbc' | 'aes128-gcm' | 'aes256-gcm'

export type KeyMethod = 'rsa-oaep-mgf1p' | 'rsa-oaep-sha256' | 'rsa-1_5'

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

/** An EncryptedAssertion around the text of an assertion, or of whatever else a test wants in it. */
export function encryptAssertion(
  assertion: string,
  certificate: string,
  methods: EncryptionMethods,
): string {
  return encryptElement('EncryptedAssertion', assertion, { certificate, methods })
}

/** An element of this name around the text of another, which has to declare its namespaces itself. */
export function encryptElement(
  name: 'EncryptedAssertion' | 'EncryptedID' | 'EncryptedAttribute',
  text: string,
  to: { readonly certificate: string; readonly methods: EncryptionMethods },
): string {
  const { certificate, methods } = to
  const gcm = methods.content.endsWith('gcm')
  const key = randomBytes(methods.content.startsWith('aes128') ? 16 : 32)
  const content = gcm ? sealGcm(text, key) : sealCbc(text, key)
  const namespace = gcm ? ns.encryption11 : ns.encryption
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

function sealGcm(text: string, key: Buffer): Buffer {
  const iv = randomBytes(12)
  const cipher = createCipheriv(key.length === 16 ? 'aes-128-gcm' : 'aes-256-gcm', key, iv)
  return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}

function sealCbc(text: string, key: Buffer): Buffer {
  const iv = randomBytes(16)
  const cipher = createCipheriv(key.length === 16 ? 'aes-128-cbc' : 'aes-256-cbc', key, iv)
  return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final()])
}
