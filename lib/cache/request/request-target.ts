/**
 * Reads from a target what is asked for: a file of an archive, a page of this proxy, or a tunnel. Pure.
 *
 * # Facts
 * - absolute-form comes from a client that has this proxy configured; CONNECT asks for a tunnel.
 * - origin-form with the Host of an archive comes from a client that DNS (SRV) or a router sent here: it takes us for the
 *   archive.
 * - origin-form with our Host comes from a sources.list that begins with our address: the first segment is the archive's host.
 * - `http://HTTPS///host/path` is how users of apt-cacher-ng ask for an https origin without a tunnel. A client with a proxy
 *   sends it in absolute-form, with two or three slashes; in origin-form the first segment is `HTTPS`.
 * - Within an intercepted tunnel the client talks to an https origin and knows of no proxy: every path is the origin's, and
 *   Host has to be the host the tunnel leads to (RFC 9110 section 7.4), for that is the name in our certificate.
 * - Below `/_cachesvc/snapshot/` and a date the path is that of a sources.list that begins with our address. `apt --snapshot`
 *   puts its ID (`20260801T000000Z`) and the path of the source into a template, which doubles slashes.
 *   So it is below `/_cachesvc/build/` and the name of a build.
 * - asterisk-form asks about the proxy itself; a load balancer checks it so.
 * - The operations interface answers at its exact paths on every listener and for every Host: discovery tools ask by address.
 */

import { day, type Milliseconds } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import {
  type Authority,
  defaultPort,
  parseAuthority,
  parseHost,
  type Scheme,
  type TargetUri,
} from '../../http/message/target.ts'
import { normaliseAddress } from '../../ip.ts'
import { isOperationsPath, operationsPrefix, wholeServer } from '../operations/paths.ts'
import { isOwn, isOwnHost, type OwnIdentity } from '../policy/routing.ts'

/** How a file was asked for: as a proxy, by DNS, by URL prefix, by URL prefix with `HTTPS///`, in an intercepted tunnel. */
type FetchMode = 'proxy' | 'steered' | 'prefix' | 'https-prefix' | 'intercepted'

type EffectiveTarget =
  | {
      readonly kind: 'fetch'
      readonly uri: TargetUri
      readonly mode: FetchMode
      /** The moment as of which the file is wanted, the end of a day or of a second; undefined for the present. */
      readonly asOf?: Milliseconds
      /** The name of the build that it is asked for, as it stands in the path. */
      readonly build?: string
    }
  | NoFile

/** What a request asks for that is no file of an archive. */
export type NoFile =
  | { readonly kind: 'operations'; readonly path: string; readonly query?: string | undefined }
  | { readonly kind: 'connect'; readonly authority: Authority }
  | Refused

/** A target that asks for nothing this proxy has. The client may read the sentence. */
interface Refused {
  readonly kind: 'refuse'
  readonly status: 400 | 404 | 421 | 501
  readonly sentence: string
}

/** The part of a request that says what it asks for. */
export type TargetParts = Pick<
  Request,
  'method' | 'target' | 'fields' | 'secure' | 'local' | 'tunnelEnd'
>

type PathAndQuery = Pick<TargetUri, 'path' | 'query'>

/** One answer for each of the four forms of a target. Never throws. */
export function effectiveTarget(asked: TargetParts, own: OwnIdentity): EffectiveTarget {
  const { target, method } = asked
  if ((method === 'CONNECT') !== (target.form === 'authority')) return refusals.tunnelForm
  if (asked.tunnelEnd !== undefined) return withinTunnel(asked, asked.tunnelEnd)
  switch (target.form) {
    case 'authority':
      return { kind: 'connect', authority: target.authority }
    case 'asterisk':
      return { kind: 'operations', path: wholeServer }
    case 'absolute':
      return fromAbsolute(target.uri, asked, own)
    case 'origin':
      return fromOrigin(target, asked, own)
  }
}

/** A request that came through an intercepted tunnel. */
function withinTunnel({ target, fields }: TargetParts, end: Authority): EffectiveTarget {
  if (target.form === 'authority') return refusals.nested
  if (target.form === 'asterisk') return refusals.asterisk
  const uri = target.form === 'absolute' ? target.uri : { scheme: 'https' as const, ...target }
  const named = 'host' in uri ? uri : parseHost(fields.get('host'), end.port)
  if (named !== undefined && 'problem' in named) return refuse(400, named.problem)
  const { host, port } = end
  const elsewhere = named !== undefined && (named.host !== host || named.port !== port)
  if (uri.scheme !== 'https' || elsewhere) return refusals.misdirected
  return { kind: 'fetch', uri: { ...uri, host, port }, mode: 'intercepted' }
}

