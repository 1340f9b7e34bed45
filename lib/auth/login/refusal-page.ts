/**
 * The pages for a refused message of the IdP, and for a login whose session cookie does not come back. Their texts are in the
 * table of failures; the log has the checks.
 */
import type { Milliseconds, Seconds } from '../../async/clock.ts'
import type { Facts } from '../../errors.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { AssertionReason } from '../../saml/response/check-assertion.ts'
import type { AssertionFinding } from '../../saml/subject.ts'
import type { MessageReason } from '../../saml/xml/message.ts'
import { isOwnHost, isSaidWithoutTls } from '../access/own-origin.ts'
import type { WorkerReason } from '../idp/worker/pool.ts'
import { codeOfStatus, type FailureCode, isFailureCode } from '../pages/failures.ts'
import type { Sentence } from '../pages/language.ts'
import { timeText } from '../pages/page.ts'
import type { LoginState } from './cookies.ts'
import type { Saml } from './parts.ts'

/** What is wrong with a message whose texts others share. */
type SharedReason =
  | 'replay'
  | 'expired'
  | 'too_old'
  | 'issue_instant'
  | 'encrypted_id'
  | 'logout_query'

/** The codes of a session that does not come back: the text says the likely cause. */
type LostReason = 'login_loop' | 'session_cookie_missing'

type RefusalCode = FailureCode | AssertionReason | MessageReason | SharedReason | WorkerReason

export interface Refusal {
  readonly code: RefusalCode
  readonly facts?: Facts
  readonly findings?: readonly AssertionFinding[]
  /** The time by which the IdP's clock seems to be ahead, when the check of a time failed. */
  readonly clockAhead?: Milliseconds | undefined
  /** The address of the link on the page; by default that of the application. */
  readonly linkTarget?: string
  readonly cause?: unknown
}

/** Refuses an answer to a login: counts the code, logs it with the checks, and answers with the page. */
export function refusalPage(
  saml: Saml,
  request: Request,
  refusal: Omit<Refusal, 'code'> & {
    readonly code: RefusalCode | `logout_${RefusalCode}`
    readonly as?: FailureCode | undefined
  },
): Response {
  const { code, facts, findings = [], clockAhead, cause } = refusal
  const { baseUrl: base } = saml.config()
  saml.count(code)
  const failed = findings.find(finding => !finding.ok)
  const seconds = clockAhead === undefined ? undefined : Math.round(clockAhead / 1000)
  const status = codeOfStatus(`${facts?.['idpStatus'] ?? ''}`.split(' ').at(-1) ?? '')
  return saml.failurePage({
    request,
    code,
    as: refusal.as ?? status ?? textFor(code, seconds, failed),
    words: {
      ...roundDuration(Math.abs(seconds ?? 0)),
      base,
      back: refusal.linkTarget ?? `${base}/`,
      clock: timeText(saml.clock.now()),
      limit: `${saml.config().responseSize} bytes`,
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

/**
 * Refuses a logout message, which ends no session. After a logout of this browser the message is most likely the answer to it,
 * and then the page says that the session here has ended.
 */
export async function logoutRefused(
  saml: Saml,
  request: Request,
  refusal: Refusal,
): Promise<Response> {
  const code = refusal.code.startsWith('logout_')
    ? refusal.code
    : (`logout_${refusal.code}` as const)
  const { logout } = saml.cookies(request).state
  const ended = logout !== undefined && (await saml.sessions.read(request)) === undefined
  const as = ended ? 'logout_unconfirmed' : undefined
  return refusalPage(saml, request, { ...refusal, code, as })
}

function textFor(
  code: string,
  clockAhead: Seconds | undefined,
  failed: AssertionFinding | undefined,
): FailureCode {
  if (clockAhead !== undefined) return clockAhead < 0 ? 'clocks_differ_late' : 'clocks_differ'
  const isLogout = code.startsWith('logout_')
  if (failed?.what === 'CanonicalizationMethod' || failed?.what === 'Transforms')
    return isLogout ? 'logout_signature_canonicalisation' : 'signature_canonicalisation'
  if (isFailureCode(code)) return code
  return isLogout ? 'logout_refused' : 'login_refused'
}

/** A duration in the largest fitting unit. The units are sentences of the languages; the log and `explain` have the seconds. */
function roundDuration(seconds: Seconds): {
  readonly amount: string
  readonly unit: 'seconds' | 'minutes' | 'hour' | 'hours' | 'days'
} {
  const [minutes, hours] = [Math.round(seconds / 60), Math.round(seconds / 3600)]
  if (seconds < 120) return { amount: `${seconds}`, unit: 'seconds' }
  if (minutes < 55) return { amount: `${minutes}`, unit: 'minutes' }
  if (hours < 48) return { amount: `${hours}`, unit: hours === 1 ? 'hour' : 'hours' }
  return { amount: `${Math.round(seconds / 86_400)}`, unit: 'days' }
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
} as const satisfies Readonly<Record<LostReason, Sentence>>

/** Answers with a page that names the likely cause. Without it the person would only see a browser that never stops loading. */
export async function lostSession(
  saml: Saml,
  request: Request,
  lost: {
    readonly code: LostReason
    /** The address of a login that leads to the person's target. `ownAddress` is the target under the right host name. */
    readonly loginTarget: string
    readonly ownAddress: string
  },
): Promise<Response> {
  const { code, loginTarget, ownAddress } = lost
  const cookies = saml.cookies(request)
  const { state } = cookies
  const { count, bytes, because } = await saml.sessions.diagnose(request)
  const ahead = state.last?.ahead ?? 0
  const now = saml.clock.now()
  const cause = likelyCause(saml, request, { count, state })
  const { at: began = now, ends = now } = state.last ?? {}
  const time = cause === 'session_short' ? ends - began : Math.abs(ahead)
  saml.count(code)
  return saml.failurePage({
    request,
    code,
    as: `lost_${cause}`,
    words: {
      said: said[code],
      ...roundDuration(Math.round(time / 1000)),
      cookies: `${count} (${bytes} bytes)`,
      clock: timeText(now),
      base: saml.config().baseUrl,
      back: loginTarget,
      there: ownAddress,
    },
    fields: cookies.lines,
    facts: { cause, cookies: count, bytes, because, stateCookie: state.flows.length > 0 },
  })
}

/** The most likely reason why the session does not come back; certain reasons come first. */
function likelyCause(
  saml: Saml,
  request: Request,
  { count, state: { last } }: { readonly count: number; readonly state: Pick<LoginState, 'last'> },
): 'session_short' | 'wrong_host' | 'http_edge' | 'cookie_invalid' | 'clock' | 'cookie_missing' {
  const { domain, clockSkew } = saml.config()
  if (!isOwnHost(request.fields.get('Host'), domain)) return 'wrong_host'
  if (last?.ends !== undefined && last.ends <= saml.clock.now()) return 'session_short'
  // Browsers send session cookies over TLS alone, even if the edge says otherwise.
  if (count > 0) return 'cookie_invalid'
  if (isSaidWithoutTls(request)) return 'http_edge'
  return Math.abs(last?.ahead ?? 0) > clockSkew ? 'clock' : 'cookie_missing'
}
