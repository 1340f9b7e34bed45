/**
 * Writes our own metadata (SP), saml-metadata-2.0-os: what an IdP has to know of this service provider. Pure.
 */
import { createHash } from 'node:crypto'
import type { Milliseconds } from '../../../async/clock.ts'
import type { SamlConfig } from '../../config/config.ts'
import { publishedFor, type SamlKeyPair, signingKey } from '../../keys/dynamic-config.ts'
import { bindings, ns } from '../core/vocabulary.ts'
import { escapeXml } from '../core/xml.ts'

/**
 * The EntityDescriptor. Every key pair that still decrypts is published for encryption, newest first; for signatures the
 * newest and those that still sign in its place. `signs` says whether AuthnRequests are signed.
 */
export function spMetadataXml(
  config: Pick<SamlConfig, 'entityId' | 'acsUrl' | 'sloUrl' | 'nameIdFormat'>,
  pairs: readonly SamlKeyPair[],
  { signs, now }: { readonly signs: boolean; readonly now: Milliseconds },
): string {
  const { entityId, acsUrl, sloUrl, nameIdFormat } = config
  const signing = signingKey(pairs, now, publishedFor.saml)
  const current = signing === undefined ? 0 : pairs.indexOf(signing) + 1
  const keys = [
    ...pairs.slice(0, current).map(pair => keyDescriptor('signing', pair)),
    ...pairs.map(pair => keyDescriptor('encryption', pair)),
  ]
  // The ID follows from the content, so that the document stays the same as long as it says the same.
  const id = createHash('sha256')
    .update(`${entityId}\n${keys.join('\n')}`)
    .digest('hex')
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<md:EntityDescriptor xmlns:md="${ns.metadata}" ID="_${id.slice(0, 40)}" entityID="${escapeXml(entityId)}">`,
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
  ].join('\n')
}

/** 2.4.1.1; the methods say what decryption.ts takes, best first. */
function keyDescriptor(use: 'signing' | 'encryption', pair: SamlKeyPair): string {
  const base64 = pair.certificate.replace(/-----[^-]+-----|\s/g, '')
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