function fromAbsolute(uri: TargetUri, asked: TargetParts, own: OwnIdentity): EffectiveTarget {
  if (uri.host === 'https' && uri.port === defaultPort(uri.scheme)) {
    return fromPrefix(uri, 'https', uri.userinfo)
  }
  if (!isOwn(uri, own) && !isLocal(uri, asked)) return { kind: 'fetch', uri, mode: 'proxy' }
  // A client that uses us as its proxy and, in sources.list, as a prefix as well.
  return isOperationsPath(uri.path) ? operations(uri, uri.userinfo) : fromOwnPath(uri, uri.userinfo)
}

function fromOrigin(target: PathAndQuery, asked: TargetParts, own: OwnIdentity): EffectiveTarget {
  if (isOperationsPath(target.path)) return operations(target)
  const scheme = asked.secure ? 'https' : 'http'
  const hosts = asked.fields.all('host')
  if (hosts.length > 1) return refusals.manyHosts
  const host = parseHost(hosts[0], defaultPort(scheme))
  if (host !== undefined && 'problem' in host) return refuse(400, host.problem)
  // HTTP/1.0 clients may leave Host out; a path alone can only be meant for us.
  if (host === undefined || isMeantForUs(host, asked, own)) return fromOwnPath(target)
  return { kind: 'fetch', uri: { scheme, ...host, ...pathAndQueryOf(target) }, mode: 'steered' }
}

/**
 * Clients sent here by DNS name the archive, and archives use the default port, even on this machine. So any name of ours with
 * another port is ours (a container's mapped port, for one), and so is any name at all with the port the client came in on.
 */
function isMeantForUs(host: Authority, asked: TargetParts, own: OwnIdentity): boolean {
  if (isOwn(host, own) || isLocal(host, asked)) return true
  if (host.port === defaultPort(asked.secure ? 'https' : 'http')) return false
  return host.port === asked.local.port || isOwnHost(host.host, own)
}

/** Whether an authority is the address and port the client is connected to. */
function isLocal({ host, port }: Authority, { local }: TargetParts): boolean {
  const address = normaliseAddress(host)
  return port === local.port && address !== undefined && address === normaliseAddress(local.address)
}

/** `/archive.example.org/debian/…` or `/HTTPS///archive.example.org/debian/…` on our own host. */
function fromOwnPath(target: PathAndQuery, userinfo?: string): EffectiveTarget {
  const https = /^\/+https(?=\/)/i.exec(target.path)
  if (https === null) return fromPrefix(target, 'http', userinfo)
  return fromPrefix({ ...target, path: target.path.slice(https[0].length) }, 'https', userinfo)
}

