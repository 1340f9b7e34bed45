/**
 * The hosts certificates are made for: which text is a name at all, which names are this proxy's own, and which hosts a CA of
 * our making is limited to.
 */
import { isIP } from 'node:net'
import type { Permitted } from '../../x509/x509.ts'
import type { Config } from '../config/config.ts'
import { ownIdentity } from '../policy/hosts.ts'

/**
 * Whether a certificate may name this host: an IP address, or a name of letters, digits and hyphens (RFC 952, RFC 1123 section
 * 2.1) that cannot be read as an address. Wildcards and underscores are not such names.
 */
export function isCertifiable(host: string): boolean {
  if (isIP(host) !== 0) return true
  const labels = host.split('.')
  const right = labels.every(label => /^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(label))
  return right && host.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '')
}

/**
 * The names and addresses of the TLS listener's certificate: what this proxy is called, `localhost` and loopback. The first is
 * its main name. Only what certificates may name.
 */
export function listenerNames(config: Config): readonly [string, ...string[]] {
  const { names, addresses } = ownIdentity(config, [])
  const { certificateDomain } = config.https
  const main = certificateDomain === undefined ? [] : [certificateDomain]
  const all = [...main, ...names, 'localhost', '127.0.0.1', '::1', ...addresses]
  const [first = 'localhost', ...rest] = new Set(all.filter(isCertifiable))
  return [first, ...rest]
}

/** Hosts a CA of our making may issue for: those whose tunnels may be intercepted, and our own. */
export function permittedHosts(config: Config): Permitted {
  const listed = [...config.domains, ...config.https.interceptDomains].map(({ host }) => host)
  const all = [...new Set([...listed, ...listenerNames(config)])]
  return {
    names: all.filter(host => isIP(host) === 0),
    networks: all
      .filter(host => isIP(host) !== 0)
      .map(host => `${host}/${host.includes(':') ? 128 : 32}`),
  }
}
