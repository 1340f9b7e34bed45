/**
 * The kinds of settings that only the caching proxy has, such as host patterns, places of routing rules and parent proxies.
 */
import { canonicalHost, readPort, splitPort, withoutBrackets } from '../../config/address-kinds.ts'
import { readProxyUrl } from '../../config/proxy-url.ts'
import { mismatch, type ReadResult, readFailure, readResult } from '../../config/reading.ts'
import { type Kind, kind } from '../../config/settings.ts'
import type { Parent } from '../../http/client/dialling/parents.ts'
import { formatAuthority, formatUri, parseUri, type Scheme } from '../../http/message/target.ts'
import { isIP, parseNetwork } from '../../ip.ts'
import { isRecord } from '../../json.ts'
import { canonicalUri } from '../store/key.ts'

/**
 * One line of a host list: `archive.example.org` covers that host, `.example.org` its subdomains too, `host:port` that port only.
 */
export interface HostPattern {
  /** The pattern as the configuration spells it, which refusals quote. */
  readonly text: string
  /** The host in lower case, without a leading dot and without brackets. */
  readonly host: string
  readonly subdomains: boolean
  readonly port: number | undefined
}

/** A parent proxy and the hosts that are asked through it. */
export interface ParentProxy extends Parent {
  /** The hosts that are asked through it; all hosts when the list is empty. */
  readonly only: readonly HostPattern[]
  /** The hosts that are not. */
  readonly except: readonly HostPattern[]
}

/** The parent proxies, in the order in which they are tried. */
export interface ParentProxies {
  readonly parents: readonly ParentProxy[]
  /** Whether a host is asked directly when all of its parents fail. */
  readonly direct: boolean
}

/** One end of a routing rule: `archive.example.org/debian`, with a scheme and a port when they matter, or a path alone. */
export interface Place {
  readonly text: string
  /** Undefined stands for both schemes: the request keeps its own. */
  readonly scheme: Scheme | undefined
  /** Undefined for a path alone, which stands for that path on every host. */
  readonly host: string | undefined
  readonly subdomains: boolean
  /** Undefined stands for the default port of the scheme. */
  readonly port: number | undefined
  /** The path in canonical spelling. It begins with a slash and does not end with one; it is empty when there is none. */
  readonly path: string
}

const string = { type: 'string' }

/** A line of a host list. */
export const hostPattern: Kind<HostPattern> = kind(
  { name: 'host pattern', json: string },
  readHostPattern,
)

/** A network, whose addresses count as public. */
export interface ListedNetwork {
  readonly network: string
}

/** A line of a host list that can name networks as well. An address without a prefix length is a host. */
export const hostOrNetwork: Kind<HostPattern | ListedNetwork> = kind(
  { name: 'host pattern or network', json: string },
  (found): ReadResult<HostPattern | ListedNetwork> => {
    if (typeof found !== 'string' || !found.includes('/')) return readHostPattern(found)
    const read = parseNetwork(found.trim())
    return typeof read === 'string'
      ? readFailure(read)
      : readResult({ network: `${read.address}/${read.prefix}` })
  },
)

/** The families of addresses that origins can be asked at. */
export const addressFamilies = ['any', 'ipv4', 'ipv6'] as const

/** A host name or IP address, without a port. */
export const hostName: Kind<string> = kind({ name: 'host name', json: string }, found => {
  const read = readHostPattern(found)
  if (!read.ok) return read
  const { host, subdomains, port } = read.value
  return subdomains || port !== undefined
    ? mismatch(found, 'a host name alone', `write ${host}`)
    : readResult(host)
})

/** The value of a field in requests. */
export const fieldText: Kind<string> = kind({ name: 'text', json: string }, found =>
  typeof found === 'string' && /^[\x21-\x7e](?:[\x20-\x7e]{0,500}[\x21-\x7e])?$/.test(found)
    ? readResult(found)
    : mismatch(found, 'a line of printable ASCII characters, without blanks at its ends'),
)

/** An IP address alone. */
export const ipAddress: Kind<string> = kind({ name: 'IP address', json: string }, found =>
  typeof found === 'string' && isIP(withoutBrackets(found)) !== 0
    ? readResult(withoutBrackets(found))
    : mismatch(
        found,
        'an IP address',
        found === 'localhost' ? 'write 127.0.0.1 or ::1' : undefined,
      ),
)