/** The first segment that is not empty names the host; the rest is the path there. */
function fromPrefix(target: PathAndQuery, scheme: Scheme, userinfo?: string): EffectiveTarget {
  const [, segment = '', rest = ''] = /^\/*([^/]*)(.*)$/s.exec(target.path) ?? []
  if (!namesHost(segment)) {
    return scheme === 'http' ? refusals.prefix : refusals.httpsPrefix
  }
  const authority = parseAuthority(segment, defaultPort(scheme))
  if ('problem' in authority) return refuse(400, authority.problem)
  const uri: TargetUri = {
    scheme,
    ...authority,
    ...(userinfo === undefined ? {} : { userinfo }),
    ...pathAndQueryOf({ ...target, path: rest === '' ? '/' : rest }),
  }
  return { kind: 'fetch', uri, mode: scheme === 'http' ? 'prefix' : 'https-prefix' }
}

/** Whether the first segment of a path names a host, rather than a directory or a file of some other program. */
function namesHost(segment: string): boolean {
  // A dot or a port tells a host from a directory.
  if (!/^[A-Za-z0-9_[][^@]*[.:]/.test(segment)) return false
  if (segment.includes(':') || normaliseAddress(segment) !== undefined) return true
  // `/v1.0/x`: the last label of a name is no number (URL Standard section 3.5). `/proxy.pac`, `/index.php/x`: nor a suffix of files.
  const last = segment.replace(/\.$/, '').split('.').at(-1)?.toLowerCase() ?? ''
  return !/^\d+$/.test(last) && !fileSuffixes.has(last)
}

/** Suffixes of files that browsers, clients of other proxies and scanners ask for. None is a top-level domain. */
const fileSuffixes: ReadonlySet<string> = new Set([
  ...['asp', 'aspx', 'bak', 'cfg', 'cfm', 'cgi', 'conf', 'css', 'csv', 'dat', 'deb', 'dll', 'env'],
  ...[
    'exe',
    'gif',
    'gz',
    'htm',
    'html',
    'ico',
    'ini',
    'iso',
    'jpeg',
    'jpg',
    'js',
    'json',
    'jsp',
    'log',
  ],
  ...[
    'old',
    'pac',
    'pdf',
    'php',
    'png',
    'rpm',
    'sql',
    'svg',
    'tar',
    'txt',
    'webp',
    'xml',
    'xz',
    'yaml',
  ],
  'yml',
])

function operations(target: PathAndQuery, userinfo?: string): EffectiveTarget {
  const [, build, below] = BUILD.exec(target.path) ?? []
  if (build !== undefined) {
    const asked = fromOwnPath({ ...target, path: below ?? '' }, userinfo)
    return asked.kind === 'fetch' ? { ...asked, build } : asked
  }
  const [, date, rest] = SNAPSHOT.exec(target.path) ?? []
  if (date === undefined) return { kind: 'operations', ...pathAndQueryOf(target) }
  const asOf = endOfDay(date) ?? endOfSecond(date)
  if (asOf === undefined) return refusals.date
  const asked = fromOwnPath({ ...target, path: rest ?? '' }, userinfo)
  return asked.kind === 'fetch' ? { ...asked, asOf } : asked
}

/** `/_cachesvc/snapshot/2026-11-20/archive.example.org/debian/…` */
const SNAPSHOT = new RegExp(`^${operationsPrefix}/+snapshot/+([^/]*)(.*)$`, 's')

/** `/_cachesvc/build/NAME/archive.example.org/debian/…` */
const BUILD = new RegExp(`^${operationsPrefix}/+build/+([^/]*)(.*)$`, 's')

/** What stands before the host in the path of a snapshot or a build; empty for other paths. */
export function placeWithinOwn(path: string): string {
  return WITHIN.exec(path)?.[0] ?? ''
}

const WITHIN = new RegExp(`^${operationsPrefix}/+(?:snapshot|build)/+[^/]*(?=/)`)

/** The last millisecond of a day, UTC. */
function endOfDay(date: string): Milliseconds | undefined {
  const begin = Date.parse(`${date}T00:00:00.000Z`)
  const right = !Number.isNaN(begin) && new Date(begin).toISOString().startsWith(`${date}T`)
  return right ? begin + day - 1 : undefined
}

/**
 * The last millisecond of the second that an ID of apt names, so that `20261120T235959Z` is the day 2026-11-20. An ID is
 * `%Y%m%dT%H%M%SZ` and nothing shorter: `20261120` is midnight for one archive's snapshots, and its end would be our day.
 */
function endOfSecond(id: string): Milliseconds | undefined {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(id)
  if (parts === null) return undefined
  const [, year, month, date, hours, minutes, seconds] = parts
  const text = `${year}-${month}-${date}T${hours}:${minutes}:${seconds}.000Z`
  const begin = Date.parse(text)
  const right = !Number.isNaN(begin) && new Date(begin).toISOString() === text
  return right ? begin + 999 : undefined
}

function pathAndQueryOf({ path, query }: PathAndQuery): PathAndQuery {
  return query === undefined ? { path } : { path, query }
}

function refuse(status: Refused['status'], sentence: string): Refused {
  return { kind: 'refuse', status, sentence }
}

/** Targets that are refused before any policy is asked. */
export const refusals = {
  tunnelForm: refuse(400, 'CONNECT asks for host:port, and only CONNECT does.'),
  asterisk: refuse(501, 'OPTIONS for the whole server is not implemented in a tunnel.'),
  nested: refuse(400, 'There are no tunnels within a tunnel.'),
  misdirected: refuse(421, 'This tunnel leads to another host than the request is for.'),
  unkeyable: refuse(400, 'The path of this URL has control characters or climbs above its root.'),
  manyHosts: refuse(400, 'There is more than one Host field.'),
  prefix: refuse(
    404,
    'The path names no host. Ask through the proxy, or put the host first: /archive.example.org/debian.',
  ),
  date: refuse(
    400,
    'A date such as 2026-11-20, or an ID of apt such as 20261120T235959Z, follows snapshot: /_cachesvc/snapshot/2026-11-20/archive.example.org/debian.',
  ),
  httpsPrefix: refuse(
    400,
    'No host follows HTTPS. Write the source as http://HTTPS///archive.example.org/debian.',
  ),
}
