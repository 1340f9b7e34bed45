/**
 * Writes the metadata of this service provider for IdPs, saml-metadata-2.0-os. Pure.
 *
 * # Facts
 * - An IdP that was given the document by hand and reads validUntil refuses every login after that moment. So validUntil is
 *   written only when a setting asks for it.
 */
import { createHash } from 'node:crypto'
import { hour, type Milliseconds } from '../../async/clock.ts'
import { formatInstant } from '../xml/instant.ts'
import { bindings, ns } from '../xml/vocabulary.ts'
import { escapeXml } from '../xml/xml.ts'

/** The facts of this service provider in the document, apart from its keys. */
interface Described {
  readonly entityId: string
  readonly acsUrl: string
  readonly sloUrl: string
  /** The URI of the format; undefined names none. */
  readonly nameIdFormat: string | undefined
  readonly metadataValidity: Milliseconds | undefined
  readonly metadataCacheDuration: Milliseconds | undefined
}

/** Certificates in PEM, newest first. */
export interface PublishedKeys {
  readonly signing: readonly string[]
  readonly encryption: readonly string[]
}

/** The EntityDescriptor, and its ID. `signs` says whether AuthnRequests are signed. */
export function spMetadataXml(
  config: Described,
  { signing, encryption }: PublishedKeys,
  { signs, now }: { readonly signs: boolean; readonly now: Milliseconds },
): { readonly xml: string; readonly id: string } {
  const { entityId, acsUrl, sloUrl, nameIdFormat } = config
  const keys = [
    ...signing.map(certificate => keyDescriptor('signing', certificate)),
    ...encryption.map(certificate => keyDescriptor('encryption', certificate)),
  ]
  const dates = datesOf(config, now)
  // The ID is a digest of the content, so that the document changes only with its content.
  const digest = createHash('sha256').update([entityId, dates, ...keys].join('\n'))
  const id = `_${digest.digest('hex').slice(0, 40)}`
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<md:EntityDescriptor xmlns:md="${ns.metadata}" ID="${id}" entityID="${escapeXml(entityId)}"${dates}>`,
    `  <md:SPSSODescriptor AuthnRequestsSigned="${signs}" WantAssertionsSigned="true" protocolSupportEnumeration="${ns.protocol}">`,
    ...keys,
    `    <md:SingleLogoutService Binding="${bindings.redirect}" Location="${escapeXml(sloUrl)}"/>`,
    `    <md:SingleLogoutService Binding="${bindings.post}" Location="${escapeXml(sloUrl)}"/>`,
    ...(nameIdFormat === undefined
      ? []
      : [`    <md:NameIDFormat>${escapeXml(nameIdFormat)}</md:NameIDFormat>`]),
    `    <md:AssertionConsumerService Binding="${bindings.post}" Location="${escapeXml(acsUrl)}" index="0" isDefault="true"/>`,
    '  </md:SPSSODescriptor>',
    '</md:EntityDescriptor>',
    '',
  ]
  return { xml: lines.join('\n'), id }
}

/** 2.3.2. The end is rounded to an hour, so that the document changes once an hour and not each second. */
function datesOf(
  { metadataValidity, metadataCacheDuration }: Described,
  now: Milliseconds,
): string {
  const end = metadataValidity && Math.ceil((now + metadataValidity) / hour) * hour
  const until = end === undefined ? '' : ` validUntil="${formatInstant(end)}"`
  return metadataCacheDuration === undefined
    ? until
    : `${until} cacheDuration="PT${Math.floor(metadataCacheDuration / 1000)}S"`
}

/** 2.4.1.1. The methods are those that decryption.ts accepts, best first. */
function keyDescriptor(use: 'signing' | 'encryption', certificate: string): string {
  const base64 = certificate.replace(/-----[^-]+-----|\s/g, '')
  const methods =
    use === 'signing'
      ? ''
      : METHODS.map(method => `\n      <md:EncryptionMethod Algorithm="${method}"/>`).join('')
  return (
    `    <md:KeyDescriptor use="${use}">\n` +
    `      <ds:KeyInfo xmlns:ds="${ns.signature}"><ds:X509Data><ds:X509Certificate>${base64}` +
    `</ds:X509Certificate></ds:X509Data></ds:KeyInfo>${methods}\n    </md:KeyDescriptor>`
  )
}

const METHODS = [
  `${ns.encryption11}aes256-gcm`,
  `${ns.encryption11}aes128-gcm`,
  `${ns.encryption}aes256-cbc`,
  `${ns.encryption}aes128-cbc`,
  `${ns.encryption11}rsa-oaep`,
  `${ns.encryption}rsa-oaep-mgf1p`,
]
