/**
 * Metadata of identity providers, saml-metadata-2.0-os: bytes in, what this gateway needs of one IdP out. Pure. Whether a
 * document has expired is a question for whoever knows the time; here its dates are only read.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { parseUri } from '../../../http/message/target.ts'
import { parseDuration, parseInstant } from '../core/instant.ts'
import { metadataLimits } from '../core/scan.ts'
import { type Binding, bindings, ns } from '../core/vocabulary.ts'
import { attributeOf, childrenOf, parseXml, type XmlElement } from '../core/xml.ts'
import { type IdpKey, readKeys } from './idp-key.ts'

export interface Endpoint {
  readonly binding: Binding
  /** Absolute http or https URI. */
  readonly location: string
  /** Where responses go, when that is another place (2.2.2). */
  readonly responseLocation: string | undefined
}

export interface IdpMetadata {
  readonly entityId: string
  /** Every key that may sign, in the order of the document, each once. At least one. */
  readonly keys: readonly IdpKey[]
  /** In order of preference: HTTP-Redirect, then HTTP-POST. At least one. */
  readonly singleSignOn: readonly Endpoint[]
  /** In the same order; empty when the IdP has no single logout over the browser. */
  readonly singleLogout: readonly Endpoint[]
  readonly wantAuthnRequestsSigned: boolean
  readonly nameIdFormats: readonly string[]
  /** The earliest validUntil that applies to it. */
  readonly validUntil: Milliseconds | undefined
  /** The shortest cacheDuration that applies to it. */
  readonly cacheDuration: Milliseconds | undefined
  /** What could not be used, a sentence each. */
  readonly warnings: readonly string[]
}

export type MetadataReason =
  | 'xml'
  | 'not-metadata'
  | 'no-idp'
  | 'several-idps'
  | 'unknown-entity'
  | 'no-entity-id'
  | 'no-sign-on'
  | 'no-key'
  | 'dates'

export type ParsedMetadata =
  | {
      readonly ok: true
      readonly idp: IdpMetadata
      readonly root: XmlElement
      readonly text: string
    }
  | { readonly ok: false; readonly because: MetadataReason; readonly problem: string }

/**
 * The one IdP of a document, or the one called `entityId`. An aggregate with several IdPs and none asked for is refused: to
 * take the first would be to trust whoever comes first.
 */
export function parseIdpMetadata(bytes: Uint8Array, entityId: string | undefined): ParsedMetadata {
  const parsed = parseXml(bytes, metadataLimits)
  if (!parsed.ok) return refuse('xml', parsed.problem)
  const { root, text } = parsed
  if (root.namespace !== ns.metadata || !ROOTS.includes(root.name)) {
    return refuse('not-metadata', 'its root is no SAML 2.0 EntityDescriptor or EntitiesDescriptor')
  }
  const candidates = [...entitiesOf(root, [])].filter(entity => entity.roles.length > 0)
  const chosen = choose(candidates, entityId)
  if ('because' in chosen) return chosen
  const idp = readEntity(chosen)
  return 'because' in idp ? idp : { ok: true, idp, root, text }
}

const ROOTS: readonly string[] = ['EntityDescriptor', 'EntitiesDescriptor']

interface Entity {
  readonly descriptor: XmlElement
  readonly entityId: string
  /** Descriptors of identity providers that speak SAML 2.0. */
  readonly roles: readonly XmlElement[]
  /** The EntitiesDescriptors around it: their dates hold for it too. */
  readonly around: readonly XmlElement[]
}

function* entitiesOf(element: XmlElement, around: readonly XmlElement[]): Generator<Entity> {
  if (element.name === 'EntityDescriptor') {
    const roles = childrenOf(element, ns.metadata, 'IDPSSODescriptor').filter(speaksSaml2)
    yield { descriptor: element, entityId: attributeOf(element, 'entityID') ?? '', roles, around }
    return
  }
  for (const child of element.children) {
    if (child.namespace !== ns.metadata || !ROOTS.includes(child.name)) continue
    yield* entitiesOf(child, [...around, element])
  }
}

function speaksSaml2(role: XmlElement): boolean {
  return (attributeOf(role, 'protocolSupportEnumeration') ?? '').split(/\s+/).includes(ns.protocol)
}

function choose(candidates: readonly Entity[], wanted: string | undefined) {
  if (wanted !== undefined) {
    const named = candidates.filter(candidate => candidate.entityId === wanted)
    if (named.length > 1) return refuse('several-idps', `${quote(wanted)} occurs more than once`)
    return (
      named[0] ??
      refuse('unknown-entity', `there is no IdP ${quote(wanted)} in it${listed(candidates)}`)
    )
  }
  if (candidates.length > 1) {
    const problem = `it holds ${candidates.length} IdPs; say which by idpEntityID${listed(candidates)}`
    return refuse('several-idps', problem)
  }
  return candidates[0] ?? refuse('no-idp', 'it holds no identity provider that speaks SAML 2.0')
}

