/**
 * The metadata a development IdP writes, the AuthnRequests it reads, and the service providers it accepts: gateways on this
 * machine, or at hosts it was given. The addresses of a gateway follow from its entity ID, so it need not be registered. Pure.
 */
import type { Milliseconds } from '../../lib/async/clock.ts'
import { developmentMark } from '../../lib/saml/metadata/idp-metadata.ts'
import { formatInstant } from '../../lib/saml/xml/instant.ts'
import { messageLimits } from '../../lib/saml/xml/message.ts'
import { parseXml } from '../../lib/saml/xml/scan.ts'
import { type Binding, bindings, ns } from '../../lib/saml/xml/vocabulary.ts'
import { attributeOf, childOf, childrenOf } from '../../lib/saml/xml/xml.ts'
import { attribute } from './response.ts'

export interface DevMetadata {
  readonly entityId: string
  /** Certificates in PEM. */
  readonly certificates: readonly string[]
  readonly signOn: string
  /** Bindings offered for signing on. */
  readonly signOnBindings?: readonly Binding[]
  readonly logout?: string | undefined
  readonly logoutResponse?: string
  readonly logoutBindings?: readonly Binding[]
  readonly wantAuthnRequestsSigned?: boolean
  readonly validUntil?: Milliseconds
  /** Whether the metadata is marked, so that no gateway in production accepts it. */
  readonly forDevelopment?: boolean
}

/** Metadata of the IdP, not signed. */
export function metadataXml(values: DevMetadata): string {
  const { logout, logoutResponse, validUntil, wantAuthnRequestsSigned: wants } = values
  const endpoints = (
    name: string,
    to: string,
    offered: readonly Binding[] = ['redirect', 'post'],
  ) => offered.map(binding => `<md:${name} Binding="${bindings[binding]}"${to}/>`).join('')
  const keys = values.certificates.map(certificate => {
    const base64 = certificate.replace(/-----[^-]+-----|\s/g, '')
    return `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="${ns.signature}"><ds:X509Data><ds:X509Certificate>${base64}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`
  })
  const sloAt = attribute('Location', logout) + attribute('ResponseLocation', logoutResponse)
  const slo =
    logout === undefined ? '' : endpoints('SingleLogoutService', sloAt, values.logoutBindings)
  const ssoAt = attribute('Location', values.signOn)
  const sso = endpoints('SingleSignOnService', ssoAt, values.signOnBindings)
  return (
    `<md:EntityDescriptor xmlns:md="${ns.metadata}"${attribute('entityID', values.entityId)}` +
    attribute('validUntil', validUntil === undefined ? undefined : formatInstant(validUntil)) +
    `${values.forDevelopment ? ` xmlns:dev="${developmentMark}" dev:only="true"` : ''}>` +
    `<md:IDPSSODescriptor protocolSupportEnumeration="${ns.protocol}"` +
    `${attribute('WantAuthnRequestsSigned', wants === undefined ? undefined : String(wants))}>` +
    `${keys.join('')}${slo}${sso}</md:IDPSSODescriptor></md:EntityDescriptor>`
  )
}

export interface ReadAuthnRequest {
  readonly id: string
  readonly issuer: string
  readonly acs: string
  readonly destination: string
  readonly forceAuthn: boolean
  readonly isPassive: boolean
  /** The requested format of NameID. */
  readonly nameIdFormat: string | undefined
  /** The requested contexts, one of which has to be used. */
  readonly contexts: readonly string[]
}

/** Reads an AuthnRequest (saml-core-2.0-os section 3.4.1). Throws when it is none. */
export function readAuthnRequest(bytes: Uint8Array): ReadAuthnRequest {
  const parsed = parseXml(bytes, messageLimits)
  if (!parsed.ok) throw new Error(parsed.problem)
  const { root } = parsed
  if (root.name !== 'AuthnRequest' || root.namespace !== ns.protocol) {
    throw new Error('not an AuthnRequest')
  }
  const requested = childOf(root, ns.protocol, 'RequestedAuthnContext')
  const policy = childOf(root, ns.protocol, 'NameIDPolicy')
  return {
    id: attributeOf(root, 'ID') ?? '',
    issuer: childOf(root, ns.assertion, 'Issuer')?.text ?? '',
    acs: attributeOf(root, 'AssertionConsumerServiceURL') ?? '',
    destination: attributeOf(root, 'Destination') ?? '',
    forceAuthn: attributeOf(root, 'ForceAuthn') === 'true',
    isPassive: attributeOf(root, 'IsPassive') === 'true',
    nameIdFormat: policy === undefined ? undefined : attributeOf(policy, 'Format'),
    contexts:
      requested === undefined
        ? []
        : childrenOf(requested, ns.assertion, 'AuthnContextClassRef').map(({ text }) => text),
  }
}

export interface ServiceProvider {
  readonly entityId: string
  readonly acs: string
  readonly slo: string
}

const SUFFIX = '/saml/metadata'

/**
 * The gateway of this entity ID, or a sentence that says why there is none. Accepted are names that can only mean this machine
 * or no machine (RFC 2606, RFC 6761), and those in `hosts`.
 */
export function serviceOf(entityId: string, hosts: readonly string[]): ServiceProvider | string {
  if (!URL.canParse(entityId)) {
    return `${JSON.stringify(entityId.slice(0, 200))} is not the entity ID of a gateway`
  }
  const url = new URL(entityId)
  if (!['https:', 'http:'].includes(url.protocol) || url.pathname !== SUFFIX || url.search !== '') {
    return `an entity ID of a gateway ends in ${SUFFIX}; this one is ${entityId.slice(0, 200)}`
  }
  const named = hosts.some(host => host.toLowerCase() === url.hostname)
  if (!isLocal(url.hostname) && !named) {
    return `${url.hostname} is a name that others may have as well. By default the development IdP serves only names of this machine: localhost, 127.0.0.1, and names below .localhost, .test and .example. Start it with --for ${url.hostname} to serve this gateway too`
  }
  return { entityId, acs: `${url.origin}/saml/acs`, slo: `${url.origin}/saml/slo` }
}

function isLocal(host: string): boolean {
  if (/^127\.\d+\.\d+\.\d+$/.test(host) || host === '[::1]' || host === 'localhost') return true
  return /\.(?:localhost|test|example)$/.test(host)
}
