/**
 * Logout messages as text, saml-core-2.0-os section 3.7. Not signed: that depends on the binding.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { formatInstant } from '../core/instant.ts'
import type { NameId } from '../core/subject.ts'
import { ns } from '../core/vocabulary.ts'
import { escapeXml } from '../core/xml.ts'

interface Common {
  readonly id: string
  readonly issuer: string
  readonly issued: Milliseconds
  readonly destination: string
}

/** A LogoutRequest (3.7.1) that names the person exactly as the assertion did. */
export function logoutRequestXml(
  values: Common & {
    readonly nameId: NameId
    readonly sessionIndex: string | undefined
    readonly notOnOrAfter?: Milliseconds
  },
): string {
  const { nameId, sessionIndex, notOnOrAfter } = values
  const index =
    sessionIndex === undefined
      ? ''
      : `<samlp:SessionIndex>${escapeXml(sessionIndex)}</samlp:SessionIndex>`
  const end = notOnOrAfter === undefined ? undefined : formatInstant(notOnOrAfter)
  return (
    `<samlp:LogoutRequest${head(values)}${attribute('NotOnOrAfter', end)}>${issuer(values)}` +
    `<saml:NameID xmlns:saml="${ns.assertion}"${attribute('Format', nameId.format)}` +
    `${attribute('NameQualifier', nameId.nameQualifier)}` +
    `${attribute('SPNameQualifier', nameId.spNameQualifier)}>${escapeXml(nameId.value)}</saml:NameID>` +
    `${index}</samlp:LogoutRequest>`
  )
}

/** A LogoutResponse (3.7.2). */
export function logoutResponseXml(
  values: Common & { readonly inResponseTo: string; readonly status: string },
): string {
  return (
    `<samlp:LogoutResponse${head(values)}${attribute('InResponseTo', values.inResponseTo)}>` +
    `${issuer(values)}<samlp:Status><samlp:StatusCode Value="${escapeXml(values.status)}"/></samlp:Status>` +
    '</samlp:LogoutResponse>'
  )
}

function head({ id, issued, destination }: Common): string {
  return (
    ` xmlns:samlp="${ns.protocol}" ID="${id}" Version="2.0"` +
    ` IssueInstant="${formatInstant(issued)}"${attribute('Destination', destination)}`
  )
}

function issuer(values: Common): string {
  return `<saml:Issuer xmlns:saml="${ns.assertion}">${escapeXml(values.issuer)}</saml:Issuer>`
}

function attribute(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` ${name}="${escapeXml(value)}"`
}
