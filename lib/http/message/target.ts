/**
 * Request targets in their four forms, RFC 9112 section 3.2, and authorities, RFC 3986 section 3.2. It turns text into values, without I/O.
 * The bytes of the path stay as they came; other files make canonical keys.
 *
 * When two readers see different hosts in one text, a request can evade the policy. So an authority has one reading or is refused: it has
 * no second "@", no backslash, no percent-encoding, no zone, and no abbreviated or octal IPv4 address.
 */
import { isIPv4, SocketAddress } from 'node:net'
import { isIP } from '../../ip.ts'
import { recentEntries } from '../../recent.ts'

export type Scheme = 'http' | 'https'

/** A host and a port. IPv6 addresses are kept without brackets; names are lower case without a trailing dot. */
export interface Authority {
  readonly host: string
  readonly port: number
}

interface PathAndQuery {
  /** Path with its leading slash; its bytes are as they came. */
  readonly path: string
  /** Query without its question mark; undefined when there was no question mark. */
  readonly query?: string | undefined
}

/** The parts of an absolute http or https URI. */
export interface TargetUri extends Authority, PathAndQuery {
  readonly scheme: Scheme
  /** `user:password` as it stood in the URI, still percent-encoded. Never log it. */
  readonly userinfo?: string
}

export type Target =
  | (PathAndQuery & { readonly form: 'origin' })
  | { readonly form: 'absolute'; readonly uri: TargetUri }
  | { readonly form: 'authority'; readonly authority: Authority }
  | { readonly form: 'asterisk' }

/** Why a text was refused: one fixed sentence that quotes nothing of the text, so it is safe in a public answer. */
export interface Problem {
  readonly problem: string
}

/** The target of a request line, in the form that its method requires (RFC 9112 section 3.2), or its fault. */
export function parseTarget(method: string, text: string): Target | Problem {
  // authority-form is only used for CONNECT, and CONNECT uses nothing else (3.2.3).
  if (method === 'CONNECT') {
    const authority = parseTunnelEnd(text)
    return 'problem' in authority ? authority : { form: 'authority', authority }
  }
  // asterisk-form is only used for a server-wide OPTIONS (3.2.4).
  if (text === '*') {
    return method === 'OPTIONS'
      ? { form: 'asterisk' }
      : refuse('Only OPTIONS may have the target "*".')
  }
  const unfit = unfitText(text)
  if (unfit !== undefined) return unfit
  // origin-form begins with a slash (3.2.1), absolute-form with a scheme (3.2.2).
  if (text.startsWith('/')) return { form: 'origin', ...splitPath(text) }
  const uri = parseAbsolute(text)
  return 'problem' in uri ? uri : { form: 'absolute', uri }
}

/** An absolute http or https URI (RFC 9110 section 4.2). A fragment is refused; a caller that allows one removes it first. */
export function parseUri(text: string): TargetUri | Problem {
  return unfitText(text) ?? parseAbsolute(text)
}

/** `host` or `host:port`, IPv6 in brackets (RFC 3986 section 3.2). Without a `defaultPort` a port is required. */
export function parseAuthority(text: string, defaultPort: number | undefined): Authority | Problem {
  if (text.startsWith('[')) {
    const end = text.indexOf(']')
    if (end < 0) return refuse('The bracket before the IPv6 address is never closed.')
    const after = text.slice(end + 1)
    if (after !== '' && !after.startsWith(':')) {
      return refuse('Only a colon and a port may follow the bracket after an IPv6 address.')
    }
    const literal = text.slice(1, end)
    return authorityOf(isPlainIPv6(literal) ? literal : undefined, after.slice(1), defaultPort)
  }
  const colon = text.indexOf(':')
  if (colon < 0) return authorityOf(text, '', defaultPort)
  if (text.includes(':', colon + 1)) {
    return refuse('There is more than one colon: an IPv6 address belongs in brackets.')
  }
  return authorityOf(text.slice(0, colon), text.slice(colon + 1), defaultPort)
}

/** The Host field (RFC 9110 section 7.2). A missing or empty one says that the target has no authority: undefined. */
export function parseHost(
  value: string | undefined,
  defaultPort: number,
): Authority | undefined | Problem {
  return value === undefined || value === '' ? undefined : parseAuthority(value, defaultPort)
}

/** `host:port`, IPv6 in brackets; the port is left out when it is the default of `scheme`. */
export function formatAuthority(authority: Authority, scheme?: Scheme): string {
  const host = authority.host.includes(':') ? `[${authority.host}]` : authority.host
  const implied = scheme !== undefined && authority.port === defaultPort(scheme)
  return implied ? host : `${host}:${authority.port}`
}

/** The URI as text, without its userinfo, so it is fit for logs, pages and keys. */
export function formatUri(uri: TargetUri): string {
  return `${uri.scheme}://${formatAuthority(uri, uri.scheme)}${pathAndQuery(uri)}`
}

/** Path and query as origin-form has them. */
export function pathAndQuery(of: PathAndQuery): string {
  return of.query === undefined ? of.path : `${of.path}?${of.query}`
}

/** The path and the query of a target; the path is `*` when the target has none. */
export function originForm(target: Target): PathAndQuery {
  if (target.form === 'origin') return target
  return target.form === 'absolute' ? target.uri : { path: '*' }
}

/** 80 for http, 443 for https (RFC 9110 sections 4.2.1 and 4.2.2). */
export function defaultPort(scheme: Scheme): number {
  return scheme === 'http' ? 80 : 443
}

/** Whether a host is an IPv4 or an IPv6 address (without brackets) rather than a name. */
export function isIpLiteral(host: string): boolean {
  return isIP(host) !== 0
}

