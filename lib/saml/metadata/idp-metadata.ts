/**
 * Reads the facts of one identity provider from metadata, saml-metadata-2.0-os. Pure. The dates are only read here; the caller
 * compares them with the time.
 */
import { X509Certificate } from 'node:crypto'
import type { Milliseconds } from '../../async/clock.ts'
import { attempt } from '../../errors.ts'
import { parseUri } from '../../http/message/target.ts'
import { verifySignature } from '../signature/signature.ts'
import { parseInstant, parseXmlDuration } from '../xml/instant.ts'
import {
  metadataLimits,
  type RefusedMessage,
  readMessage,
  refuse,
  refusedBy,
  signedMetadataLimits,
} from '../xml/message.ts'
import { type Binding, bindings, ns } from '../xml/vocabulary.ts'
import { attributeOf, childrenOf, trimXml, type XmlDocument, type XmlElement } from '../xml/xml.ts'

interface IdpKey {
  /** Certificate in PEM, 64 characters a line. */
  readonly certificate: string
  /** SHA-256 of the certificate, hexadecimal in lower case. */
  readonly fingerprint: string
  /** The moment the certificate's validity ends, which is not enforced; the service only warns. */
  readonly ends: Milliseconds
}

export interface Endpoint {
  readonly binding: Binding
  /** Absolute http or https URI. */
  readonly location: string
  /** The address for responses, when it is another one (2.2.2). */
  readonly responseLocation: string | undefined
}

/** Namespace of an attribute by which `authproxy dev-idp` marks its metadata. */
export const developmentMark = 'urn:authproxy:for-development'

export interface IdpMetadata {
  readonly entityId: string
  /** Every key that may sign, in the order of the document, each once. There is at least one. */
  readonly keys: readonly IdpKey[]
  /** Endpoints in order of preference: HTTP-Redirect, then HTTP-POST. There is at least one. */
  readonly singleSignOn: readonly Endpoint[]
  /** Endpoints in the same order; empty when the IdP has no single logout over the browser. */
  readonly singleLogout: readonly Endpoint[]
  readonly wantAuthnRequestsSigned: boolean
  /** Whether it is `authproxy dev-idp`, where each client can be any user. */
  readonly forDevelopment: boolean
  /** The earliest validUntil that applies to it. */
  readonly validUntil: Milliseconds | undefined
  /** The shortest cacheDuration that applies to it: after it the document is to be asked for again. */
  readonly cacheDuration: Milliseconds | undefined
  /** The parts that could not be used, a sentence each. */
  readonly warnings: readonly string[]
}

export interface MetadataRules {
  /** The entity ID of the IdP; undefined when the document has to contain only one IdP. */
  readonly entityId: string | undefined
  /** Certificates in PEM, one of which must have signed the document; undefined: the signature is not checked. */
  readonly certificates: readonly string[] | undefined
  readonly allowSha1: boolean
}

/**
 * The one IdP of a document, or the one called `entityId`. An aggregate with several IdPs is refused when none is named: taking
 * the first would mean to trust it because of its place. Never throws because of the content of the document.
 */
export function readIdpMetadata(
  bytes: Uint8Array,
  { entityId, certificates, allowSha1 }: MetadataRules,
): { readonly ok: true; readonly idp: IdpMetadata } | RefusedMessage {
  try {
    const given = readDocument(bytes)
    const idp = idpIn(given, entityId)
    if (certificates === undefined) return { ok: true, idp }
    // Another document is refused for that reason. The facts are read from the signed text.
    const signed = verifySignature(given, given.root, {
      certificates,
      allowSha1,
      limits: signedMetadataLimits,
    })
    return { ok: true, idp: idpIn(readMessage(signed, signedMetadataLimits), entityId) }
  } catch (error) {
    return refusedBy(error)
  }
}

function idpIn({ root }: XmlDocument, entityId: string | undefined): IdpMetadata {
  if (root.namespace !== ns.metadata || !ROOTS.includes(root.name)) {
    refuse(
      'metadata_form',
      'its root is neither a SAML 2.0 EntityDescriptor nor an EntitiesDescriptor',
    )
  }
  const candidates = entitiesOf(root, []).filter(({ roles }) => roles.length > 0)
  return readEntity(choose(candidates, entityId))
}

/** People save a page instead of metadata, or a URL leads to a sign-in page: the message says so, and names no error in the XML. */
function readDocument(bytes: Uint8Array): XmlDocument {
  const begin = Buffer.from(bytes.subarray(0, 2000)).toString('latin1').replaceAll('\0', '')
  if (/^[^<]{0,20}(?:<!--[^>]*-->\s*)?<(?:!doctype\s+html|html)[\s>]/i.test(begin)) {
    const what = 'it is a web page (HTML), not metadata: the address leads to a page for people'
    refuse('metadata_web-page', `${what}, for signing in perhaps, or a page was saved`)
  }
  return readMessage(bytes, metadataLimits)
}

