/**
 * AuthnRequest as text, saml-core-2.0-os section 3.4.1. Not signed: that depends on the binding. Pure.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { SamlConfig } from '../../config/config.ts'
import { formatInstant } from '../core/instant.ts'
import { bindings, ns } from '../core/vocabulary.ts'
import { escapeXml } from '../core/xml.ts'

export interface AuthnRequestValues {
  readonly id: string
  readonly issued: Milliseconds
  /** Location of the IdP's endpoint. */
  readonly destination: string
}

/** A request for an answer by HTTP-POST at our ACS. */
export function authnRequestXml(
  values: AuthnRequestValues,
  config: Pick<
    SamlConfig,
    | 'entityId'
    | 'acsUrl'
    | 'nameIdFormat'
    | 'forceAuthn'
    | 'authnContext'
    | 'authnContextComparison'
  >,
): string {
  const { id, issued, destination } = values
  const { entityId, acsUrl, nameIdFormat, forceAuthn } = config
  const format = nameIdFormat === undefined ? '' : ` Format="${escapeXml(nameIdFormat)}"`
  return (
    `<samlp:AuthnRequest xmlns:samlp="${ns.protocol}" ID="${id}" Version="2.0"` +
    ` IssueInstant="${formatInstant(issued)}" Destination="${escapeXml(destination)}"` +
    `${forceAuthn ? ' ForceAuthn="true"' : ''} ProtocolBinding="${bindings.post}"` +
    ` AssertionConsumerServiceURL="${escapeXml(acsUrl)}">` +
    `<saml:Issuer xmlns:saml="${ns.assertion}">${escapeXml(entityId)}</saml:Issuer>` +
    // Without a format the element says what is the default anyway, and AD FS takes offence at it.
    (format === '' ? '' : `<samlp:NameIDPolicy${format} AllowCreate="true"/>`) +
    `${requestedContext(config)}</samlp:AuthnRequest>`
  )
}

/** 3.3.2.2.1. Off unless asked for: IdPs refuse those whose people log in by another way (AADSTS75011). */
function requestedContext({
  authnContext,
  authnContextComparison,
}: Pick<SamlConfig, 'authnContext' | 'authnContextComparison'>): string {
  if (authnContext.length === 0) return ''
  const classes = authnContext.map(
    context =>
      `<saml:AuthnContextClassRef xmlns:saml="${ns.assertion}">${escapeXml(context)}</saml:AuthnContextClassRef>`,
  )
  return `<samlp:RequestedAuthnContext Comparison="${authnContextComparison}">${classes.join('')}</samlp:RequestedAuthnContext>`
}
