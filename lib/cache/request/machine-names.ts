/**
 * Who we are, asked of the machine: names, addresses and ports by which a request may mean us.
 */
import { hostname, networkInterfaces } from 'node:os'
import { normaliseAddress } from '../../ip.ts'
import type { Config } from '../config/config.ts'
import type { Own } from './own-identity.ts'

/** IP addresses of this machine, loopback included, in the system's order. */
export function machineAddresses(): readonly string[] {
  return Object.values(networkInterfaces())
    .flatMap(addresses => addresses ?? [])
    .map(({ address }) => normaliseAddress(address))
    .filter(address => address !== undefined)
}

/** Our names and addresses at this moment; addresses come and go, so ask again now and then. */
export function ownIdentity(config: Config, ports: readonly number[]): Own {
  const name = hostname().toLowerCase()
  return {
    names: new Set([...config.index.hostnames.map(one => one.toLowerCase()), name]),
    addresses: new Set(machineAddresses()),
    ports: new Set(ports),
  }
}
