/**
 * Recognises the preflight of a call that a page of another origin is about to make (Fetch, section 4.8: CORS-preflight fetch). Pure.
 *
 * # Facts
 * - Browsers send it without cookies and without credentials, so no session ever comes with one. It names the origin, and the
 *   method of the call; it is OPTIONS and has no content.
 * - The call itself follows only when the answer allows it, with cookies where the site is the same, and needs a session like any
 *   other request.
 * - Some frameworks take the method from a field or from the query and would run that method instead of OPTIONS. A request that
 *   names a method there does not count as a preflight.
 */
import type { Fields } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { isAmbiguous, tokenField } from './passthrough.ts'
import { type AccessRules, isClosed, namedMethods } from './rules.ts'

/** The parts of a request that the decision needs. */
interface Asked {
  readonly request: Pick<Request, 'method' | 'fields'>
  /** The path as it is forwarded. */
  readonly path: string
  readonly query?: string | undefined
}

/** Whether a request is a preflight that may pass without a session. A doubtful request does not count as one. */
export function isPreflight(
  { request: { method, fields }, path, query }: Asked,
  { baseUrl, access }: { readonly baseUrl: string; readonly access: AccessRules | undefined },
): boolean {
  if (method !== 'OPTIONS') return false
  const [announced, ...more] = fields.all('Access-Control-Request-Method')
  if (announced === undefined || more.length > 0 || !METHOD.test(announced)) return false
  if (FORBIDDEN.test(announced) || !isOtherOrigin(fields.all('Origin'), baseUrl)) return false
  if (REFUTES.some(name => fields.has(name)) || !saysSo(fields)) return false
  if (namedMethods(fields, query).length > 0 || isAmbiguous(path)) return false
  return access === undefined || ['OPTIONS', announced].every(each => !isClosed(access, each, path))
}

/** A token (RFC 9110 section 5.6.2), as long as methods are. */
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$/
/** Methods no browser announces (Fetch, section 2.2.1). */
const FORBIDDEN = /^(?:connect|trace|track)$/i

/** Browsers send none of these fields with a preflight. The gate judges a passthrough token before it asks this function. */
const REFUTES = ['Upgrade', 'Transfer-Encoding', 'Range', tokenField]

/** Whether the values are one single origin and not the public one; `null` is the origin of a page in a sandbox. */
function isOtherOrigin([origin, ...more]: readonly string[], baseUrl: string): boolean {
  if (origin === undefined || more.length > 0 || origin === baseUrl) return false
  return (
    origin === 'null' || /^[a-z][a-z0-9+.-]{0,30}:\/\/[\x21-\x2b\x2d-\x7e]{1,300}$/i.test(origin)
  )
}

/** Whether Fetch metadata, when the browser sends them, and the length of the content fit a preflight. */
function saysSo(fields: Fields): boolean {
  const mode = fields.get('Sec-Fetch-Mode') ?? 'cors'
  const site = fields.get('Sec-Fetch-Site') ?? 'cross-site'
  const length = fields.get('Content-Length') ?? '0'
  return mode === 'cors' && ['cross-site', 'same-site'].includes(site) && length === '0'
}