function listed(candidates: readonly Entity[]): string {
  if (candidates.length === 0) return ''
  const names = candidates.slice(0, 5).map(candidate => quote(candidate.entityId))
  return `: ${names.join(', ')}${candidates.length > 5 ? ', …' : ''}`
}

function quote(entityId: string): string {
  return JSON.stringify(entityId.slice(0, 200))
}

function readEntity(entity: Entity): IdpMetadata | ReturnType<typeof refuse> {
  const { entityId, roles } = entity
  // 2.3.2: an entity ID has at most 1024 characters.
  if (entityId === '' || entityId.length > 1024) {
    return refuse('no-entity-id', 'its EntityDescriptor has no usable entityID')
  }
  const warnings: string[] = []
  const singleSignOn = roles.flatMap(role => endpointsOf(role, 'SingleSignOnService', warnings))
  const keys = signingKeys(roles, warnings)
  const details = warnings.length === 0 ? '' : ` (${[...new Set(warnings)].join('; ')})`
  if (singleSignOn.length === 0) {
    return refuse('no-sign-on', `it offers no sign-on by HTTP-Redirect or HTTP-POST${details}`)
  }
  if (keys.length === 0) return refuse('no-key', `it has no usable signing certificate${details}`)
  const dated = [...entity.around, entity.descriptor, ...roles]
  const validUntil = least(dated, 'validUntil', parseInstant)
  const cacheDuration = least(dated, 'cacheDuration', parseDuration)
  if (validUntil === 'malformed') return refuse('dates', 'its validUntil is no xs:dateTime')
  if (cacheDuration === 'malformed') warnings.push('its cacheDuration is no xs:duration')
  return {
    entityId,
    keys,
    singleSignOn: inOrder(singleSignOn),
    singleLogout: inOrder(
      roles.flatMap(role => endpointsOf(role, 'SingleLogoutService', warnings)),
    ),
    wantAuthnRequestsSigned: roles.some(role =>
      ['true', '1'].includes((attributeOf(role, 'WantAuthnRequestsSigned') ?? '').trim()),
    ),
    nameIdFormats: roles.flatMap(role =>
      childrenOf(role, ns.metadata, 'NameIDFormat').map(format => format.text.trim()),
    ),
    validUntil,
    cacheDuration: cacheDuration === 'malformed' ? undefined : cacheDuration,
    warnings: [...new Set(warnings)],
  }
}

/** Keys whose use is signing or not said, which means both (2.4.1.1). */
function signingKeys(roles: readonly XmlElement[], warnings: string[]): readonly IdpKey[] {
  const byFingerprint = new Map<string, IdpKey>()
  for (const role of roles) {
    for (const descriptor of childrenOf(role, ns.metadata, 'KeyDescriptor')) {
      const use = attributeOf(descriptor, 'use')
      if (use !== undefined && use !== 'signing') continue
      const { keys, problems } = readKeys(descriptor)
      warnings.push(...problems)
      for (const key of keys) byFingerprint.set(key.fingerprint, key)
    }
  }
  return [...byFingerprint.values()]
}

function endpointsOf(role: XmlElement, name: string, warnings: string[]): readonly Endpoint[] {
  const endpoints: Endpoint[] = []
  for (const element of childrenOf(role, ns.metadata, name)) {
    const uri = attributeOf(element, 'Binding')
    const binding =
      uri === bindings.redirect ? 'redirect' : uri === bindings.post ? 'post' : undefined
    if (binding === undefined) continue
    const location = httpUri(attributeOf(element, 'Location'))
    const given = attributeOf(element, 'ResponseLocation')
    const responseLocation = given === undefined ? undefined : httpUri(given)
    if (location === undefined || (given !== undefined && responseLocation === undefined)) {
      warnings.push(`a ${name} has a location that is no http or https URI`)
      continue
    }
    if (location.startsWith('http:')) warnings.push(`a ${name} is reached without TLS`)
    endpoints.push({ binding, location, responseLocation })
  }
  return endpoints
}

/** Scripts and files have no business in a Location, whoever wrote it: browsers are sent there. */
function httpUri(text: string | undefined): string | undefined {
  const trimmed = text?.trim()
  return trimmed === undefined || 'problem' in parseUri(trimmed) ? undefined : trimmed
}

function inOrder(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const by = (binding: Binding) => endpoints.filter(endpoint => endpoint.binding === binding)
  return [...by('redirect'), ...by('post')]
}

function least(
  elements: readonly XmlElement[],
  name: string,
  parse: (text: string) => number | undefined,
): number | undefined | 'malformed' {
  let found: number | undefined
  for (const element of elements) {
    const text = attributeOf(element, name)
    if (text === undefined) continue
    const value = parse(text)
    if (value === undefined) return 'malformed'
    if (found === undefined || value < found) found = value
  }
  return found
}

function refuse(because: MetadataReason, problem: string) {
  return { ok: false, because, problem } as const
}
