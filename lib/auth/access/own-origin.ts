/**
 * Whether a request is for the public origin, came to it by TLS, or comes from a page of it. Pure.
 */
import type { Request } from '../../http/message/message.ts'
import { parseAuthority } from '../../http/message/target.ts'
import { ownCookies } from './own-cookies.ts'

/** The parts of a request that decide whether it passes, and what answers it when it does not. */
export type RequestHead = Pick<
  Request,
  'id' | 'method' | 'target' | 'version' | 'fields' | 'client'
>

/** Path and query of a request line. */
export interface Place {
  readonly path: string
  readonly query?: string | undefined
}

/** What a request line asks for; undefined for a target this instance does not answer (RFC 9112 section 3.2). */
export function placeOf({ target }: Request, domain: string): Place | undefined {
  if (target.form === 'origin') return target
  if (target.form !== 'absolute') return undefined
  const { host, port } = target.uri
  const own = parseAuthority(domain, 443)
  if ('problem' in own || own.host !== host) return undefined
  return port === own.port || port === 80 || port === 443 ? target.uri : undefined
}

/** Whether a Host field means the public host. */
export function isOwnHost(host: string | undefined, domain: string): boolean {
  const own = parseAuthority(domain, 443)
  const asked = parseAuthority(host ?? '', 443)
  if ('problem' in own || 'problem' in asked) return false
  return own.host === asked.host && own.port === asked.port
}

/**
 * The Host the backend gets: the Host of the request when that is the public host, else the public host. Applications make
 * links of it and mail them; others choose by it which customer's data they show.
 */
export function hostFor({ fields }: Pick<Request, 'fields'>, domain: string): string {
  const host = fields.get('Host')
  return host !== undefined && isOwnHost(host, domain) ? host : domain
}

/**
 * Whether a browser came by plain HTTP: the edge says so, and the browser does not contradict it. Browsers send Fetch metadata
 * (W3C Fetch Metadata section 2) and our cookies over TLS alone. When a request has either of them, the edge is wrong and the
 * login works all the same.
 */
export function cameWithoutTls(request: Request): boolean {
  const { fields } = request
  if (!isSaidWithoutTls(request)) return false
  return !fields.has('Sec-Fetch-Mode') && ownCookies(fields).length === 0
}

/** Whether the edge says that a request came by plain HTTP, be it right or wrong. */
export function isSaidWithoutTls({ secure, fields }: Request): boolean {
  const said = fields.all('X-Forwarded-Proto').join(',').toLowerCase().split(',')
  return !secure && said.every(scheme => scheme.trim() === 'http')
}

/**
 * Whether a post comes from a page of our own origin. A post of another site must never be kept, nor sent again, in the name of
 * the user. Sec-Fetch-Site decides: the browser writes it, and no page can. Origin decides only for browsers that do not send it,
 * because a page with `Referrer-Policy: no-referrer` posts `Origin: null` to its own origin as well. A post that has neither could
 * be from any site, so it does not count as our own.
 */
export function isOwnPost({ fields }: Pick<Request, 'fields'>, baseUrl: string): boolean {
  const site = fields.get('Sec-Fetch-Site')
  return site === undefined ? fields.get('Origin') === baseUrl : site === 'same-origin'
}

/**
 * Whether a page of another origin opens a WebSocket: browsers send the cookie along without asking (RFC 6455 section 10.2).
 * Programs other than browsers send no Origin.
 */
export function isForeignSocket(
  { fields }: Pick<Request, 'fields'>,
  {
    baseUrl,
    webSocketOrigins,
  }: { readonly baseUrl: string; readonly webSocketOrigins: readonly string[] },
): boolean {
  if (!fields.has('Upgrade')) return false
  const origin = fields.get('Origin')
  return origin !== undefined && origin !== baseUrl && !webSocketOrigins.includes(origin)
}

/**
 * Where a user goes after a login for a request of a script: back to the page it ran in, when that is one of ours; else to
 * `asked` when a navigation could have asked for it.
 */
export function pageOf(request: RequestHead, baseUrl: string, asked: string): string {
  const { fields, method } = request
  const page = ownReferer(request, baseUrl)
  if (page !== undefined) return page
  return method === 'GET' && !fields.has('Sec-Fetch-Mode') && !fields.has('Upgrade') ? asked : '/'
}

/** Path and query of the page of ours a request comes from; undefined when it comes from none. */
export function ownReferer(
  { fields }: Pick<Request, 'fields'>,
  baseUrl: string,
): string | undefined {
  const referer = fields.get('Referer') ?? ''
  const [page = ''] = referer.startsWith(baseUrl) ? referer.slice(baseUrl.length).split('#', 1) : []
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(page) ? page : undefined
}
