/**
 * Writes Responses of a development IdP, signed and encrypted (saml-core-2.0-os). They can be correct, or wrong to show how the
 * gateway refuses them. Every value can be set, so that tests write forged ones with the same code.
 */
import { hour, type Milliseconds } from '../../lib/async/clock.ts'
import { type SigningKey, type SigningOptions, signElement } from '../../lib/saml/signature/sign.ts'
import { bearer, ns, status } from '../../lib/saml/xml/vocabulary.ts'
import { escapeXml } from '../../lib/saml/xml/xml.ts'
import { encryptElement } from './encrypt.ts'
import type { DevAttribute, DevProfile } from './profile.ts'

export interface AssertionValues {
  readonly id: string
  readonly issuer: string
  readonly issued: Milliseconds
  readonly nameId: { readonly value: string; readonly format: string } | undefined
  readonly recipient: string
  readonly inResponseTo: string | undefined
  readonly audience: string
  readonly notBefore: Milliseconds
  readonly notOnOrAfter: Milliseconds
  readonly authenticated: Milliseconds
  /** AuthnContextClassRef, when it is not that of a password. */
  readonly context?: string | undefined
  readonly sessionIndex: string
  readonly sessionNotOnOrAfter?: Milliseconds
  readonly attributes: readonly DevAttribute[]
  readonly method?: string
  readonly version?: string
  /** More children of Conditions, as XML. */
  readonly conditions?: string
  /** XML instead of the NameID. */
  readonly nameIdXml?: string
  /** XML instead of the attributes. */
  readonly attributesXml?: string
}

export interface ResponseValues {
  readonly id: string
  readonly issuer: string
  readonly issued: Milliseconds
  readonly destination: string | undefined
  readonly inResponseTo: string | undefined
  readonly status?: string
  /** A status below it (saml-core-2.0-os section 3.2.2.2). */
  readonly innerStatus?: string
}

const PASSWORD = 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport'
const instant = (moment: Milliseconds) => new Date(moment).toISOString()

/** An XML attribute with its leading space; empty when there is no value. */
export function attribute(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` ${name}="${escapeXml(value)}"`
}

/** An Assertion, not yet signed. */
export function assertionXml(values: AssertionValues): string {
  const { nameId, attributes, sessionNotOnOrAfter: ends } = values
  const name = values.nameIdXml ?? (nameId === undefined ? '' : nameIdXml(nameId))
  const items = values.attributesXml ?? attributes.map(each => attributeXml(each)).join('')
  const statement =
    items === '' ? '' : `<saml:AttributeStatement>${items}</saml:AttributeStatement>`
  return (
    `<saml:Assertion xmlns:saml="${ns.assertion}" ID="${values.id}"` +
    ` Version="${values.version ?? '2.0'}" IssueInstant="${instant(values.issued)}">` +
    `<saml:Issuer>${escapeXml(values.issuer)}</saml:Issuer><saml:Subject>${name}` +
    `<saml:SubjectConfirmation Method="${values.method ?? bearer}"><saml:SubjectConfirmationData` +
    attribute('InResponseTo', values.inResponseTo) +
    attribute('Recipient', values.recipient) +
    ` NotOnOrAfter="${instant(values.notOnOrAfter)}"/></saml:SubjectConfirmation></saml:Subject>` +
    `<saml:Conditions NotBefore="${instant(values.notBefore)}"` +
    ` NotOnOrAfter="${instant(values.notOnOrAfter)}"><saml:AudienceRestriction>` +
    `<saml:Audience>${escapeXml(values.audience)}</saml:Audience></saml:AudienceRestriction>` +
    `${values.conditions ?? ''}</saml:Conditions>` +
    `<saml:AuthnStatement AuthnInstant="${instant(values.authenticated)}"` +
    attribute('SessionIndex', values.sessionIndex) +
    attribute('SessionNotOnOrAfter', ends === undefined ? undefined : instant(ends)) +
    '><saml:AuthnContext><saml:AuthnContextClassRef>' +
    escapeXml(values.context ?? PASSWORD) +
    `</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>${statement}` +
    '</saml:Assertion>'
  )
}

/** A NameID; `more` goes into its tag, such as namespaces of one that stands alone. */
function nameIdXml({ value, format }: { value: string; format: string }, more = ''): string {
  return `<saml:NameID${more}${attribute('Format', format)}>${escapeXml(value)}</saml:NameID>`
}

function attributeXml({ name, friendlyName, format, values }: DevAttribute, more = ''): string {
  const xsi = 'http://www.w3.org/2001/XMLSchema-instance'
  const xs = 'http://www.w3.org/2001/XMLSchema'
  const all = values.map(
    value =>
      `<saml:AttributeValue xmlns:xsi="${xsi}" xmlns:xs="${xs}" xsi:type="xs:string">${escapeXml(value)}</saml:AttributeValue>`,
  )
  const names =
    attribute('Name', name) +
    attribute('FriendlyName', friendlyName) +
    attribute('NameFormat', format)
  return `<saml:Attribute${more}${names}>${all.join('')}</saml:Attribute>`
}

