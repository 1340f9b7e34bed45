/**
 * The page for a login whose session cookie does not come back. It names the likely cause, since the person sees otherwise
 * only a browser that loads without end.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { Sentence } from '../pages/language.ts'
import { timeText } from '../pages/page.ts'
import type { CookieDiagnosis } from '../session/sessions.ts'
import type { LoginState } from './login-state.ts'
import type { Saml } from './parts.ts'

const said = {
  login_loop:
    'You have been signed in several times, but each time the next request came without a valid session.',
  session_cookie_missing:
    'The identity provider has signed you in, but no valid session came back with the next request.',
} as const satisfies Readonly<Record<string, Sentence>>

/** Answers with the page. `setCookie` changes the state cookie. */
export async function lostSession(
  saml: Saml,
  request: Request,
  lost: {
    readonly code: keyof typeof said
    readonly state: LoginState
    readonly setCookie?: string
  },
): Promise<Response> {
  const { code, state, setCookie } = lost
  const { count, bytes, because } = await saml.sessions.diagnose(request)
  const ahead = state.last?.ahead ?? 0
  const cause = likelyCause(saml, request, { count, ahead })
  saml.outcomes.count(code)
  return saml.failurePage({
    request,
    code,
    as: `lost_${cause}`,
    words: {
      said: said[code],
      seconds: `${Math.round(Math.abs(ahead) / 1000)}`,
      cookies: `${count} (${bytes} bytes)`,
      clock: timeText(saml.clock.now()),
      base: saml.config().baseUrl,
    },
    fields: Fields.of(['Set-Cookie', setCookie]),
    facts: { cause, cookies: count, bytes, because, stateCookie: state.flows.length > 0 },
  })
}

/** What most likely keeps the session from coming back, the certain causes first. */
function likelyCause(
  saml: Saml,
  { fields, secure }: Request,
  { count, ahead }: Pick<CookieDiagnosis, 'count'> & { readonly ahead: Milliseconds },
): 'wrong_host' | 'http_edge' | 'cookie_invalid' | 'clock' | 'cookie_missing' {
  const { domain, clockSkew } = saml.config()
  // A public port other than 443 is part of `domain`.
  const host = fields.get('Host')?.toLowerCase().replace(/:443$/, '') ?? ''
  if (host !== domain) return 'wrong_host'
  if (!secure && fields.get('X-Forwarded-Proto')?.toLowerCase() === 'http') return 'http_edge'
  if (count > 0) return 'cookie_invalid'
  return Math.abs(ahead) > clockSkew ? 'clock' : 'cookie_missing'
}
