/**
 * Host lists, and the hosts that are this proxy itself. A pattern covers a host by whole labels, in any case. By its own names,
 * addresses and ports the proxy knows its own pages, and requests that lead back to it.
 */

import { hostname, networkInterfaces } from 'node:os'
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { HostPattern } from '../config/setting-kinds.ts'

/** Patterns by the host they name; those with a leading dot apart. */
export interface HostList<Pattern extends HostPattern = HostPattern> {
  readonly exact: ReadonlyMap<string, readonly Pattern[]>
  readonly below: ReadonlyMap<string, readonly Pattern[]>
}

/** Made once for each configuration. */
export function hostList<Pattern extends HostPattern>(
  patterns: readonly Pattern[],
): HostList<Pattern> {
  return {
    exact: byHost(patterns.filter(pattern => !pattern.subdomains)),
    below: byHost(patterns.filter(pattern => pattern.subdomains)),
  }
}

/** Groups patterns by host. Within a host those with a port come first, the others follow in their own order. */
function byHost<Pattern extends HostPattern>(
  patterns: readonly Pattern[],
): ReadonlyMap<string, readonly Pattern[]> {
  const found = new Map<string, readonly Pattern[]>()
  const ported = patterns.filter(({ port }) => port !== undefined)
  for (const pattern of [...ported, ...patterns.filter(({ port }) => port === undefined)]) {
    const host = normaliseAddress(pattern.host) ?? pattern.host.toLowerCase()
    found.set(host, [...(found.get(host) ?? []), pattern])
  }
  return found
}

/** The patterns that cover a host at any port, the closest first. Addresses have no subdomains. */
export function patternsFor<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  host: string,
): readonly Pattern[] {
  const address = normaliseAddress(host)
  if (address !== undefined) return list.exact.get(address) ?? []
  const found = [...(list.exact.get(host) ?? [])]
  for (let rest = host; ; rest = rest.slice(rest.indexOf('.') + 1)) {
    found.push(...(list.below.get(rest) ?? []))
    if (!rest.includes('.')) return found
  }
}

/** The closest pattern that covers a host at its port; one with a port before one without. */
export function closestPattern<Pattern extends HostPattern>(
  list: HostList<Pattern>,
  { host, port }: Authority,
): Pattern | undefined {
  return patternsFor(list, host).find(one => one.port === undefined || one.port === port)
}

export interface Own {
  /** `index.hostnames` and the machine's own name, lower case; `localhost` is always meant as well. */
  readonly names: ReadonlySet<string>
  /** Addresses of the machine as `normaliseAddress` spells them; loopback is always meant as well. */
  readonly addresses: ReadonlySet<string>
  readonly ports: ReadonlySet<number>
}

/** What the configuration and the machine say at this moment. Addresses come and go, so it has to be asked again. */
export function ownIdentity(config: Config, ports: readonly number[]): Own {
  return {
    names: new Set([...config.index.hostnames, hostname()].map(name => name.toLowerCase())),
    addresses: new Set(machineAddresses()),
    ports: new Set(ports),
  }
}

/** IP addresses of this machine, loopback included, in the system's order. */
export function machineAddresses(): readonly string[] {
  return Object.values(networkInterfaces())
    .flatMap(addresses => addresses ?? [])
    .map(({ address }) => normaliseAddress(address))
    .filter(address => address !== undefined)
}

/** Whether an authority leads to one of our listeners: a host of ours with a port of ours. */
export function isOwn(authority: Authority, own: Own): boolean {
  return own.ports.has(authority.port) && isOwnHost(authority.host, own)
}

/** Whether a host is this machine, at any port: other servers may run here, too. */
export function isOwnHost(host: string, own: Own): boolean {
  const address = normaliseAddress(host)
  if (address === undefined) {
    return host === 'localhost' || host.endsWith('.localhost') || own.names.has(host)
  }
  // A connection to the unspecified address reaches the machine itself.
  const itself = address.startsWith('127.') || ['::1', '0.0.0.0', '::'].includes(address)
  return itself || own.addresses.has(address)
}