const parentGroup = {
  type: 'object',
  properties: {
    url: string,
    only: { type: 'array', items: string },
    except: { type: 'array', items: string },
  },
  required: ['url'],
  additionalProperties: false,
}
const parentJson = { anyOf: [string, parentGroup] }

/** The URL of an HTTP proxy, a group of its URL and the hosts that are asked through it, or a list of such URLs and groups. */
export const parentProxies: Kind<ParentProxies> = kind(
  {
    name: 'URL',
    range: 'or a group with `url`, `only` and `except`, or a list of URLs and groups',
    json: { anyOf: [...parentJson.anyOf, { type: 'array', items: parentJson, maxItems: 9 }] },
  },
  readParentProxies,
)

/** An http or https URL, as written into certificates. */
export const httpUrl: Kind<string> = kind({ name: 'URL', json: string }, found => {
  const what = 'a URL such as http://proxy.example.org:3142/_cachesvc/cachesvc.crt'
  if (typeof found !== 'string') return mismatch(found, what)
  const parsed = /^https?:\/\//i.test(found) ? parseUri(found) : { problem: '' }
  return 'problem' in parsed ? mismatch(found, what) : readResult(formatUri(parsed))
})

const place = 'a host, a host with a path, or a path'

/** The place that a routing rule applies to. */
export const remapFrom: Kind<Place> = kind({ name: 'place', json: string }, found =>
  readPlace(found, { what: place, subdomains: true }),
)

/** The place that a routing rule leads to. */
export const remapTo: Kind<Place> = kind({ name: 'place', json: string }, found =>
  readPlace(found, { what: place, subdomains: false }),
)

/** A mirror that is asked instead of a distribution's hosts. */
export const mirror: Kind<Place> = kind({ name: 'mirror', json: string }, found => {
  const what = 'a host such as mirror.example.org, or a host with a path'
  const read = readPlace(found, { what, subdomains: false })
  return read.ok && read.value.host === undefined
    ? mismatch(found, what, 'the host is missing')
    : read
})

/** Reads `host`, `host:port`, `host/path`, each with or without `http://` or `https://`, and `/path`. */
function readPlace(
  found: unknown,
  { what, subdomains }: { readonly what: string; readonly subdomains: boolean },
): ReadResult<Place> {
  const text = typeof found === 'string' ? found.trim() : ''
  if (text === '') return mismatch(found, what)
  const [, named, authority = '', written = ''] =
    /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#]*)(.*)$/is.exec(text) ?? []
  const scheme = named?.toLowerCase()
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    return mismatch(found, what, `the scheme ${scheme} is not supported`)
  }
  if (/[?#]/.test(written)) return mismatch(found, what, 'a query cannot be routed, only a path')
  const path = canonicalPath(written)
  if (path === undefined) return mismatch(found, what, 'the path climbs above its root')
  if (authority === '') {
    if (scheme !== undefined || path === '') return mismatch(found, what, 'the host is missing')
    return readResult({ ...everyHost, text, path })
  }
  const host = readHostPattern(authority)
  if (!host.ok) return host
  if (host.value.subdomains && !subdomains) {
    return mismatch(found, what, `one host only; write ${host.value.host}`)
  }
  return readResult({ ...host.value, scheme, text, path })
}

const everyHost = { scheme: undefined, host: undefined, subdomains: false, port: undefined }

/** A path as keys spell it, without the slash at its end; undefined for a path that no key has. */
function canonicalPath(path: string): string | undefined {
  const spelt = canonicalUri({ scheme: 'http', host: 'h', port: 80, path: path || '/' })
  return spelt?.path.replace(/\/$/, '')
}

/** Reads `archive.example.org`, `.example.org`, `host:port`, an IPv4 address or an IPv6 address with or without brackets. */
export function readHostPattern(found: unknown): ReadResult<HostPattern> {
  const what =
    'a host such as archive.example.org, .example.org for its subdomains too, or host:port'
  if (typeof found !== 'string' || found === '') return mismatch(found, what)
  const text = found.trim()
  const url = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text)
  if (url !== null) return readFailure(`found a URL, expected a host; write ${url[1]}`)
  if (text.includes('@')) return readFailure('found a user name, expected only a host')
  if (text.includes('/')) return mismatch(found, what, 'a path cannot be listed, only its host')
  if (text.startsWith('*.')) return mismatch(found, what, `write ${text.slice(1)}`)
  if (text.includes('*')) return mismatch(found, what, 'there are no wildcards but the leading dot')

  const parts = splitPort(text)
  const port = parts.port === undefined ? undefined : readPort(parts.port, 1)
  if (port !== undefined && !port.ok) return mismatch(found, what, port.problem)
  const subdomains = parts.host.startsWith('.')
  const host = canonicalHost(subdomains ? parts.host.slice(1) : parts.host)
  if (host === undefined || (subdomains && isIP(host) !== 0)) return mismatch(found, what)
  return readResult({ text, host, subdomains, port: port?.value })
}

