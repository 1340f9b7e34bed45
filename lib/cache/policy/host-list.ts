/**
 * Host lists of the configuration: finds the patterns that cover a host. Whole labels are compared, in any case. Pure.
 */
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import type { HostPattern } from '../config/config.ts'

/** Patterns by the host they name; those with a leading dot apart. */
export interface HostList {
  readonly exact: ReadonlyMap<string, readonly HostPattern[]>
  readonly below: ReadonlyMap<string, readonly HostPattern[]>
}

/** Made once for each configuration. */
export function hostList(patterns: readonly HostPattern[]): HostList {
  return {
    exact: byHost(patterns.filter(pattern => !pattern.subdomains)),
    below: byHost(patterns.filter(pattern => pattern.subdomains)),
  }
}

/** Of the patterns of one host those with a port come first. */
function byHost(patterns: readonly HostPattern[]): ReadonlyMap<string, readonly HostPattern[]> {
  const found = new Map<string, readonly HostPattern[]>()
  const ported = patterns.filter(({ port }) => port !== undefined)
  for (const pattern of [...ported, ...patterns.filter(({ port }) => port === undefined)]) {
    const host = normaliseAddress(pattern.host) ?? pattern.host.toLowerCase()
    found.set(host, [...(found.get(host) ?? []), pattern])
  }
  return found
}

/** The patterns that cover a host at any port, the closest first. Addresses have no subdomains. */
export function matching(list: HostList, host: string): readonly HostPattern[] {
  const address = normaliseAddress(host)
  if (address !== undefined) return list.exact.get(address) ?? []
  const found = [...(list.exact.get(host) ?? [])]
  for (let rest = host; ; rest = rest.slice(rest.indexOf('.') + 1)) {
    found.push(...(list.below.get(rest) ?? []))
    if (!rest.includes('.')) return found
  }
}

/** The closest pattern that covers a host at its port; one with a port before one without. */
export function closestPattern(list: HostList, { host, port }: Authority): HostPattern | undefined {
  return matching(list, host).find(one => one.port === undefined || one.port === port)
}