/** The values with name and attributes encrypted one by one, as they go into an assertion before it is signed. */
function inParts(
  values: AssertionValues,
  to: Parameters<typeof encryptElement>[2],
): AssertionValues {
  const alone = ` xmlns:saml="${ns.assertion}"`
  const { nameId, attributes } = values
  const each = attributes.map(one =>
    encryptElement('EncryptedAttribute', attributeXml(one, alone), to),
  )
  const name =
    nameId === undefined ? '' : encryptElement('EncryptedID', nameIdXml(nameId, alone), to)
  return { nameIdXml: name, attributesXml: each.join(''), ...values }
}

function statusXml(value: string, inner: string | undefined): string {
  const within = inner === undefined ? '' : statusXml(inner, undefined)
  const name = `samlp:StatusCode Value="${value}"`
  return within === '' ? `<${name}/>` : `<${name}>${within}</samlp:StatusCode>`
}

/** A Response around an assertion, or without one, not yet signed. */
export function responseXml(values: ResponseValues, assertion: string): string {
  return (
    `<samlp:Response xmlns:samlp="${ns.protocol}" ID="${values.id}"` +
    ` Version="2.0" IssueInstant="${instant(values.issued)}"` +
    attribute('Destination', values.destination) +
    attribute('InResponseTo', values.inResponseTo) +
    `><saml:Issuer xmlns:saml="${ns.assertion}">${escapeXml(values.issuer)}</saml:Issuer>` +
    `<samlp:Status>${statusXml(values.status ?? status.success, values.innerStatus)}</samlp:Status>` +
    `${assertion}</samlp:Response>`
  )
}

export interface ResponseOptions {
  readonly response: ResponseValues
  readonly assertion: AssertionValues
  readonly signs: DevProfile['signs'] | 'nothing'
  readonly key: SigningKey
  /** Certificate to encrypt the assertion to. */
  readonly encryptTo?: string
  readonly encryption?: DevProfile['encryption']
  /** Encrypts the NameID and every attribute instead of the assertion. */
  readonly encryptParts?: boolean
  readonly algorithms?: Pick<SigningOptions, 'signatureMethod' | 'digestMethod'>
}

/** A whole Response, signed and encrypted as `writing` says. */
export function writeResponse(writing: ResponseOptions): string {
  const { response, key, signs } = writing
  const options = { key, ...writing.algorithms }
  const { encryptTo, encryptParts = false } = writing
  const methods = writing.encryption ?? { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' }
  const values =
    encryptTo !== undefined && encryptParts
      ? inParts(writing.assertion, { certificate: encryptTo, methods })
      : writing.assertion
  let assertion = assertionXml(values)
  if (signs === 'assertion' || signs === 'both') {
    assertion = signElement(assertion, { ...options, id: writing.assertion.id })
  }
  if (encryptTo !== undefined && !encryptParts) {
    assertion = encryptElement('EncryptedAssertion', assertion, { certificate: encryptTo, methods })
  }
  const whole = responseXml(response, assertion)
  if (signs !== 'response' && signs !== 'both') return whole
  return signElement(whole, { ...options, id: response.id })
}

/** A way to answer: its text on the login page, and how it changes the right response. */
interface Way {
  readonly label: string
  readonly change: (right: ResponseOptions, strangerKey: SigningKey) => ResponseOptions
}

/** In the order of the login page. */
export const responseWays: ReadonlyMap<string, Way> = new Map(
  Object.entries({
    right: { label: 'as it should be', change: right => right },
    unsigned: { label: 'without a signature', change: right => ({ ...right, signs: 'nothing' }) },
    stranger: {
      label: 'signed with a key that is not in the metadata',
      change: (right, key) => ({ ...right, key }),
    },
    early: { label: 'with a clock an hour ahead', change: right => shifted(right, hour) },
    late: { label: 'with a clock an hour behind', change: right => shifted(right, -hour) },
    audience: {
      label: 'for another service',
      change: right => withAssertion(right, { audience: 'https://another.example/saml/metadata' }),
    },
    nameless: {
      label: 'without a name',
      change: right => withAssertion(right, { nameId: undefined, attributes: [] }),
    },
    refused: {
      label: 'a login that failed',
      change: right => ({ ...right, response: { ...right.response, status: status.responder } }),
    },
  } satisfies Record<string, Way>),
)

function withAssertion(
  right: ResponseOptions,
  more: Partial<ResponseOptions['assertion']>,
): ResponseOptions {
  return { ...right, assertion: { ...right.assertion, ...more } }
}

function shifted(right: ResponseOptions, by: Milliseconds): ResponseOptions {
  const { issued, notBefore, notOnOrAfter, authenticated } = right.assertion
  return withAssertion(
    { ...right, response: { ...right.response, issued: issued + by } },
    {
      issued: issued + by,
      notBefore: notBefore + by,
      notOnOrAfter: notOnOrAfter + by,
      authenticated: Math.min(authenticated, issued + by),
    },
  )
}