/**
 * The target of CONNECT: host and port, both required (RFC 9110 section 9.3.6). apt writes IPv6 addresses without brackets
 * (`2001:db8::1:443`), so the last colon separates the port when an IPv6 address stands before it.
 */
function parseTunnelEnd(text: string): Authority | Problem {
  const colon = text.lastIndexOf(':')
  const before = text.slice(0, Math.max(colon, 0))
  if (before.includes(':') && isPlainIPv6(before)) {
    return authorityOf(before, text.slice(colon + 1), undefined)
  }
  return parseAuthority(text, undefined)
}

function unfitText(text: string): Problem | undefined {
  // A request target carries no fragment (RFC 9112 section 3.2).
  if (text.includes('#')) return refuse('A target has no fragment: "#" must be written as %23.')
  // RFC 3986 section 2 allows visible ASCII only. Characters that it leaves out but clients send in paths, such as "|", are accepted.
  return NOT_VISIBLE.test(text)
    ? refuse('A target consists of visible ASCII characters; others must be percent-encoded.')
    : undefined
}

const NOT_VISIBLE = /[^\x21-\x7e]/

function parseAbsolute(text: string): TargetUri | Problem {
  const scheme = schemeOf(text)
  if (scheme === undefined) {
    return refuse('The target must be a path or an absolute http:// or https:// URI.')
  }
  const rest = text.slice(scheme.length + '://'.length)
  const end = rest.search(END_OF_AUTHORITY)
  const authority = rest.slice(0, end)
  const at = authority.indexOf('@')
  const userinfo = authority.slice(0, Math.max(at, 0))
  // A second "@" fails here or in the host, so a target with two is refused.
  if (!USERINFO.test(userinfo)) return refuse('The user information before "@" is malformed.')
  const result = parseAuthority(authority.slice(at + 1), defaultPort(scheme))
  if ('problem' in result) return result
  return {
    scheme,
    host: result.host,
    port: result.port,
    ...(userinfo === '' ? {} : { userinfo }),
    ...splitPath(rest.slice(end)),
  }
}

/** Schemes are case-insensitive (RFC 3986 section 3.1). */
function schemeOf(text: string): Scheme | undefined {
  const prefix = text.slice(0, 8).toLowerCase()
  if (prefix.startsWith('http://')) return 'http'
  return prefix === 'https://' ? 'https' : undefined
}

/** The first "/" or "?", or the end of the text (RFC 3986 section 3.2). */
const END_OF_AUTHORITY = /[/?]|$/

/** userinfo = *( unreserved / pct-encoded / sub-delims / ":" ) (RFC 3986 section 3.2.1) */
const USERINFO = /^(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*$/

/** An empty path means "/" (RFC 9110 section 4.2.3). */
function splitPath(text: string): PathAndQuery {
  const mark = text.indexOf('?')
  if (mark < 0) return { path: text === '' ? '/' : text }
  return { path: mark === 0 ? '/' : text.slice(0, mark), query: text.slice(mark + 1) }
}

/** `host` is undefined when the text in the brackets is no address. */
function authorityOf(
  host: string | undefined,
  port: string,
  defaultPort: number | undefined,
): Authority | Problem {
  const number = port === '' ? defaultPort : PORT.test(port) ? Number(port) : 0
  if (number === undefined) return refuse('A port is required: host:port.')
  if (number < 1 || number > 65_535) return refuse('A port is a number from 1 to 65535.')
  if (host === undefined) return refuse('Only an IPv6 address without a zone may be in brackets.')
  const canonical = canonicalHost(host)
  return typeof canonical === 'string' ? { host: canonical, port: number } : canonical
}

const PORT = /^\d{1,5}$/

/** A zone names an interface of the machine that wrote it, and has no meaning here (RFC 6874 section 4). */
function isPlainIPv6(text: string): boolean {
  return isIP(text) === 6 && !text.includes('%')
}

/** The host in lower case, without a trailing dot, and IPv6 in its canonical spelling (RFC 5952): equal hosts become equal text. */
function canonicalHost(host: string): string | Problem {
  if (host.includes(':')) return new SocketAddress({ address: host, family: 'ipv6' }).address
  if (host === '') return refuse('The host is empty.')
  const written = host.endsWith('.') ? host.slice(0, -1) : host
  if (written.length > 253) return refuse('A host name has at most 253 characters.')
  if (!NAME.test(written)) {
    return refuse(
      'A host name consists of labels of 1 to 63 letters, digits, hyphens or underscores, separated by dots.',
    )
  }
  const name = written.toLowerCase()
  // Resolvers read "127.1", "0177.0.0.1" and "0x7f000001" as addresses; RFC 3986 section 3.2.2 knows only the full form.
  if (NUMERIC.test(name) && !isIPv4(name)) {
    return refuse('An IPv4 address consists of four decimal numbers from 0 to 255.')
  }
  return name
}

const NAME = /^[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*$/
const NUMERIC = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/

function refuse(problem: string): Problem {
  return { problem }
}

/** How many targets are remembered, and the longest in characters. Together they take some megabytes at most. */
const remembered = 4096
const longest = 1024

/**
 * Reads request targets and remembers frequent ones, so that equal texts give one `Target`. A caller can keep a result for a target in a
 * WeakMap, where it lasts no longer than the target.
 */
export class TargetReader {
  readonly #known = recentEntries<string, Target>(remembered)

  /** Answers as `parseTarget` does. */
  read(method: string, text: string): Target | Problem {
    // The method decides the form; methods other than GET are rare.
    if (method !== 'GET' || text.length > longest) return parseTarget(method, text)
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const target = parseTarget(method, text)
    if (!('problem' in target)) this.#known.set(text, target)
    return target
  }
}
