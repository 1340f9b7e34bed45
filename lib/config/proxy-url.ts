/**
 * Reads settings that name another HTTP proxy for requests, by its URL with credentials, and finds the variables that name one
 * for other programs, which are not settings here. No message quotes the credentials.
 */
import type { Parent } from '../http/client/dialling/parents.ts'
import { type Authority, formatAuthority, type Scheme } from '../http/message/target.ts'
import { canonicalHost, readPort, splitPort } from './address-kinds.ts'
import { type ReadResult, readFailure, readResult } from './reading.ts'
import { type Kind, kind } from './settings.ts'

export const proxyUrl: Kind<Parent> = kind({ name: 'URL', json: { type: 'string' } }, readProxyUrl)

/** The URL of an HTTP proxy that is shown to clients: without credentials. */
export const openProxyUrl: Kind<Authority> = kind(
  { name: 'URL', json: { type: 'string' } },
  found => {
    const read = readProxyUrl(found)
    if (!read.ok) return read
    const { host, port, credentials } = read.value
    return credentials === undefined
      ? readResult({ host, port })
      : readFailure('found credentials, which all clients would see; write the URL without them')
  },
)

/** Reads `http://user:password@proxy.example.org:3128`. */
export function readProxyUrl(found: unknown): ReadResult<Parent> {
  const what = 'the URL of an HTTP proxy such as http://proxy.example.org:3128'
  if (typeof found !== 'string') return readFailure(`found no text, expected ${what}`)
  const [, scheme, authority, path] =
    /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#]*)(.*)$/is.exec(found) ?? []
  if (scheme === undefined) return readFailure(`found no scheme, expected ${what}`)
  if (scheme.toLowerCase() !== 'http') {
    return readFailure(`found the scheme ${scheme}, expected ${what}; others are not supported`)
  }
  if (path !== undefined && path !== '' && path !== '/')
    return readFailure(`found a path, expected ${what}`)
  const at = authority?.lastIndexOf('@') ?? -1
  const parts = splitPort(authority?.slice(at + 1) ?? '')
  const host = canonicalHost(parts.host)
  if (host === undefined) return readFailure(`found no usable host, expected ${what}`)
  const port = parts.port === undefined ? readResult(80) : readPort(parts.port, 1)
  if (!port.ok) return readFailure(`${port.problem}, expected ${what}`)
  if (at < 0) return readResult({ host, port: port.value, credentials: undefined })
  const credentials = decodeCredentials(authority?.slice(0, at) ?? '')
  if (!credentials.ok) return credentials
  return readResult({ host, port: port.value, credentials: credentials.value })
}

function decodeCredentials(userinfo: string): ReadResult<string> {
  const colon = userinfo.indexOf(':')
  const user = colon < 0 ? userinfo : userinfo.slice(0, colon)
  const password = colon < 0 ? '' : userinfo.slice(colon + 1)
  try {
    const decoded = [decodeURIComponent(user), decodeURIComponent(password)]
    // RFC 7617 section 2 allows no colon in the user name, and no control characters in either part.
    if (decoded[0]?.includes(':'))
      return readFailure('the user name of the parent proxy has a colon')
    if (/\p{Cc}/u.test(decoded.join(''))) {
      return readFailure('the credentials of the parent proxy have a control character')
    }
    return readResult(decoded.join(':'))
  } catch {
    return readFailure(
      'the credentials of the parent proxy have a % that begins no escape; write %25',
    )
  }
}

const variables: Readonly<Record<Scheme | 'all', readonly string[]>> = {
  http: ['http_proxy', 'HTTP_PROXY'],
  https: ['https_proxy', 'HTTPS_PROXY'],
  all: ['all_proxy', 'ALL_PROXY'],
}

/**
 * The first variable of the environment that names a proxy for URLs of these schemes, and the URL to set in its place, without
 * credentials; undefined when there is none.
 */
export function proxyVariable(
  environment: Readonly<Record<string, string | undefined>>,
  schemes: readonly Scheme[],
): { readonly name: string; readonly url: string } | undefined {
  const names = [...schemes, 'all' as const].flatMap(scheme => variables[scheme])
  const name = names.find(each => (environment[each] ?? '') !== '')
  if (name === undefined) return undefined
  const read = readProxyUrl(environment[name])
  return { name, url: `http://${read.ok ? formatAuthority(read.value) : 'proxy.example.org:3128'}` }
}
