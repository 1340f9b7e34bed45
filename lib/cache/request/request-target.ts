/**
 * Decides whether a target asks for a file of an archive, a page of this proxy, or a tunnel. This file is pure.
 *
 * # Facts
 * - absolute-form comes from a client that has this proxy configured. CONNECT asks for a tunnel.
 * - origin-form with the Host of an archive comes from a client that DNS (SRV) or a router sent here. It takes this proxy for the
 *   archive.
 * - origin-form with a Host of this proxy comes from a sources.list whose URLs begin with the address of the proxy. The first segment is
 *   the host of the archive.
 * - In place of a host the first segment can be the prefix of a known archive (`/debian`), as with apt-cacher-ng. A host has a dot or a port.
 * - Users of apt-cacher-ng write `http://HTTPS///host/path` for an https origin without a tunnel. A client with a proxy sends it in
 *   absolute-form, with two or three slashes. In origin-form the first segment is `HTTPS`.
 * - In an intercepted tunnel, the client talks to an https origin and knows of no proxy. So every path belongs to the origin, and Host
 *   has to be the host of the tunnel (RFC 9110 section 7.4), because the certificate has that name.
 * - Below `/_cachesvc/snapshot/` and a date, or `/_cachesvc/pinned/` and a SHA-256, the path is like that of a sources.list whose URLs
 *   begin with the address of the proxy.
 *   `apt --snapshot` puts its ID (`20260801T000000Z`) and the path of the source into a template, which doubles slashes. Paths below
 *   `/_cachesvc/build/` and the name of a build have the same form.
 * - asterisk-form asks about the proxy itself. Load balancers check it so.
 * - The operations interface answers at its exact paths on every listener and for every Host, because discovery tools ask by address.
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
import { archivePrefixes } from '../config/known-archives.ts'
import { isOwn, isOwnHost, type OwnIdentity } from '../policy/routing.ts'
import { isOperationsPath, operationsPrefix, wholeServer } from './own-paths.ts'

/** The way in which a client asks: through the proxy, sent by DNS, with a URL prefix, with `HTTPS///` in it, or in an intercepted tunnel. */
type FetchMode = 'proxy' | 'steered' | 'prefix' | 'https-prefix' | 'intercepted'

type EffectiveTarget =
  | {
      readonly kind: 'fetch'
      readonly uri: TargetUri
      readonly mode: FetchMode
      /** The generation from which the file is wanted; undefined for the present. */
      readonly asOf?: WantedGeneration
      /** The name of a build in the path. */
      readonly build?: string
    }
  | NonFileTarget

/** The generation of a moment, the end of a day or of a second; or that of the Release file with this SHA-256, in lower-case hex. */
export type WantedGeneration = Milliseconds | string

export type NonFileTarget =
  | { readonly kind: 'operations'; readonly path: string; readonly query?: string | undefined }
  | { readonly kind: 'connect'; readonly authority: Authority }
  | Refused

/** A target that this proxy refuses. The sentence is for the client. */
interface Refused {
  readonly kind: 'refuse'
  readonly status: 400 | 404 | 421 | 501
  readonly sentence: string
}

/** The parts of a request on which its target depends. */
export type TargetParts = Pick<
  Request,
  'method' | 'target' | 'fields' | 'secure' | 'local' | 'tunnelEnd'
>

type PathAndQuery = Pick<TargetUri, 'path' | 'query'>

/** Reads a target in any of its four forms. Never throws. */
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
  // Such a client has this proxy configured, and its address in sources.list as well.
  return isOperationsPath(uri.path) ? operations(uri, uri.userinfo) : fromOwnPath(uri, uri.userinfo)
}

function fromOrigin(target: PathAndQuery, asked: TargetParts, own: OwnIdentity): EffectiveTarget {
  if (isOperationsPath(target.path)) return operations(target)
  const scheme = asked.secure ? 'https' : 'http'
  const hosts = asked.fields.all('host')
  if (hosts.length > 1) return refusals.manyHosts
  const host = parseHost(hosts[0], defaultPort(scheme))
  if (host !== undefined && 'problem' in host) return refuse(400, host.problem)
  // HTTP/1.0 clients may leave Host out. A path alone can only be for this proxy.
  if (host === undefined || isMeantForUs(host, asked, own)) return fromOwnPath(target)
  return { kind: 'fetch', uri: { scheme, ...host, ...pathAndQueryOf(target) }, mode: 'steered' }
}

/**
 * Whether a Host means this proxy. Clients that DNS sent here name the archive, and archives use the default port, even on this machine.
 * So an own name with another port means this proxy (such as the mapped port of a container), and so does any name with the port to
 * which the client is connected.
 */
function isMeantForUs(host: Authority, asked: TargetParts, own: OwnIdentity): boolean {
  if (isOwn(host, own) || isLocal(host, asked)) return true
  if (host.port === defaultPort(asked.secure ? 'https' : 'http')) return false
  return host.port === asked.local.port || isOwnHost(host.host, own)
}

