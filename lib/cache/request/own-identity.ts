/**
 * What this proxy itself is called: needed to tell its own pages from archives, and to see circles. Pure: whoever wires
 * the daemon collects the names.
 */
import type { Authority } from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'

export interface Own {
  /** `index.hostnames` and the machine's own names, lower case. `localhost` goes without saying. */
  readonly names: ReadonlySet<string>
  /** Addresses of the machine as `normaliseAddress` spells them. Loopback goes without saying. */
  readonly addresses: ReadonlySet<string>
  /** Every port we listen on. */
  readonly ports: ReadonlySet<number>
}

/** Whether an authority leads to one of our listeners: a host of ours with a port of ours. */
export function isOwn(authority: Authority, own: Own): boolean {
  return own.ports.has(authority.port) && isOwnHost(authority.host, own)
}

/** Whether a host is this machine, whatever the port: other servers may run here, too. */
export function isOwnHost(host: string, own: Own): boolean {
  const address = normaliseAddress(host)
  if (address === undefined) {
    return host === 'localhost' || host.endsWith('.localhost') || own.names.has(host)
  }
  // Connecting to the unspecified address reaches the machine itself.
  const itself = address.startsWith('127.') || ['::1', '0.0.0.0', '::'].includes(address)
  return itself || own.addresses.has(address)
}
