/**
 * The service providers a development IdP accepts: gateways on this machine, or at hosts it was given. The addresses of a
 * gateway follow from its entity ID, so it need not be registered. Pure.
 */

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
  if (!isLocal(url.hostname) && !hosts.includes(url.hostname)) {
    return `${url.hostname} is not on this machine; start the development IdP with --for ${url.hostname} to accept it`
  }
  return { entityId, acs: `${url.origin}/saml/acs`, slo: `${url.origin}/saml/slo` }
}

function isLocal(host: string): boolean {
  if (/^127\.\d+\.\d+\.\d+$/.test(host) || host === '[::1]' || host === 'localhost') return true
  return /\.(?:localhost|test|example)$/.test(host)
}
