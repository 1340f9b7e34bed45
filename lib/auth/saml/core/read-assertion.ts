/**
 * Responses and assertions as values: what stands in the XML, unjudged. saml-core-2.0-os sections 2.3, 2.4, 2.5, 2.7 and 3.2.2.
 * Everything here survives the way between threads.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { parseInstant } from './instant.ts'
import type { NameId, SamlAttribute } from './subject.ts'
import { ns } from './vocabulary.ts'
import { allElements, attributeOf, childOf, childrenOf, type XmlElement } from './xml.ts'

/** An instant as it was written, so that a malformed one can be told from one that is not there. */
export type WrittenInstant = { readonly text: string; readonly moment: Milliseconds | undefined }

export interface ResponseFacts {
  readonly id: string
  readonly version: string
  readonly issuer: string | undefined
  readonly destination: string | undefined
  readonly inResponseTo: string | undefined
  readonly issued: WrittenInstant | undefined
  /** Whether the response as a whole is signed; else all of this is the word of whoever posted it. */
  readonly signed: boolean
}

export interface Confirmation {
  readonly method: string
  readonly recipient: string | undefined
  readonly inResponseTo: string | undefined
  readonly notBefore: WrittenInstant | undefined
  readonly notOnOrAfter: WrittenInstant | undefined
}

export interface AssertionFacts {
  readonly id: string
  readonly version: string
  readonly issuer: string | undefined
  readonly issued: WrittenInstant | undefined
  readonly nameId: NameId | undefined
  readonly confirmations: readonly Confirmation[]
  readonly conditions: ConditionFacts | undefined
  readonly statements: readonly AuthnStatementFacts[]
  readonly attributes: readonly SamlAttribute[]
  /** Elements we cannot read because they are encrypted on their own, by name. */
  readonly unread: readonly string[]
}

export interface ConditionFacts {
  readonly notBefore: WrittenInstant | undefined
  readonly notOnOrAfter: WrittenInstant | undefined
  /** The audiences of every AudienceRestriction: all restrictions hold, one audience of each is enough (2.5.1.4). */
  readonly audiences: ReadonlyArray<readonly string[]>
  /** Conditions that nobody here knows the meaning of. */
  readonly unknown: readonly string[]
}

export interface AuthnStatementFacts {
  readonly instant: WrittenInstant | undefined
  readonly sessionIndex: string | undefined
  readonly sessionNotOnOrAfter: WrittenInstant | undefined
  readonly contextClass: string | undefined
}

/** Reads the attributes of a Response (3.2.2). */
export function readResponse(root: XmlElement, signed: boolean): ResponseFacts {
  return {
    id: attributeOf(root, 'ID') ?? '',
    version: attributeOf(root, 'Version') ?? '',
    issuer: issuerOf(root),
    destination: attributeOf(root, 'Destination'),
    inResponseTo: attributeOf(root, 'InResponseTo'),
    issued: instantOf(root, 'IssueInstant'),
    signed,
  }
}

/** Reads an Assertion (2.3.3). */
export function readAssertion(root: XmlElement): AssertionFacts {
  const subject = childOf(root, ns.assertion, 'Subject')
  const conditions = childOf(root, ns.assertion, 'Conditions')
  const unread = [...allElements(root)]
    .map(element => element.name)
    .filter(name => name === 'EncryptedID' || name === 'EncryptedAttribute')
  return {
    id: attributeOf(root, 'ID') ?? '',
    version: attributeOf(root, 'Version') ?? '',
    issuer: issuerOf(root),
    issued: instantOf(root, 'IssueInstant'),
    nameId: subject === undefined ? undefined : readNameId(subject),
    confirmations:
      subject === undefined
        ? []
        : childrenOf(subject, ns.assertion, 'SubjectConfirmation').map(readConfirmation),
    conditions: conditions === undefined ? undefined : readConditions(conditions),
    statements: childrenOf(root, ns.assertion, 'AuthnStatement').map(readStatement),
    attributes: childrenOf(root, ns.assertion, 'AttributeStatement').flatMap(statement =>
      childrenOf(statement, ns.assertion, 'Attribute').map(readAttribute),
    ),
    unread: [...new Set(unread)],
  }
}

