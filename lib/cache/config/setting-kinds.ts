/**
 * The kinds of settings only a proxy has: host patterns, networks, addresses to listen on, a parent proxy. Pure; each reader
 * says what it found, what it expected and how to mend it.
 */
import { isIP, isIPv4, isIPv6, SocketAddress } from 'node:net'
import { domainToASCII } from 'node:url'
import { expected, right, wrong } from '../../config/setting-kinds.ts'
import { type Kind, kind } from '../../config/settings.ts'
import type { Read } from '../../config/units.ts'
import { formatUri, parseUri } from '../../http/message/target.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { canonicalUri } from '../store/key.ts'
import type { HostPattern, ParentProxy, Place } from './config.ts'

const string = { type: 'string' }

/** A line of a host list. */
export const hostPattern: Kind<HostPattern> = kind(
  { name: 'host pattern', json: string },
  readHostPattern,
)

/** A host name or IP address, without a port. */
export const hostName: Kind<string> = kind({ name: 'host name', json: string }, found => {
  const read = readHostPattern(found)
  if (!read.ok) return read
  const { host, subdomains, port } = read.value
  return subdomains || port !== undefined
    ? expected(found, 'a host name alone', `write ${host}`)
    : right(host)
})

/** A network in CIDR notation, or a single address; the outcome always has its prefix length. */
export const network: Kind<string> = kind({ name: 'network', json: string }, readNetwork)

/** `ADDRESS:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT`. */
export const listenAddress: Kind<ListenAddress> = kind(
  { name: 'ADDRESS:PORT', json: { type: ['string', 'integer'] } },
  readListenAddress,
)

/** An IP address alone. */
export const ipAddress: Kind<string> = kind({ name: 'IP address', json: string }, found =>
  typeof found === 'string' && isIP(unbracketed(found)) !== 0
    ? right(unbracketed(found))
    : expected(
        found,
        'an IP address',
        found === 'localhost' ? 'write 127.0.0.1 or ::1' : undefined,
      ),
)

/** The URL of an HTTP proxy. */
export const parentProxy: Kind<ParentProxy> = kind({ name: 'URL', json: string }, readParentProxy)

/** An http or https URL, as written into certificates. */
export const httpUrl: Kind<string> = kind({ name: 'URL', json: string }, found => {
  const what = 'a URL such as http://proxy.example.org:3142/_cachesvc/cachesvc.crt'
  if (typeof found !== 'string') return expected(found, what)
  const parsed = /^https?:\/\//i.test(found) ? parseUri(found) : { problem: '' }
  return 'problem' in parsed ? expected(found, what) : right(formatUri(parsed))
})

/** What a routing rule applies to; undefined when empty. */
export const remapFrom: Kind<Place | undefined> = kind({ name: 'place', json: string }, found =>
  readPlace(found, { what: 'a host, a host with a path, or a path', subdomains: true }),
)

/** Where a routing rule leads; undefined when empty. */
export const remapTo: Kind<Place | undefined> = kind({ name: 'place', json: string }, found =>
  readPlace(found, { what: 'a host, a host with a path, or a path', subdomains: false }),
)

/** A mirror asked in place of a distribution's hosts; undefined when empty. */
export const mirror: Kind<Place | undefined> = kind({ name: 'mirror', json: string }, found => {
  const what = 'a host such as mirror.example.org, or a host with a path'
  const read = readPlace(found, { what, subdomains: false })
  return read.ok && read.value !== undefined && read.value.host === undefined
    ? expected(found, what, 'the host is missing')
    : read
})

