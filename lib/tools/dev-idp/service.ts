/**
 * Which service providers a development IdP speaks to: gateways of ours on this machine, or at hosts it was told. Where they
 * take responses follows from their entity ID, so nothing has to be registered. Pure.
 */

export interface ServiceProvider {
  readonly entityId: string
  readonly acs: string
  readonly slo: string
}

const SUFFIX = '/saml/metadata'

/**
 * The gateway of this entity ID, or a sentence that says why there is none. Names that only ever mean this machine or
 * nothing (RFC 2606, RFC 6761) are taken, and those of `hosts`.
 */
export function serviceOf(entityId: string, hosts: readonly string[]): ServiceProvider | string {
  let url: URL
  try {
    url = new URL(entityId)
  } catch {
    return `${JSON.stringify(entityId.slice(0, 200))} is no entity ID of a gateway`
  }
  if (!['https:', 'http:'].includes(url.protocol) || url.pathname !== SUFFIX || url.search !== '') {
    return `an entity ID of a gateway ends in ${SUFFIX}; this one is ${entityId.slice(0, 200)}`
  }
  if (!isLocal(url.hostname) && !hosts.includes(url.hostname)) {
    return `${url.hostname} is not on this machine; start the development IdP with --for ${url.hostname} if it is meant`
  }
  return { entityId, acs: `${url.origin}/saml/acs`, slo: `${url.origin}/saml/slo` }
}

function isLocal(host: string): boolean {
  if (/^127\.\d+\.\d+\.\d+$/.test(host) || host === '[::1]' || host === 'localhost') return true
  return /\.(?:localhost|test|example)$/.test(host)
}