/** The text of the Issuer (2.2.5); one with another format than that of an entity ID is none. */
export function issuerOf(root: XmlElement): string | undefined {
  const issuers = childrenOf(root, ns.assertion, 'Issuer')
  const [issuer] = issuers
  if (issuer === undefined || issuers.length !== 1 || issuer.children.length > 0) return undefined
  const format = attributeOf(issuer, 'Format')
  const usual = format === undefined || ISSUER_FORMATS.includes(format)
  return usual ? issuer.text.trim() : undefined
}

const ISSUER_FORMATS = [
  'urn:oasis:names:tc:SAML:2.0:nameid-format:entity',
  // Wrong, but some send it, and it adds nothing.
  'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified',
]

/** The NameID that stands directly in `parent`; undefined when there is none, or one without text. */
export function readNameId(parent: XmlElement): NameId | undefined {
  const nameIds = childrenOf(parent, ns.assertion, 'NameID')
  const [nameId] = nameIds
  if (nameId === undefined || nameIds.length !== 1 || nameId.children.length > 0) return undefined
  if (nameId.text.trim() === '') return undefined
  return {
    value: nameId.text,
    format: attributeOf(nameId, 'Format'),
    nameQualifier: attributeOf(nameId, 'NameQualifier'),
    spNameQualifier: attributeOf(nameId, 'SPNameQualifier'),
  }
}

export function instantOf(element: XmlElement, name: string): WrittenInstant | undefined {
  const text = attributeOf(element, name)
  return text === undefined ? undefined : { text: text.slice(0, 64), moment: parseInstant(text) }
}

function readConfirmation(element: XmlElement): Confirmation {
  const data = childOf(element, ns.assertion, 'SubjectConfirmationData')
  const of = (name: string) => (data === undefined ? undefined : attributeOf(data, name))
  return {
    method: attributeOf(element, 'Method') ?? '',
    recipient: of('Recipient'),
    inResponseTo: of('InResponseTo'),
    notBefore: data === undefined ? undefined : instantOf(data, 'NotBefore'),
    notOnOrAfter: data === undefined ? undefined : instantOf(data, 'NotOnOrAfter'),
  }
}

/** OneTimeUse is kept by all, since no assertion is taken twice; ProxyRestriction binds issuers of assertions, which we are not. */
const KNOWN_CONDITIONS = ['AudienceRestriction', 'OneTimeUse', 'ProxyRestriction']

function readConditions(element: XmlElement): ConditionFacts {
  return {
    notBefore: instantOf(element, 'NotBefore'),
    notOnOrAfter: instantOf(element, 'NotOnOrAfter'),
    audiences: childrenOf(element, ns.assertion, 'AudienceRestriction').map(restriction =>
      childrenOf(restriction, ns.assertion, 'Audience').map(audience => audience.text.trim()),
    ),
    unknown: element.children
      .filter(child => child.namespace !== ns.assertion || !KNOWN_CONDITIONS.includes(child.name))
      .map(child => child.name),
  }
}

function readStatement(element: XmlElement): AuthnStatementFacts {
  const context = childOf(element, ns.assertion, 'AuthnContext')
  const contextClass =
    context === undefined ? undefined : childOf(context, ns.assertion, 'AuthnContextClassRef')
  return {
    instant: instantOf(element, 'AuthnInstant'),
    sessionIndex: attributeOf(element, 'SessionIndex'),
    sessionNotOnOrAfter: instantOf(element, 'SessionNotOnOrAfter'),
    contextClass: contextClass?.text.trim(),
  }
}

function readAttribute(element: XmlElement): SamlAttribute {
  return {
    name: attributeOf(element, 'Name') ?? '',
    friendlyName: attributeOf(element, 'FriendlyName'),
    values: childrenOf(element, ns.assertion, 'AttributeValue').map(wholeText),
  }
}

/** A value is text, or, as in eduPersonTargetedID, a NameID around it. */
function wholeText(element: XmlElement): string {
  return element.text.trim() === '' && element.children.length === 1
    ? (element.children[0]?.text ?? '')
    : element.text
}
