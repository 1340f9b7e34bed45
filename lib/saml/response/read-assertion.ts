/**
 * Reads responses and assertions as values, which have not been checked yet: saml-core-2.0-os sections 2.2 to 2.7 and 3.2. The
 * values can be sent between threads.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { NameId, SamlAttribute } from '../subject.ts'
import { parseInstant } from '../xml/instant.ts'
import { nameIdFormats, ns } from '../xml/vocabulary.ts'
import { allNamed, attributeOf, childOf, childrenOf, trimXml, type XmlElement } from '../xml/xml.ts'

/** An instant with its text, so that a malformed instant differs from a missing one. */
export type WrittenInstant = { readonly text: string; readonly moment: Milliseconds | undefined }

/** The attributes and the issuer of every protocol message (3.2.1 and 3.2.2). */
export type MessageHead = Readonly<ReturnType<typeof readHead>>

export interface AssertionFacts extends Readonly<ReturnType<typeof readOrigin>> {
  readonly nameId: NameId | undefined
  readonly confirmations: readonly Confirmation[]
  readonly conditions: ConditionFacts | undefined
  readonly statements: readonly AuthnStatementFacts[]
  readonly attributes: readonly SamlAttribute[]
  /** Names of elements that are still encrypted. */
  readonly unread: readonly string[]
}

export type Confirmation = Readonly<ReturnType<typeof readConfirmation>>
export type AuthnStatementFacts = Readonly<ReturnType<typeof readStatement>>

interface ConditionFacts {
  readonly notBefore: WrittenInstant | undefined
  readonly notOnOrAfter: WrittenInstant | undefined
  /** The audiences of every AudienceRestriction. Every restriction has to be fulfilled, by one of its audiences (2.5.1.4). */
  readonly audiences: ReadonlyArray<readonly string[]>
  /** Conditions that SAML 2.0 does not define. */
  readonly unknown: readonly string[]
}

/** Reads attributes and Issuer of a protocol message. An attacker can write them unless the whole message is `signed`. */
export function readHead(root: XmlElement, signed: boolean) {
  return {
    ...readOrigin(root),
    destination: attributeOf(root, 'Destination'),
    inResponseTo: attributeOf(root, 'InResponseTo'),
    signed,
  }
}

/** Reads an Assertion (2.3.3). */
export function readAssertion(root: XmlElement): AssertionFacts {
  const subject = childOf(root, ns.assertion, 'Subject')
  const conditions = childOf(root, ns.assertion, 'Conditions')
  const unread = allNamed(root, 'EncryptedID', 'EncryptedAttribute').map(({ name }) => name)
  return {
    ...readOrigin(root),
    nameId: readNameId(subject),
    confirmations: childrenOf(subject, ns.assertion, 'SubjectConfirmation').map(readConfirmation),
    conditions: conditions === undefined ? undefined : readConditions(conditions),
    statements: childrenOf(root, ns.assertion, 'AuthnStatement').map(readStatement),
    attributes: childrenOf(root, ns.assertion, 'AttributeStatement').flatMap(statement =>
      childrenOf(statement, ns.assertion, 'Attribute').map(readAttribute),
    ),
    unread: [...new Set(unread)],
  }
}

function readOrigin(root: XmlElement) {
  return {
    id: attributeOf(root, 'ID') ?? '',
    version: attributeOf(root, 'Version') ?? '',
    issuer: issuerOf(root),
    issued: instantOf(root, 'IssueInstant'),
  }
}

/** The text of the Issuer (2.2.5); undefined when its format is not that of an entity ID. */
export function issuerOf(root: XmlElement): string | undefined {
  const [issuer, ...more] = childrenOf(root, ns.assertion, 'Issuer')
  if (issuer === undefined || more.length > 0 || issuer.children.length > 0) return undefined
  const format = attributeOf(issuer, 'Format')
  const usual = format === undefined || ISSUER_FORMATS.includes(format)
  return usual ? trimXml(issuer.text) : undefined
}

const ISSUER_FORMATS = [
  nameIdFormats.entity,
  // The format is wrong here, but some IdPs send it, and it has no other meaning.
  'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified',
]

/** The NameID directly in `parent`; undefined when there is none, or one without text. */
export function readNameId(parent: XmlElement | undefined): NameId | undefined {
  const [nameId, ...more] = childrenOf(parent, ns.assertion, 'NameID')
  if (nameId === undefined || more.length > 0 || nameId.children.length > 0) return undefined
  if (trimXml(nameId.text) === '') return undefined
  return {
    value: nameId.text,
    format: attributeOf(nameId, 'Format'),
    nameQualifier: attributeOf(nameId, 'NameQualifier'),
    spNameQualifier: attributeOf(nameId, 'SPNameQualifier'),
  }
}

export function instantOf(
  element: XmlElement | undefined,
  name: string,
): WrittenInstant | undefined {
  const text = attributeOf(element, name)
  return text === undefined ? undefined : { text: text.slice(0, 64), moment: parseInstant(text) }
}

function readConfirmation(element: XmlElement) {
  const data = childOf(element, ns.assertion, 'SubjectConfirmationData')
  return {
    method: attributeOf(element, 'Method') ?? '',
    recipient: attributeOf(data, 'Recipient'),
    inResponseTo: attributeOf(data, 'InResponseTo'),
    notBefore: instantOf(data, 'NotBefore'),
    notOnOrAfter: instantOf(data, 'NotOnOrAfter'),
  }
}

/** OneTimeUse: no assertion is accepted twice. ProxyRestriction binds issuers of assertions, and we are not one. */
const KNOWN_CONDITIONS = ['AudienceRestriction', 'OneTimeUse', 'ProxyRestriction']

function readConditions(element: XmlElement): ConditionFacts {
  return {
    notBefore: instantOf(element, 'NotBefore'),
    notOnOrAfter: instantOf(element, 'NotOnOrAfter'),
    audiences: childrenOf(element, ns.assertion, 'AudienceRestriction').map(restriction =>
      childrenOf(restriction, ns.assertion, 'Audience').map(audience => trimXml(audience.text)),
    ),
    unknown: element.children
      .filter(child => child.namespace !== ns.assertion || !KNOWN_CONDITIONS.includes(child.name))
      .map(child => child.name),
  }
}

function readStatement(element: XmlElement) {
  const context = childOf(element, ns.assertion, 'AuthnContext')
  const contextClass = childOf(context, ns.assertion, 'AuthnContextClassRef')
  return {
    instant: instantOf(element, 'AuthnInstant'),
    sessionIndex: attributeOf(element, 'SessionIndex'),
    sessionNotOnOrAfter: instantOf(element, 'SessionNotOnOrAfter'),
    contextClass: contextClass && trimXml(contextClass.text),
  }
}

function readAttribute(element: XmlElement): SamlAttribute {
  return {
    name: attributeOf(element, 'Name') ?? '',
    friendlyName: attributeOf(element, 'FriendlyName'),
    values: childrenOf(element, ns.assertion, 'AttributeValue').map(wholeText),
  }
}

/** The text of a value, which may be inside a NameID, as in eduPersonTargetedID. */
function wholeText({ text, children: [child, ...more] }: XmlElement): string {
  const around = child !== undefined && more.length === 0 && trimXml(text) === ''
  return around ? child.text : text
}