/** Whether an authority is the address and the port to which the client is connected. */
function isLocal({ host, port }: Authority, { local }: TargetParts): boolean {
  const address = normaliseAddress(host)
  return port === local.port && address !== undefined && address === normaliseAddress(local.address)
}

/** Reads `/archive.example.org/debian/…` or `/HTTPS///archive.example.org/debian/…` on a host of this proxy. */
function fromOwnPath(target: PathAndQuery, userinfo?: string): EffectiveTarget {
  const https = /^\/+https(?=\/)/i.exec(target.path)
  if (https === null) return fromPrefix(target, 'http', userinfo)
  return fromPrefix({ ...target, path: target.path.slice(https[0].length) }, 'https', userinfo)
}

/** Reads a path whose first segment that is not empty names the host. The rest is the path on that host. */
function fromPrefix(target: PathAndQuery, scheme: Scheme, userinfo?: string): EffectiveTarget {
  const [, segment = '', rest = ''] = /^\/*([^/]*)(.*)$/s.exec(target.path) ?? []
  const known = scheme === 'http' ? archivePrefixes.get(segment) : undefined
  if (known !== undefined) {
    return fromPrefix({ ...target, path: `/${known}/${segment}${rest}` }, scheme, userinfo)
  }
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

/** Whether the first segment of a path names a host, and not a directory or a file for another program. */
function namesHost(segment: string): boolean {
  // A host has a dot or a port, unlike a directory.
  if (!/^[A-Za-z0-9_[][^@]*[.:]/.test(segment)) return false
  if (segment.includes(':') || normaliseAddress(segment) !== undefined) return true
  // The last label of a name is no number (URL Standard section 3.5), unlike in `/v1.0/x`, and no suffix of files, unlike in `/proxy.pac`.
  const last = segment.replace(/\.$/, '').split('.').at(-1)?.toLowerCase() ?? ''
  return !/^\d+$/.test(last) && !fileSuffixes.has(last)
}

/** The suffixes of files for which browsers, clients of other proxies and scanners ask. None is a top-level domain. */
const fileSuffixes: ReadonlySet<string> = new Set(
  (
    'asp aspx bak cfg cfm cgi conf css csv dat deb dll env exe gif gz htm html ico ini iso ' +
    'jpeg jpg js json jsp log old pac pdf php png rpm sql svg tar txt webp xml xz yaml yml'
  ).split(' '),
)

function operations(target: PathAndQuery, userinfo?: string): EffectiveTarget {
  const [, , kind, name = '', rest = ''] = WITHIN.exec(target.path) ?? []
  if (kind === undefined) return { kind: 'operations', ...pathAndQueryOf(target) }
  const digest = /^[0-9a-f]{64}$/.exec(name.toLowerCase())?.[0]
  const asOf = kind === 'snapshot' ? endOf(name) : kind === 'pinned' ? digest : undefined
  if (kind === 'snapshot' && asOf === undefined) return refusals.date
  if (kind === 'pinned' && asOf === undefined) return refusals.pin
  const asked = fromOwnPath({ ...target, path: rest }, userinfo)
  if (asked.kind !== 'fetch') return asked
  return asOf === undefined ? { ...asked, build: name } : { ...asked, asOf }
}

/** A path such as `/_cachesvc/snapshot/2026-11-20/archive.example.org/debian/…` or `/_cachesvc/build/NAME/archive.example.org/debian/…`. */
const WITHIN = new RegExp(`^(${operationsPrefix}/+(snapshot|pinned|build)/+([^/]*))(.*)$`, 's')

/** The part of a snapshot's or a build's path before the host; empty for other paths. */
export function placeWithinOwn(path: string): string {
  return WITHIN.exec(path)?.[1] ?? ''
}

/**
 * The last millisecond of a day by UTC, or of the second that an ID of apt names, so that `20261120T235959Z` is the same as the day
 * 2026-11-20. Undefined when the text is neither. Only the form `%Y%m%dT%H%M%SZ` is an ID. A shorter one is refused, because `20261120`
 * means midnight for the snapshots of one archive, and the end of the day would be another moment.
 */
function endOf(name: string): Milliseconds | undefined {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(name)
  const [, year, month, date, hours, minutes, seconds] = parts ?? []
  const text =
    parts === null
      ? `${name}T00:00:00.000Z`
      : `${year}-${month}-${date}T${hours}:${minutes}:${seconds}.000Z`
  const begin = Date.parse(text)
  const right = !Number.isNaN(begin) && new Date(begin).toISOString() === text
  return right ? begin + (parts === null ? day : 1000) - 1 : undefined
}

function pathAndQueryOf({ path, query }: PathAndQuery): PathAndQuery {
  return query === undefined ? { path } : { path, query }
}

function refuse(status: Refused['status'], sentence: string): Refused {
  return { kind: 'refuse', status, sentence }
}

/** The refusals that do not depend on the policy. */
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
  pin: refuse(
    400,
    'The SHA-256 of an InRelease or Release file follows pinned: /_cachesvc/pinned/SHA256/archive.example.org/debian.',
  ),
  httpsPrefix: refuse(
    400,
    'No host follows HTTPS. Write the source as http://HTTPS///archive.example.org/debian.',
  ),
}