const ROOTS: readonly string[] = ['EntityDescriptor', 'EntitiesDescriptor']

interface Entity {
  readonly descriptor: XmlElement
  readonly entityId: string
  /** Descriptors of identity providers that speak SAML 2.0. */
  readonly roles: readonly XmlElement[]
  /** The EntitiesDescriptors around the entity. Their dates apply to it too. */
  readonly ancestors: readonly XmlElement[]
}

function entitiesOf(element: XmlElement, ancestors: readonly XmlElement[]): readonly Entity[] {
  if (element.name === 'EntityDescriptor') {
    const roles = childrenOf(element, ns.metadata, 'IDPSSODescriptor').filter(speaksSaml2)
    const entityId = attributeOf(element, 'entityID') ?? ''
    return [{ descriptor: element, entityId, roles, ancestors }]
  }
  return element.children
    .filter(child => child.namespace === ns.metadata && ROOTS.includes(child.name))
    .flatMap(child => entitiesOf(child, [...ancestors, element]))
}

function speaksSaml2(role: XmlElement): boolean {
  return (attributeOf(role, 'protocolSupportEnumeration') ?? '').split(/\s+/).includes(ns.protocol)
}

function choose(candidates: readonly Entity[], wanted: string | undefined): Entity {
  const names = candidates.slice(0, 5).map(({ entityId }) => quote(entityId))
  const more = candidates.length > 5 ? ', …' : ''
  const listed = candidates.length === 0 ? '' : `: ${names.join(', ')}${more}`
  const [first, second] =
    wanted === undefined ? candidates : candidates.filter(({ entityId }) => entityId === wanted)
  if (first !== undefined && second === undefined) return first
  if (wanted !== undefined) {
    return first === undefined
      ? refuse('metadata_unknown-entity', `there is no IdP ${quote(wanted)} in it${listed}`)
      : refuse('metadata_several-idps', `${quote(wanted)} occurs more than once`)
  }
  if (first === undefined) {
    return refuse('metadata_no-idp', 'it holds no identity provider that speaks SAML 2.0')
  }
  const problem = `it holds ${candidates.length} IdPs; say which by idpEntityID${listed}`
  return refuse('metadata_several-idps', problem)
}

function quote(entityId: string): string {
  return JSON.stringify(entityId.slice(0, 200))
}

function readEntity({ entityId, roles, ancestors, descriptor }: Entity): IdpMetadata {
  // 2.3.2: an entity ID has at most 1024 characters.
  if (entityId === '' || entityId.length > 1024) {
    refuse('metadata_no-entity-id', 'its EntityDescriptor has no usable entityID')
  }
  const warnings: string[] = []
  const singleSignOn = endpointsOf(roles, 'SingleSignOnService', warnings)
  const keys = signingKeys(roles, warnings)
  const details = warnings.length === 0 ? '' : ` (${[...new Set(warnings)].join('; ')})`
  if (singleSignOn.length === 0) {
    refuse('metadata_no-sign-on', `it offers no sign-on by HTTP-Redirect or HTTP-POST${details}`)
  }
  if (keys.length === 0) {
    refuse('metadata_no-key', `it has no usable signing certificate${details}`)
  }
  const dated = [...ancestors, descriptor, ...roles]
  const validUntil = least(
    dated,
    'validUntil',
    text => parseInstant(text) ?? refuse('metadata_dates', 'its validUntil is not an xs:dateTime'),
  )
  return {
    entityId,
    keys,
    singleSignOn,
    singleLogout: endpointsOf(roles, 'SingleLogoutService', warnings),
    wantAuthnRequestsSigned: roles.some(role =>
      ['true', '1'].includes(trimXml(attributeOf(role, 'WantAuthnRequestsSigned') ?? '')),
    ),
    forDevelopment: descriptor.attributes.some(({ namespace }) => namespace === developmentMark),
    validUntil,
    // No trust depends on it, so a malformed one only causes a warning.
    cacheDuration: least(dated, 'cacheDuration', text => {
      const duration = parseXmlDuration(text)
      if (duration === undefined) warnings.push('a cacheDuration is not an xs:duration')
      return duration ?? []
    }),
    warnings: [...new Set(warnings)],
  }
}

