/**
 * The kinds of settings that hold addresses: where to listen, and networks.
 */
import { domainToASCII } from 'node:url'
import { parseAuthority } from '../http/message/target.ts'
import type { ListenAddress } from '../http/server/listen.ts'
import { isIP, parseNetwork } from '../ip.ts'
import { mismatch, type ReadResult, readFailure, readResult } from './reading.ts'
import { type Kind, kind } from './settings.ts'

/** `ADDRESS:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT`; port 0 lets the system choose one. */
export const listenAddress: Kind<ListenAddress> = kind(
  { name: 'ADDRESS:PORT', json: { type: ['string', 'integer'] } },
  readListenAddress,
)

export function readListenAddress(found: unknown): ReadResult<ListenAddress> {
  const what = 'ADDRESS:PORT, [IPV6]:PORT or a port alone'
  const written = typeof found === 'number' ? String(found) : found
  if (typeof written !== 'string' || written === '') return mismatch(found, what)
  if (isIP(written) === 6) return mismatch(found, what, `write [${written}]:PORT`)
  const { host, port } = /^\d+$/.test(written) ? { host: '', port: written } : splitPort(written)
  if (port === undefined) return mismatch(found, what, 'the port is missing')
  const number = readPort(port, 0)
  if (!number.ok) return mismatch(found, what, number.problem)
  const address = withoutBrackets(host)
  if (address === '' || address === '*')
    return readResult({ address: undefined, port: number.value })
  if (isIP(address) !== 0) return readResult({ address, port: number.value })
  const mend = address === 'localhost' ? `write 127.0.0.1:${port}` : 'a name is not an address'
  return mismatch(found, what, mend)
}

/** A network in CIDR notation, or a single address; the value always has its prefix length. */
export const network: Kind<string> = kind({ name: 'network', json: { type: 'string' } }, found => {
  const what = 'a network such as 192.168.0.0/16 or fd00::/8, or one address'
  if (typeof found !== 'string') return mismatch(found, what)
  if (['*', 'all', 'any'].includes(found.toLowerCase())) {
    return mismatch(found, what, 'write 0.0.0.0/0 and ::/0 for all addresses')
  }
  const read = parseNetwork(found.trim().replace(/^\[(.*)\]/, '$1'))
  return typeof read === 'string'
    ? readFailure(`expected ${what}; ${read}`)
    : readResult(`${read.address}/${read.prefix}`)
})

/** Splits host and port. An IPv6 address without brackets has no port. */
export function splitPort(text: string): {
  readonly host: string
  readonly port: string | undefined
} {
  if (isIP(text) === 6) return { host: text, port: undefined }
  const [, host = text, port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text) ?? []
  return { host, port }
}

export function readPort(text: string, least: 0 | 1): ReadResult<number> {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1
  return port >= least && port <= 65_535
    ? readResult(port)
    : readFailure(`a port is a number from ${least} to 65535`)
}

export function withoutBrackets(host: string): string {
  return /^\[.*\]$/s.test(host) ? host.slice(1, -1) : host
}

/** An IP address or DNS name as request targets have it, without brackets; undefined when it is neither. */
export function canonicalHost(written: string): string | undefined {
  const name = /^\p{ASCII}*$/u.test(written) ? written : domainToASCII(written)
  if (/^-|-$|-\.|\.-/.test(name)) return undefined
  const authority = parseAuthority(isIP(name) === 6 ? `[${name}]` : name, 80)
  return 'problem' in authority ? undefined : authority.host
}
