/**
 * Writes requests and logout responses as XML, saml-core-2.0-os sections 3.4.1 and 3.7. Signing is left to the binding. Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { NameId } from '../subject.ts'
import { formatInstant } from '../xml/instant.ts'
import { bindings, ns } from '../xml/vocabulary.ts'
import { escapeXml } from '../xml/xml.ts'

interface MessageValues {
  readonly id: string
  readonly issuer: string
  readonly issued: Milliseconds
  /** The location of the endpoint the message is sent to. */
  readonly destination: string
}

/** The content of an AuthnRequest. */
export interface AskedLogin {
  readonly acsUrl: string
  /** The URI of the format; undefined asks for none. */
  readonly nameIdFormat: string | undefined
  readonly forceAuthn: boolean
  readonly authnContext: readonly string[]
  readonly authnContextComparison: string
}

/** A request for an answer by HTTP-POST at our ACS (3.4.1). With `isPassive` the IdP must not show anything to the person. */
export function authnRequestXml(
  values: MessageValues & { readonly isPassive: boolean },
  asked: AskedLogin,
): string {
  const { acsUrl, nameIdFormat, forceAuthn, authnContext, authnContextComparison } = asked
  const more = {
    ForceAuthn: forceAuthn ? 'true' : undefined,
    IsPassive: values.isPassive ? 'true' : undefined,
    ProtocolBinding: bindings.post,
    AssertionConsumerServiceURL: acsUrl,
  }
  // Without a format the element only states the default, and AD FS refuses it.
  const policy =
    nameIdFormat === undefined
      ? ''
      : `<samlp:NameIDPolicy${attributes({ Format: nameIdFormat, AllowCreate: 'true' })}/>`
  // 3.3.2.2.1. A context is requested only when the settings name one, because IdPs refuse people who log in another way
  // (AADSTS75011).
  const classes = authnContext.map(context => assertionElement('AuthnContextClassRef', context))
  const comparison = attributes({ Comparison: authnContextComparison })
  const context =
    classes.length === 0
      ? ''
      : `<samlp:RequestedAuthnContext${comparison}>${classes.join('')}</samlp:RequestedAuthnContext>`
  return message('AuthnRequest', { values, more }, policy + context)
}

/** A LogoutRequest (3.7.1) that names the person exactly as the assertion did. */
export function logoutRequestXml(
  values: MessageValues & {
    readonly nameId: NameId
    readonly sessionIndex: string | undefined
    readonly notOnOrAfter?: Milliseconds
  },
): string {
  const { nameId, sessionIndex, notOnOrAfter } = values
  const name = assertionElement('NameID', nameId.value, {
    Format: nameId.format,
    NameQualifier: nameId.nameQualifier,
    SPNameQualifier: nameId.spNameQualifier,
  })
  const index =
    sessionIndex === undefined
      ? ''
      : `<samlp:SessionIndex>${escapeXml(sessionIndex)}</samlp:SessionIndex>`
  const end = notOnOrAfter === undefined ? undefined : formatInstant(notOnOrAfter)
  return message('LogoutRequest', { values, more: { NotOnOrAfter: end } }, name + index)
}

/** A LogoutResponse (3.7.2). */
export function logoutResponseXml(
  values: MessageValues & { readonly inResponseTo: string; readonly status: string },
): string {
  const status = `<samlp:Status><samlp:StatusCode${attributes({ Value: values.status })}/></samlp:Status>`
  return message('LogoutResponse', { values, more: { InResponseTo: values.inResponseTo } }, status)
}

type Attributes = Readonly<Record<string, string | undefined>>

function message(
  name: string,
  { values, more }: { readonly values: MessageValues; readonly more: Attributes },
  content: string,
): string {
  const { id, issuer, issued, destination } = values
  const head = { ID: id, Version: '2.0', IssueInstant: formatInstant(issued), ...more }
  return (
    `<samlp:${name} xmlns:samlp="${ns.protocol}"${attributes({ ...head, Destination: destination })}>` +
    `${assertionElement('Issuer', issuer)}${content}</samlp:${name}>`
  )
}

function assertionElement(name: string, text: string, more: Attributes = {}): string {
  const start = `<saml:${name} xmlns:saml="${ns.assertion}"${attributes(more)}>`
  return `${start}${escapeXml(text)}</saml:${name}>`
}

function attributes(values: Attributes): string {
  return Object.entries(values)
    .map(([name, value]) => (value === undefined ? '' : ` ${name}="${escapeXml(value)}"`))
    .join('')
}