/** Reads `host`, `host:port`, `host/path`, each with or without `http://` or `https://`, and `/path`. */
export function readPlace(
  found: unknown,
  { what, subdomains }: { readonly what: string; readonly subdomains: boolean },
): Read<Place | undefined> {
  if (typeof found !== 'string') return expected(found, what)
  const text = found.trim()
  if (text === '') return right(undefined)
  const [, named, authority = '', written = ''] =
    /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#]*)(.*)$/is.exec(text) ?? []
  const scheme = named?.toLowerCase()
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    return expected(found, what, `the scheme ${scheme} is not supported`)
  }
  if (/[?#]/.test(written)) return expected(found, what, 'a query cannot be routed, only a path')
  const path = canonicalPath(written)
  if (path === undefined) return expected(found, what, 'the path climbs above its root')
  if (authority === '') {
    if (scheme !== undefined || path === '') return expected(found, what, 'the host is missing')
    return right({ ...everywhere, text, path })
  }
  const host = readHostPattern(authority)
  if (!host.ok) return host
  if (host.value.subdomains && !subdomains) {
    return expected(found, what, `one host only; write ${host.value.host}`)
  }
  return right({ ...host.value, scheme, text, path })
}

const everywhere = { scheme: undefined, host: undefined, subdomains: false, port: undefined }

/** A path as keys spell it, without the slash at its end; undefined when it is none. */
function canonicalPath(path: string): string | undefined {
  const spelt = canonicalUri({ scheme: 'http', host: 'h', port: 80, path: path || '/' })
  return spelt?.path.replace(/\/$/, '')
}

/** Reads `archive.example.org`, `.example.org`, `host:port`, an IPv4 address or an IPv6 address with or without brackets. */
export function readHostPattern(found: unknown): Read<HostPattern> {
  const what =
    'a host such as archive.example.org, .example.org for its subdomains too, or host:port'
  if (typeof found !== 'string' || found === '') return expected(found, what)
  const text = found.trim()
  const url = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text)
  if (url !== null) return wrong(`found a URL, expected a host; write ${url[1]}`)
  if (text.includes('@')) return wrong('found a user name, expected a host alone')
  if (text.includes('/')) return expected(found, what, 'a path cannot be listed, only its host')
  if (text.startsWith('*.')) return expected(found, what, `write ${text.slice(1)}`)
  if (text.includes('*')) return expected(found, what, 'there are no wildcards but the leading dot')

  const parts = splitPort(text)
  const port = parts.port === undefined ? undefined : readPort(parts.port, 1)
  if (port !== undefined && !port.ok) return expected(found, what, port.problem)
  const subdomains = parts.host.startsWith('.')
  const host = canonicalHost(subdomains ? parts.host.slice(1) : parts.host)
  if (host === undefined || (subdomains && isIP(host) !== 0)) return expected(found, what)
  return right({ text, host, subdomains, port: port?.value })
}

/** Reads an address to listen on; port 0 lets the system choose one. */
export function readListenAddress(found: unknown): Read<ListenAddress> {
  const what = 'ADDRESS:PORT, [IPV6]:PORT or a port alone'
  const written = typeof found === 'number' ? String(found) : found
  if (typeof written !== 'string' || written === '') return expected(found, what)
  if (isIPv6(written)) return expected(found, what, `write [${written}]:3142`)
  const parts = /^\d+$/.test(written) ? { host: '', port: written } : splitPort(written)
  if (parts.port === undefined) return expected(found, what, 'the port is missing')
  const port = readPort(parts.port, 0)
  if (!port.ok) return expected(found, what, port.problem)
  const address = unbracketed(parts.host)
  if (address === '' || address === '*') return right({ address: undefined, port: port.value })
  if (isIP(address) !== 0) return right({ address, port: port.value })
  const mend =
    address === 'localhost' ? `write 127.0.0.1:${parts.port}` : 'a name is not an address'
  return expected(found, what, mend)
}

/** Reads `10.0.0.0/8`, `fc00::/7` or a single address. */
export function readNetwork(found: unknown): Read<string> {
  const what = 'a network such as 192.168.0.0/16 or fd00::/8, or one address'
  if (typeof found !== 'string') return expected(found, what)
  const everybody = ['*', 'all', 'any'].includes(found.toLowerCase())
  if (everybody) return expected(found, what, 'write 0.0.0.0/0 and ::/0 for everybody')
  const [, before = '', length] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(found.trim()) ?? []
  const address = unbracketed(before)
  if (isIP(address) === 0 || address.includes('%')) return expected(found, what)
  const bits = isIPv4(address) ? 32 : 128
  const prefix = length === undefined ? bits : Number(length)
  if (prefix > bits) return expected(found, what, `the prefix length is at most ${bits}`)
  const first = firstAddress(address, prefix)
  if (first !== canonicalAddress(address)) {
    return expected(found, what, `the bits after the prefix are not zero; write ${first}/${prefix}`)
  }
  return right(`${first}/${prefix}`)
}

