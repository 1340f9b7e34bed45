/**
 * The pages for a message of the IdP that is refused, and for a login whose session cookie does not come back. Their texts are in
 * the table of failures; what was checked is in the log.
 */
import type { Milliseconds, Seconds } from '../../async/clock.ts'
import type { Facts } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { isOwnHost } from '../access/own-origin.ts'
import { type FailureCode, failures } from '../pages/failures.ts'
import type { Sentence } from '../pages/language.ts'
import { timeText } from '../pages/page.ts'
import type { CookieDiagnosis } from '../session/sessions.ts'
import type { AssertionFinding } from './core/check-assertion.ts'
import type { LoginState } from './login-state.ts'
import type { Saml } from './parts.ts'

export interface Refusal {
  readonly code: string
  readonly facts?: Facts
  readonly findings?: readonly AssertionFinding[]
  /** How far the IdP's clock seems to be ahead, when a time is what failed. */
  readonly clockAhead?: Milliseconds | undefined
  readonly cause?: unknown
}

/** Refuses an answer to a login: counts the code, leaves it in the log with what was checked, and answers with the page. */
export function refused(saml: Saml, request: Request, refusal: Refusal): Response {
  const { code, facts, findings = [], clockAhead, cause } = refusal
  saml.count(code)
  const failed = findings.find(finding => !finding.ok)
  const seconds = clockAhead === undefined ? undefined : Math.round(clockAhead / 1000)
  return saml.failurePage({
    request,
    code,
    as: textFor(code, seconds),
    words: {
      seconds: `${Math.abs(seconds ?? 0)}`,
      base: saml.config().baseUrl,
      clock: timeText(saml.clock.now()),
    },
    facts: {
      ...facts,
      check: failed?.what,
      expected: failed?.expected,
      received: failed?.received,
      clockAheadSeconds: seconds,
      clock: seconds === undefined ? undefined : clockSentence(seconds),
    },
    findings,
    cause,
  })
}

/** Refuses a logout message, which ends no session. */
export function logoutRefused(saml: Saml, request: Request, refusal: Refusal): Response {
  const { code } = refusal
  return refused(saml, request, {
    ...refusal,
    code: code.startsWith('logout_') ? code : `logout_${code}`,
  })
}

function textFor(code: string, clockAhead: Seconds | undefined): FailureCode {
  if (clockAhead !== undefined) return clockAhead < 0 ? 'clocks_differ_late' : 'clocks_differ'
  if (isFailureCode(code)) return code
  return code.startsWith('logout_') ? 'logout_refused' : 'login_refused'
}

function isFailureCode(code: string): code is FailureCode {
  return Object.hasOwn(failures, code)
}

function clockSentence(seconds: number): string {
  return seconds >= 0
    ? `the clock of the IdP is ${seconds} s ahead of ours`
    : `the clock of the IdP is ${-seconds} s behind ours, or the answer was that long on its way`
}

const said = {
  login_loop:
    'You have been signed in several times, but each time the next request came without a valid session.',
  session_cookie_missing:
    'The identity provider has signed you in, but no valid session came back with the next request.',
} as const satisfies Readonly<Record<string, Sentence>>

/**
 * Answers with a page that names the likely cause, since the person sees otherwise only a browser that loads without end.
 * `setCookie` changes the state cookie.
 */
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
  saml.count(code)
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
  if (!isOwnHost(fields.get('Host'), domain)) return 'wrong_host'
  // Session cookies come over TLS alone, whatever the edge says.
  if (count > 0) return 'cookie_invalid'
  if (!secure && fields.get('X-Forwarded-Proto')?.toLowerCase() === 'http') return 'http_edge'
  return Math.abs(ahead) > clockSkew ? 'clock' : 'cookie_missing'
}