/** The word that can end a list of parents. With it, origins are asked directly when the parents fail. */
const directly = 'direct'
const mostParents = 8

/** Reads one parent proxy, or a list of them that may end with `direct`. No problem quotes a password. */
export function readParentProxies(found: unknown): ReadResult<ParentProxies> {
  if (!Array.isArray(found)) {
    const one = readParentProxy(found)
    return one.ok ? readResult({ parents: [one.value], direct: false }) : one
  }
  const members = found as readonly unknown[]
  const direct = members.at(-1) === directly
  const named = direct ? members.slice(0, -1) : members
  if (named.length === 0) return readFailure('expected the URL of one parent proxy at least')
  if (named.length > mostParents)
    return readFailure(`expected ${mostParents} parent proxies at most`)
  const parents: ParentProxy[] = []
  for (const [at, member] of named.entries()) {
    if (member === directly) return readFailure(`${directly} can only be the last of the list`)
    const one = readParentProxy(member)
    if (!one.ok) return readFailure(`${at + 1}: ${one.problem}`)
    parents.push(one.value)
  }
  const names = new Set(parents.map(parent => formatAuthority(parent)))
  return names.size === parents.length
    ? readResult({ parents, direct })
    : readFailure('expected each parent proxy once; list all of its hosts under its `only`')
}

/** Reads `http://user:password@proxy.example.org:3128`, alone or as `url` beside `only` and `except`. */
function readParentProxy(found: unknown): ReadResult<ParentProxy> {
  if (!isRecord(found)) {
    const alone = readProxyUrl(found)
    return alone.ok ? readResult({ ...alone.value, only: [], except: [] }) : alone
  }
  const { url, only = [], except = [], ...others } = found
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    return readFailure(`found the key ${unknown}, expected url, only and except`)
  const proxy = readProxyUrl(url)
  if (!proxy.ok) return readFailure(`url: ${proxy.problem}`)
  const [listed, excepted] = [readPatterns('only', only), readPatterns('except', except)]
  if (!listed.ok) return listed
  if (!excepted.ok) return excepted
  return readResult({ ...proxy.value, only: listed.value, except: excepted.value })
}

function readPatterns(name: string, found: unknown): ReadResult<readonly HostPattern[]> {
  if (!Array.isArray(found)) return readFailure(`${name}: expected a list of host patterns`)
  const patterns: HostPattern[] = []
  for (const one of found as readonly unknown[]) {
    const pattern = readHostPattern(one)
    if (!pattern.ok) return readFailure(`${name}: ${pattern.problem}`)
    patterns.push(pattern.value)
  }
  return readResult(patterns)
}

interface PortRange {
  readonly first: number
  readonly last: number
}

/** Ports and ranges of ports. */
export type Ports = ReadonlyArray<number | PortRange>

/** A port, or a range such as `8000-8100`. */
export const portOrRange: Kind<number | PortRange> = kind(
  { name: 'port', json: { type: ['integer', 'string'] } },
  found => {
    const what = 'a port from 1 to 65535, or a range such as 8000-8100'
    const [, first = '', last = first] =
      /^(\d{1,5})(?:\s*-\s*(\d{1,5}))?$/.exec(String(found)) ?? []
    const range = { first: Number(first), last: Number(last) }
    const fits = first !== '' && range.first >= 1 && range.last <= 65_535
    if (!fits) return mismatch(found, what)
    if (range.first > range.last) return mismatch(found, what, 'the smaller number comes first')
    return readResult(range.first === range.last ? range.first : range)
  },
)

/** Whether a port is one of `ports`, or in a range of them. */
export function hasPort(ports: Ports, port: number): boolean {
  return ports.some(each =>
    typeof each === 'number' ? each === port : each.first <= port && port <= each.last,
  )
}