/** Reads `http://user:password@proxy.example.org:3128`. No answer ever quotes the password. */
export function readParentProxy(found: unknown): Read<ParentProxy> {
  const what = 'the URL of an HTTP proxy such as http://proxy.example.org:3128'
  if (typeof found !== 'string') return wrong(`found no text, expected ${what}`)
  const [, scheme, authority, path] =
    /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#]*)(.*)$/is.exec(found) ?? []
  if (scheme === undefined) return wrong(`found no scheme, expected ${what}`)
  if (scheme.toLowerCase() !== 'http') {
    return wrong(`found the scheme ${scheme}, expected ${what}; others are not supported`)
  }
  if (path !== undefined && path !== '' && path !== '/')
    return wrong(`found a path, expected ${what}`)
  const at = authority?.lastIndexOf('@') ?? -1
  const parts = splitPort(authority?.slice(at + 1) ?? '')
  const host = canonicalHost(parts.host)
  if (host === undefined) return wrong(`found no usable host, expected ${what}`)
  const port = parts.port === undefined ? right(80) : readPort(parts.port, 1)
  if (!port.ok) return wrong(`${port.problem}, expected ${what}`)
  if (at < 0) return right({ host, port: port.value, credentials: undefined })
  const credentials = decodeCredentials(authority?.slice(0, at) ?? '')
  if (!credentials.ok) return credentials
  return right({ host, port: port.value, credentials: credentials.value })
}

function decodeCredentials(userinfo: string): Read<string> {
  const colon = userinfo.indexOf(':')
  const user = colon < 0 ? userinfo : userinfo.slice(0, colon)
  const password = colon < 0 ? '' : userinfo.slice(colon + 1)
  try {
    const decoded = [decodeURIComponent(user), decodeURIComponent(password)]
    // RFC 7617 section 2: no colon in the user name, no control characters anywhere.
    if (decoded[0]?.includes(':')) return wrong('the user name of the parent proxy has a colon')
    if (/\p{Cc}/u.test(decoded.join(''))) {
      return wrong('the credentials of the parent proxy have a control character')
    }
    return right(decoded.join(':'))
  } catch {
    return wrong('the credentials of the parent proxy have a % that begins no escape; write %25')
  }
}

/** Host and port apart; a bare IPv6 address has no port. */
function splitPort(text: string): { readonly host: string; readonly port: string | undefined } {
  if (isIPv6(text)) return { host: text, port: undefined }
  const parts = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(text)
  return parts === null ? { host: text, port: undefined } : { host: parts[1] ?? '', port: parts[2] }
}

function readPort(text: string, least: 0 | 1): Read<number> {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1
  return port >= least && port <= 65_535
    ? right(port)
    : wrong(`a port is a number from ${least} to 65535`)
}

/** An IP address or DNS name in lower case, without brackets and trailing dot; undefined when it is neither. */
function canonicalHost(written: string): string | undefined {
  const bracketed = written.startsWith('[')
  const address = unbracketed(written).toLowerCase()
  if (isIPv6(address)) return address.includes('%') ? undefined : canonicalAddress(address)
  if (bracketed) return undefined
  if (isIPv4(address)) return address
  const name = (/^\p{ASCII}*$/u.test(address) ? address : domainToASCII(address)).replace(/\.$/, '')
  const labels = name.split('.')
  const right = labels.every(label => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label))
  // A name that ends in a number is an IPv4 address written wrongly (WHATWG URL, "ends in a number").
  return right && name.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '') ? name : undefined
}

function unbracketed(host: string): string {
  return /^\[.*\]$/s.test(host) ? host.slice(1, -1) : host
}

function canonicalAddress(address: string): string {
  return new SocketAddress({ address, family: isIPv4(address) ? 'ipv4' : 'ipv6' }).address
}

/** The address with every bit after the prefix zero. */
function firstAddress(address: string, prefix: number): string {
  if (isIPv4(address)) {
    const bytes = address.split('.').map(Number)
    return bytes.map((byte, i) => byte & mask(prefix - 8 * i, 8)).join('.')
  }
  const groups = ipv6Groups(canonicalAddress(address))
  const kept = groups.map((g, i) => (g & mask(prefix - 16 * i, 16)).toString(16)).join(':')
  return canonicalAddress(kept)
}

function mask(bits: number, width: number): number {
  const ones = Math.min(width, Math.max(0, bits))
  return (2 ** ones - 1) * 2 ** (width - ones)
}

function ipv6Groups(address: string): readonly number[] {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address)
  if (dotted !== null) {
    const [a = 0, b = 0, c = 0, d = 0] = dotted.slice(2).map(Number)
    return ipv6Groups(`${dotted[1]}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`)
  }
  const [head = '', tail] = address.split('::')
  const groupsOf = (text: string) =>
    text === '' ? [] : text.split(':').map(g => Number.parseInt(g, 16))
  const before = groupsOf(head)
  const after = groupsOf(tail ?? '')
  const zeros = Math.max(0, 8 - before.length - after.length)
  return [...before, ...new Array<number>(tail === undefined ? 0 : zeros).fill(0), ...after]
}
