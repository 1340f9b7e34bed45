/**
 * The names, addresses and ports of this proxy itself: they distinguish its own pages from archives, and detect requests that
 * lead back to the proxy.
 */
import { hostname, networkInterfaces } from 'node:os'
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'

export interface Own {
  /** `index.hostnames` and the machine's own name, lower case; `localhost` is always meant as well. */
  readonly names: ReadonlySet<string>
  /** Addresses of the machine as `normaliseAddress` spells them; loopback is always meant as well. */
  readonly addresses: ReadonlySet<string>
  /** Every port we listen on. */
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
