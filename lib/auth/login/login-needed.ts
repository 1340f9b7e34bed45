/**
 * The answers to requests that need a login: 401 with the address of the login for clients that cannot show its page, and a page for a
 * navigation whose login could not be finished. The gate and the login give the same.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { cameWithoutTls, isOwnHost, type RequestHead } from '../access/own-origin.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import { json } from '../pages/page.ts'

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

/**
 * 401 for clients that cannot show a login page: scripts, WebSockets, event streams, programs. It names the address to log in at
 * and leaves no state behind. `signedIn`: there is a session, and its login does not suffice.
 */
export function needsLogin(request: RequestHead, login: string, signedIn = false): Response {
  const safe = ['GET', 'HEAD', 'OPTIONS'].includes(request.method)
  const why = signedIn
    ? 'The session is of a login that is too old, or of another kind than is needed here.'
    : 'There is no valid session.'
  const text = `${why} Open the login address in a browser window.`
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
  return Fields.of(['WWW-Authenticate', scheme], ['X-Authproxy-Login', address])
}
