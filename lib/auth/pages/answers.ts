/**
 * What is answered when a request cannot pass: a function for every reason. Public texts are fixed; what happened stands in
 * the log under the request's ID.
 */
import { Failure } from '../../errors.ts'
import { OriginAborted, OriginFailure, OriginRequestUnfit } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { ContentTooSlow } from '../../http/proxy/forward.ts'
import type { Config } from '../config/config.ts'
import type { Lost } from '../form-preservation/form-reader.ts'
import type { FailurePage } from '../saml/contract.ts'
import { ownFields } from './page.ts'

/** 508: the request has been here before (RFC 5842 section 7.2). */
export function looped(request: Request, failurePage: FailurePage): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'loop_detected',
    status: 508,
    reason: 'Loop Detected',
    title: 'Loop detected',
    text: 'This request came back to where it had been forwarded from.',
    advice: [
      'The backend address of this service, or a route of the edge in front of it, leads back here. Please tell whoever runs it.',
    ],
  })
}

/** 502, with the reason phrase operators look for. */
export function backendFailed(
  request: Request,
  error: unknown,
  failurePage: FailurePage,
): Response {
  const cause = error instanceof OriginAborted ? error.cause : undefined
  if (cause instanceof ContentTooSlow) return tooSlow(request, cause, failurePage)
  if (error instanceof OriginRequestUnfit) return unfit(request, error, failurePage)
  if (!(error instanceof OriginFailure)) throw error
  // Nobody reads it, and nothing has failed.
  if (request.signal.aborted) return gone()
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: error.code.toLowerCase().replace(/^origin_/, 'backend_'),
    status: 502,
    reason: 'Proxy Error',
    title: 'The application cannot be reached',
    text: 'You have got as far as this service, but the application behind it did not answer.',
    advice: [
      'Please try again in a moment.',
      'If it stays so, tell your administrator the reference below.',
    ],
    facts: { ...error.facts, problem: error.publicText },
    cause: error,
  })
}

/**
 * 401 for whatever cannot show a login page: scripts, WebSockets, event streams, programs. It names the address to log in at
 * and leaves no state behind.
 */
export function needsLogin(request: Request, address: string): Response {
  const safe = ['GET', 'HEAD', 'OPTIONS'].includes(request.method)
  const text = 'There is no valid session. Open the login address in a browser window.'
  const lost = ' The request was not kept: send it again after the login.'
  const message = {
    error: 'login_required',
    message: safe ? text : `${text}${lost}`,
    ...(safe ? {} : { kept: false }),
    login: address,
    requestId: request.id,
  }
  return {
    status: 401,
    fields: Fields.fromFlat([
      ...['Content-Type', 'application/json; charset=utf-8'],
      ...challenge(address).flat,
      ...ownFields.flat,
    ]),
    content: { kind: 'bytes', bytes: Buffer.from(`${JSON.stringify(message)}\n`) },
  }
}

/** RFC 9110 section 15.5.2 wants a challenge; one of a scheme browsers do not know shows no dialogue. */
function challenge(address: string): Fields {
  const scheme = `Authproxy login="${address.replace(/["\\]/g, '')}"`
  return Fields.of(['WWW-Authenticate', scheme], ['X-Authproxy-Login', address])
}

/** 401 for a form that cannot be kept until its sender has logged in: said before the login, while the browser still has it. */
export function notKept(
  request: Request,
  {
    because,
    login,
    limit,
  }: { readonly because: Lost; readonly login: string; readonly limit: number },
  failurePage: FailurePage,
): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'request_not_kept',
    status: 401,
    title: 'What you sent was not kept',
    text: `There is no valid session, and the request could not be kept until you have signed in: ${LOST[because]}. The application has not received it.`,
    advice: [
      'To keep what you filled in: sign in in another tab, then go back here and send it again.',
    ],
    action: { href: login, label: 'Sign in' },
    ...(because === 'too-large' ? { details: [['Limit', `${limit} bytes`]] } : {}),
    fields: challenge(login),
    facts: { because },
  })
}

