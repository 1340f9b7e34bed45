/**
 * The addresses that logins send browsers to, always paths of our own origin; and the answers that name them to clients that cannot show
 * the page of a login: the gate and the login give the same.
 *
 * IdPs allow a path, or a whole address, in the RelayState of a login that they began (saml-profiles-2.0-os section 4.1.5). People type it
 * into a form of the IdP, in capitals, with `http:`, with spaces, or encoded. Each form is taken that can mean only one path of ours: a
 * browser is sent to that path of our own origin, never to what stands before it.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { ownField } from '../access/own-fields.ts'
import { cameWithoutTls, isOwnHost, type RequestHead } from '../access/own-origin.ts'
import type { AccessRule } from '../access/rules.ts'
import type { SamlConfig } from '../config/config.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import { json } from '../pages/page.ts'

/**
 * A path of the public origin to send a browser to. It is "/" for a text that is not a path, could be read as another host, or
 * leads back to the endpoints of the login. Callers put our own base URL before it.
 */
export function safeReturn(returnTo: string): string {
  if (!/^\/(?![/\\])[\x21-\x7e]*$/.test(returnTo)) return '/'
  const [path = ''] = returnTo.split(/[?#]/)
  // Browsers remove dot segments: `/.//host` would become another host, and `/./saml/slo` a logout.
  const { pathname } = new URL(`https://own.invalid${path}`)
  const leadsBack = pathname.startsWith('/saml/') || pathname === returnPath
  return leadsBack || pathname.startsWith('//') ? '/' : returnTo
}

/** The path a browser comes back to after the IdP's answer has been accepted. */
export const returnPath = '/__authproxy-redirect'

/** The address a browser comes back to with a login that is completed, is no longer known, or has not begun. */
export function backAddress(
  baseUrl: string,
  id: string,
  as: 'flow' | 'resume' = 'flow',
  how?: LoginKind,
): string {
  return `${baseUrl}${returnPath}?flow=${id}${as === 'resume' ? '&resume=1' : ''}${howText(how)}`
}

/** The address a script, or a page of ours, may send its user to: a login that comes back to `returnTo`. */
export function loginAddress(baseUrl: string, returnTo: string, how?: LoginKind): string {
  return `${baseUrl}${returnPath}?login=${encodeURIComponent(safeReturn(returnTo))}${howText(how)}`
}

/** The kind of a login: as another user than the one who is signed in, or with the properties that a rule needs. */
export type LoginKind = 'other' | Pick<AccessRule, 'number' | 'login'>

function howText(how: LoginKind | undefined): string {
  if (how === undefined) return ''
  return how === 'other' ? '&other' : `&rule=${how.number}`
}

/** The kind of login that an address of these functions asks for, by the rules now in force. */
export function kindIn(query: URLSearchParams, { ruleLogins }: SamlConfig): LoginKind | undefined {
  if (query.has('other')) return 'other'
  const number = Number(query.get('rule') ?? 0)
  const login = ruleLogins[number - 1]
  return login && { number, login }
}

/** The path to go to, and why the RelayState is not used; undefined when it is, or when there is none. */
export interface RelayedTarget {
  readonly path: string
  readonly ignored?: 'too-long' | 'other-host' | 'no-address' | 'own-path'
}

/** The standard allows 80 bytes (saml-bindings-2.0-os section 3.5.3); IdPs accept more. */
const LONGEST = 2000

export function relayedTarget(baseUrl: string, relayState: string): RelayedTarget {
  const ignored = (because: RelayedTarget['ignored'] & string) => ({ path: '/', ignored: because })
  if (relayState === '') return { path: '/' }
  if (relayState.length > LONGEST) return ignored('too-long')
  const text = written(relayState)
  if (text === undefined) return ignored('no-address')
  const [, scheme = '', authority, rest = ''] = ADDRESS.exec(text) ?? []
  if (authority !== undefined && !isOurs(baseUrl, scheme, authority)) return ignored('other-host')
  if (authority === undefined && !text.startsWith('/')) return ignored('no-address')
  const wanted = authority === undefined ? text : rest
  const path = wanted.startsWith('/') ? wanted : `/${wanted}`
  const safe = safeReturn(path)
  if (safe === path) return { path }
  return ignored(path.startsWith('//') || path.startsWith('/\\') ? 'other-host' : 'own-path')
}

const ADDRESS = /^(https?):\/\/([^/?#\\]*)(.*)$/i

/** Decodes an address that is encoded as a whole, and encodes what no address may have; undefined with control characters. */
function written(relayState: string): string | undefined {
  const isEncoded = /^(?:https?%3a|%2f)/i.test(relayState)
  try {
    const text = isEncoded ? decodeURIComponent(relayState) : relayState.trim()
    if (/\p{Cc}/u.test(text)) return undefined
    return text.replace(/[^\x21-\x7e]/gu, character => encodeURIComponent(character))
  } catch {
    return undefined
  }
}

/** Whether a host, with its port, is ours. Capitals and the default port do not count. */
function isOurs(baseUrl: string, scheme: string, authority: string): boolean {
  const port = scheme.toLowerCase() === 'http' ? /:80$/ : /:443$/
  const ours = baseUrl.slice('https://'.length).toLowerCase()
  return [authority, authority.replace(port, '')].some(each => each.toLowerCase() === ours)
}

/** The page for a navigation whose login could not be finished; undefined when it could. */
export function cannotLogIn(
  request: Request,
  to: { readonly domain: string; readonly base: string; readonly returnTo: string },
  failurePage: FailurePage,
): Response | undefined {
  const { domain, base, returnTo } = to
  const host = request.fields.get('Host')
  // The cookies of a login under another name would belong to that name.
  if (!isOwnHost(host, domain)) {
    const words = { base, domain, host: (host ?? 'none').slice(0, 260) }
    return failurePage({ request, code: 'wrong_host', words, facts: { host } })
  }
  // The cookies of a login are Secure, so it could not be finished.
  return cameWithoutTls(request)
    ? failurePage({ request, code: 'without_tls', words: { base, returnTo } })
    : undefined
}

/** What a request lacks: a session; another login than that of its session; a token that is valid for it. */
export type LoginLack = 'session' | 'login' | 'token'

/** The sentence about a token is one for all causes, so that it tells no one whether the token exists. */
const lackSentences: Readonly<Record<LoginLack, string>> = {
  session: 'There is no valid session.',
  login: 'The session is of a login that is too old, or of another kind than is needed here.',
  token:
    'The token in X-Authproxy-Authorization is not valid for this request; the log of authproxy says why. A person can sign in instead.',
}

/**
 * 401 for clients that cannot show a login page: scripts, WebSockets, event streams, programs. It names the address to log in at
 * and leaves no state behind.
 */
export function needsLogin(request: RequestHead, login: string, lacks: LoginLack): Response {
  const safe = ['GET', 'HEAD', 'OPTIONS'].includes(request.method)
  const text = `${lackSentences[lacks]} Open the login address in a browser window.`
  const message = {
    error: 'login_required',
    message: safe ? text : `${text} The request was not kept: send it again after the login.`,
    ...(safe ? {} : { kept: false }),
    login,
    requestId: request.id,
  }
  return json(message, { status: 401, fields: challenge(login) })
}

/** The challenge a 401 needs (RFC 9110 section 15.5.2); one of a scheme browsers do not know shows no dialogue. */
export function challenge(address: string): Fields {
  const scheme = `Authproxy login="${address.replace(/["\\]/g, '')}"`
  return Fields.of(['WWW-Authenticate', scheme], [ownField('Login'), address])
}