/** Keys whose use is signing or not said, which means both (2.4.1.1). Their certificates' names, issuers and dates decide nothing. */
function signingKeys(roles: readonly XmlElement[], warnings: string[]): readonly IdpKey[] {
  const byFingerprint = new Map<string, IdpKey>()
  for (const descriptor of roles.flatMap(role => childrenOf(role, ns.metadata, 'KeyDescriptor'))) {
    if ((attributeOf(descriptor, 'use') ?? 'signing') !== 'signing') continue
    const infos = childrenOf(descriptor, ns.signature, 'KeyInfo')
    if (infos.length === 0)
      warnings.push('a KeyDescriptor has no ds:KeyInfo in the right namespace')
    for (const info of infos) {
      const certificates = childrenOf(info, ns.signature, 'X509Data').flatMap(data =>
        childrenOf(data, ns.signature, 'X509Certificate'),
      )
      if (certificates.length === 0) warnings.push('a KeyInfo has no X509Certificate')
      for (const { text } of certificates) {
        const key = readCertificate(text)
        if (typeof key === 'string') {
          warnings.push(key)
          continue
        }
        const { bits, ...idpKey } = key
        byFingerprint.set(key.fingerprint, idpKey)
        if (bits < SAFE_BITS) {
          warnings.push(
            `the signing key ${key.fingerprint.slice(0, 16)} is RSA of ${bits} bits, and an attacker who breaks it can sign in as anyone: have the identity provider use ${SAFE_BITS} bits or more`,
          )
        }
      }
    }
  }
  return [...byFingerprint.values()]
}

/**
 * The certificate of a base64 text, which may have white space anywhere, and the PEM lines that some people paste. A sentence
 * when it is not a certificate, or its key cannot verify SAML signatures here.
 */
function readCertificate(text: string): (IdpKey & { readonly bits: number }) | string {
  const base64 = text.replace(/-----(?:BEGIN|END) CERTIFICATE-----/g, '').replace(/\s+/g, '')
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return 'a certificate is not base64'
  const der = Buffer.from(base64, 'base64')
  const certificate = attempt(() => new X509Certificate(der))
  if (certificate === undefined) {
    return 'a certificate cannot be read: it is damaged, cut off or a placeholder'
  }
  // OpenSSL stops reading where the certificate ends; two readers may then disagree on what it is.
  if (certificate.raw.length !== der.length) return 'a certificate has bytes behind its end'
  const { fingerprint256, validTo } = certificate
  // Reading a damaged key, and one of an algorithm that this OpenSSL does not know, throws.
  const publicKey = attempt(() => certificate.publicKey)
  if (publicKey === undefined) return 'a certificate has a key of an unknown kind'
  const { asymmetricKeyType: kind, asymmetricKeyDetails: details } = publicKey
  const isRsa = kind === 'rsa' || kind === 'rsa-pss'
  if (!isRsa && (kind !== 'ec' || !CURVES.includes(details?.namedCurve ?? ''))) {
    return `a certificate has a key of kind ${details?.namedCurve ?? kind}; signatures are verified with RSA keys and those on the curves P-256, P-384 and P-521`
  }
  const bits = details?.modulusLength ?? 0
  if (isRsa && bits < 1024)
    return `a certificate has an RSA key of ${bits} bits, which can be broken`
  return {
    certificate: certificate.toString(),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    ends: Date.parse(validTo),
    bits: isRsa ? bits : Number.POSITIVE_INFINITY,
  }
}

/** The size from which RSA keys are taken without a warning (NIST SP 800-131A). */
const SAFE_BITS = 2048

/** P-256, P-384 and P-521, by their names in OpenSSL. */
const CURVES: readonly string[] = ['prime256v1', 'secp384r1', 'secp521r1']

/** Endpoints of the two bindings we use, HTTP-Redirect first. */
function endpointsOf(roles: readonly XmlElement[], name: string, warnings: string[]) {
  const elements = roles.flatMap(role => childrenOf(role, ns.metadata, name))
  return (['redirect', 'post'] as const).flatMap(binding =>
    elements
      .filter(element => attributeOf(element, 'Binding') === bindings[binding])
      .flatMap((element): readonly Endpoint[] => {
        const location = httpUri(attributeOf(element, 'Location'))
        const given = attributeOf(element, 'ResponseLocation')
        const responseLocation = httpUri(given)
        if (location === undefined || (given !== undefined && responseLocation === undefined)) {
          warnings.push(`a ${name} has a location that is not an http or https URI`)
          return []
        }
        if (location.startsWith('http:')) warnings.push(`a ${name} is reached without TLS`)
        return [{ binding, location, responseLocation }]
      }),
  )
}

/** Browsers are sent to a Location, so it must not name a script or a file. */
function httpUri(text: string | undefined): string | undefined {
  const trimmed = text === undefined ? undefined : trimXml(text)
  return trimmed === undefined || 'problem' in parseUri(trimmed) ? undefined : trimmed
}

/** The least value of an attribute; undefined when no element has one. */
function least(
  elements: readonly XmlElement[],
  name: string,
  read: (text: string) => Milliseconds | readonly [],
): Milliseconds | undefined {
  const values = elements.flatMap(element => {
    const text = attributeOf(element, name)
    return text === undefined ? [] : read(text)
  })
  return values.length === 0 ? undefined : Math.min(...values)
}
