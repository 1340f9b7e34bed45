/**
 * Names and addresses certificates are made for: which text is a name at all, which names are this proxy's own, and what a CA
 * of our making is limited to.
 */
import { isIP } from 'node:net'
import type { Permitted } from '../../x509/x509.ts'
import type { Config } from '../config/config.ts'
import { ownIdentity } from '../request/machine-names.ts'

/**
 * Whether a certificate may name this host: an IP address, or a name of letters, digits and hyphens (RFC 952, RFC 1123 section
 * 2.1) that is no address in disguise. Wildcards and underscores are not.
 */
export function isCertifiable(host: string): boolean {
  if (isIP(host) !== 0) return true
  const labels = host.split('.')
  const right = labels.every(label => /^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(label))
  return right && host.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '')
}

/** What this proxy is called, and `localhost` and loopback; the first is its main name. Only what certificates may name. */
export function ownNames(config: Config): readonly [string, ...string[]] {
  const { names, addresses } = ownIdentity(config, [])
  const { certificateDomain } = config.https
  const [first, ...rest] = new Set(
    [
      ...(certificateDomain === undefined ? [] : [certificateDomain]),
      ...names,
      'localhost',
      '127.0.0.1',
      '::1',
      ...addresses,
    ].filter(isCertifiable),
  )
  return [first ?? 'localhost', ...rest]
}

/** Hosts a CA of our making may issue for: those whose tunnels may be opened, and our own. */
export function ownPermitted(config: Config): Permitted {
  const hosts = [
    ...config.domains.map(({ host }) => host),
    ...config.https.interceptDomains.map(({ host }) => host),
    ...ownNames(config),
  ]
  const all = [...new Set(hosts)]
  return {
    names: all.filter(host => isIP(host) === 0),
    networks: all
      .filter(host => isIP(host) !== 0)
      .map(host => `${host}/${host.includes(':') ? 128 : 32}`),
  }
}
