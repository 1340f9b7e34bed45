/**
 * The metadata a development IdP writes, and the AuthnRequests it reads.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { formatInstant } from '../../auth/saml/core/instant.ts'
import { messageLimits } from '../../auth/saml/core/message.ts'
import { parseXml } from '../../auth/saml/core/scan.ts'
import { bindings, ns } from '../../auth/saml/core/vocabulary.ts'
import { attributeOf, childOf } from '../../auth/saml/core/xml.ts'
import { developmentMark } from '../../auth/saml/metadata/idp-metadata.ts'
import { attribute } from './response.ts'

export interface DevMetadata {
  readonly entityId: string
  /** Certificates in PEM. */
  readonly certificates: readonly string[]
  readonly signOn: string
  /** Bindings offered for signing on. */
  readonly signOnBindings?: ReadonlyArray<'redirect' | 'post'>
  readonly logout?: string | undefined
  readonly logoutResponse?: string
  readonly logoutBindings?: ReadonlyArray<'redirect' | 'post'>
  readonly wantAuthnRequestsSigned?: boolean
  readonly validUntil?: Milliseconds
  /** Marks it, so that no gateway in production takes it. */
  readonly forDevelopment?: boolean
}

/** Metadata of the IdP, not signed. */
export function metadataXml(values: DevMetadata): string {
  const { logout, logoutResponse, validUntil, wantAuthnRequestsSigned: wants } = values
  const both = ['redirect', 'post'] as const
  const endpoint = (name: string, location: string, more = '') => {
    const to = `${attribute('Location', location)}${more}`
    return (binding: 'redirect' | 'post') => `<md:${name} Binding="${bindings[binding]}"${to}/>`
  }
  const keys = values.certificates.map(certificate => {
    const base64 = certificate.replace(/-----[^-]+-----|\s/g, '')
    return `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="${ns.signature}"><ds:X509Data><ds:X509Certificate>${base64}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`
  })
  const slo = endpoint(
    'SingleLogoutService',
    logout ?? '',
    attribute('ResponseLocation', logoutResponse),
  )
  const logouts = logout === undefined ? [] : (values.logoutBindings ?? both).map(slo)
  const sso = endpoint('SingleSignOnService', values.signOn)
  const signOns = (values.signOnBindings ?? both).map(sso)
  return (
    `<md:EntityDescriptor xmlns:md="${ns.metadata}"${attribute('entityID', values.entityId)}` +
    attribute('validUntil', validUntil === undefined ? undefined : formatInstant(validUntil)) +
    `${values.forDevelopment ? ` xmlns:dev="${developmentMark}" dev:only="true"` : ''}>` +
    `<md:IDPSSODescriptor protocolSupportEnumeration="${ns.protocol}"` +
    `${attribute('WantAuthnRequestsSigned', wants === undefined ? undefined : String(wants))}>` +
    `${keys.join('')}${logouts.join('')}${signOns.join('')}</md:IDPSSODescriptor></md:EntityDescriptor>`
  )
}

export interface ReadAuthnRequest {
  readonly id: string
  readonly issuer: string
  readonly acs: string
  readonly destination: string
  readonly forceAuthn: boolean
}

/** Reads an AuthnRequest (saml-core-2.0-os section 3.4.1). Throws when it is none. */
export function readAuthnRequest(bytes: Uint8Array): ReadAuthnRequest {
  const parsed = parseXml(bytes, messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  const { root } = parsed
  if (root.name !== 'AuthnRequest' || root.namespace !== ns.protocol) {
    throw new Error('not an AuthnRequest')
  }
  return {
    id: attributeOf(root, 'ID') ?? '',
    issuer: childOf(root, ns.assertion, 'Issuer')?.text ?? '',
    acs: attributeOf(root, 'AssertionConsumerServiceURL') ?? '',
    destination: attributeOf(root, 'Destination') ?? '',
    forceAuthn: attributeOf(root, 'ForceAuthn') === 'true',
  }
}
