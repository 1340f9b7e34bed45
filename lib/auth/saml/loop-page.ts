/**
 * The page that ends a loop: several logins in a short time, and none of their sessions came back. It names the likely cause,
 * since all the person sees otherwise is a browser that never stops.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { CookieDiagnosis } from '../session/sessions.ts'
import { type LoginState, noStateCookie } from './login-state.ts'
import type { Saml } from './parts.ts'

export interface Cause {
  readonly code: string
  /** Public. */
  readonly text: string
  readonly advice: readonly string[]
}

/** Answers with the page, and forgets the logins so that "try again" is a new beginning. */
export async function loopPage(saml: Saml, request: Request, state: LoginState): Promise<Response> {
  const diagnosis = await saml.sessions.diagnose(request)
  const cause = likelyCause(saml, request, diagnosis, state.last?.ahead ?? 0)
  saml.outcomes.count('login_loop')
  return saml.failurePage({
    request,
    category: 'SAML-ERROR',
    code: 'login_loop',
    status: 403,
    title: 'Signing in does not lead anywhere',
    text: `You have been signed in several times, but each time the next request came without a valid session. ${cause.text}`,
    advice: cause.advice,
    action: { href: '/', label: 'Try again' },
    details: detailsOf(saml, diagnosis),
    fields: Fields.of(['Set-Cookie', noStateCookie]),
    facts: {
      cause: cause.code,
      cookies: diagnosis.count,
      bytes: diagnosis.bytes,
      because: diagnosis.because,
    },
  })
}

/** Both clocks and the cookies, for whoever is asked for help. */
export function detailsOf(
  saml: Saml,
  diagnosis: CookieDiagnosis,
): ReadonlyArray<readonly [string, string]> {
  return [
    ['Session cookies received', `${diagnosis.count} (${diagnosis.bytes} bytes)`],
    ['Clock of this server', clockText(saml.clock.now())],
  ]
}

/** A moment as pages show it, to the second. */
export function clockText(now: Milliseconds): string {
  return new Date(now).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** What most likely keeps the session from coming back, the certain causes first. */
export function likelyCause(
  saml: Saml,
  request: Request,
  diagnosis: CookieDiagnosis,
  ahead: number,
): Cause {
  const { domain, clockSkew } = saml.config()
  const { fields } = request
  const host = fields.get('Host') ?? ''
  // A public port other than 443 is part of `domain`.
  if (host.toLowerCase().replace(/:443$/, '') !== domain) {
    return {
      code: 'wrong_host',
      text: 'This server is reached under another host name than it is configured for, so the cookie belongs elsewhere.',
      advice: [
        `Open https://${domain}/ instead.`,
        'Administrator: the edge proxy has to pass the public Host on, and `domain` has to equal it.',
      ],
    }
  }
  if (!request.secure && fields.get('X-Forwarded-Proto')?.toLowerCase() === 'http') {
    return {
      code: 'http_edge',
      text: 'The edge in front of this service says that the request came without TLS, and browsers keep session cookies back from such connections.',
      advice: [
        `Open https://${domain}/ instead.`,
        'Administrator: the edge proxy has to send X-Forwarded-Proto: https and redirect http to https.',
      ],
    }
  }
  if (diagnosis.count > 0) {
    return {
      code: 'cookie_invalid',
      text: 'The browser sent a session cookie, but not one that is valid here.',
      advice: [
        `Delete the cookies of ${domain} and try again.`,
        'Administrator: look whether another site of the parent domain sets a cookie of the same name, or several servers with different keys answer under this name.',
      ],
    }
  }
  if (Math.abs(ahead) > clockSkew) {
    const seconds = Math.round(Math.abs(ahead) / 1000)
    return {
      code: 'clock',
      text: `The clocks of this server and of the identity provider differ by about ${seconds} seconds.`,
      advice: ['Try again in a few minutes.', 'Administrator: set both clocks by NTP.'],
    }
  }
  return {
    code: 'cookie_missing',
    text: 'The browser did not send the session cookie back: it refuses cookies of this site, or the cookie was too large for it or for a proxy on the way.',
    advice: [
      `Allow cookies for ${domain}, and leave private mode or switch off extensions that block them.`,
      'Administrator: if only people with many groups are affected, limit the groups that are kept.',
    ],
  }
}