const LOST: Readonly<Record<Lost, string>> = {
  off: 'this service keeps none',
  type: 'it is no form',
  foreign: 'it comes from a page of another site',
  stranger: 'it cannot be known whose it is, since nobody was signed in with this browser before',
  'too-large': 'it is too large',
  late: 'it did not arrive in time',
  busy: 'too many others are being kept just now',
  spent: 'it was sent already',
}

/** 421: a login begun under another name could never be finished, because its cookies would be somebody else's. */
export function wrongHost(request: Request, config: Config, failurePage: FailurePage): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'wrong_host',
    status: 421,
    title: 'This is not the address of the service',
    text: 'You cannot log in under this host name: the cookies of the login would belong to another one.',
    advice: [
      'Use the address below.',
      'Administrator: if the browser shows that address already, the edge in front of this service does not preserve the Host.',
    ],
    action: { href: `${config.baseUrl}/`, label: `Go to ${config.domain}` },
    details: [
      ['Host of this service', config.domain],
      ['Host of this request', (request.fields.get('Host') ?? 'none').slice(0, 260)],
    ],
    facts: { host: request.fields.get('Host') },
  })
}

/**
 * 403: a browser that came without TLS. Every cookie of a login is for https alone, so the identity provider would be asked in
 * vain. `path` is what was asked for.
 */
export function withoutTls(
  request: Request,
  asked: { readonly config: Config; readonly path: string },
  failurePage: FailurePage,
): Response {
  const { baseUrl } = asked.config
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'without_tls',
    status: 403,
    title: 'This page needs a secure connection',
    text: 'Your browser came here by http, without TLS. The cookies of a login are kept for https alone, so you cannot be signed in this way.',
    advice: [
      'Open the address below, which begins with https.',
      'Administrator: the edge in front of this service has to redirect http to https, and to send X-Forwarded-Proto: https with everything that came over TLS.',
    ],
    action: { href: `${baseUrl}${asked.path}`, label: `Go to ${baseUrl}` },
    details: [['X-Forwarded-Proto of this request', 'http']],
  })
}

/** 403: a page of another site tried to open a WebSocket with the user's session. */
export function wrongOrigin(request: Request, failurePage: FailurePage): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'websocket_origin',
    status: 403,
    title: 'Not from this page',
    text: 'Pages of other sites may not open connections here.',
    advice: ['Administrator: origins that may are named in proxy.webSocketOrigins.'],
    facts: { origin: request.fields.get('Origin') },
  })
}

/** 400: a target that names another server, or none. */
export async function foreignTarget(request: Request, failurePage: FailurePage): Promise<Response> {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'foreign_target',
    status: 400,
    title: 'Not a target of this service',
    text: 'The request names another server, or no path at all.',
    advice: [
      'Open the address of the application in your browser.',
      'Administrator: this service is a gateway for one application; no browser may have it as its proxy.',
    ],
  })
}

/** 500 for what nobody foresaw; a Failure's public text where there is one. */
export function unforeseen(request: Request, error: unknown, failurePage: FailurePage): Response {
  if (error instanceof ContentTooSlow) return tooSlow(request, error, failurePage)
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: error instanceof Failure ? error.code.toLowerCase() : 'internal',
    status: 500,
    title: 'Something went wrong here',
    text: error instanceof Failure ? error.publicText : 'The service made a mistake.',
    advice: [
      'Please try again in a moment.',
      'If it happens again, tell your administrator the reference below.',
    ],
    cause: error,
  })
}

function tooSlow(request: Request, cause: ContentTooSlow, failurePage: FailurePage): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'client_too_slow',
    status: 408,
    title: 'The upload stopped',
    text: cause.publicText,
    advice: ['Please send it again, over a better connection if there is one.'],
    cause,
  })
}

function unfit(request: Request, cause: OriginRequestUnfit, failurePage: FailurePage): Response {
  return failurePage({
    request,
    category: 'PROXY-ERROR',
    code: 'request_unfit',
    status: 400,
    title: 'This request cannot be forwarded',
    text: 'A field of the request has characters that fields do not have.',
    advice: ['Delete the cookies of this site in your browser and try again.'],
    cause,
  })
}

function gone(): Response {
  const content = { kind: 'none' } as const
  return { status: 499, fields: Fields.empty, content, facts: { outcome: 'client-gone' } }
}
