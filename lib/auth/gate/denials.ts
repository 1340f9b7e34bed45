/**
 * The answers to requests that the gate does not let pass. They are the same for requests that are forwarded here and for those
 * an edge asks about.
 */
import type { Response } from '../../http/message/message.ts'
import { pathAndQuery } from '../../http/message/target.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import {
  isForeignSocket,
  isOwnPost,
  type Place,
  pageOf,
  type RequestHead,
} from '../access/own-origin.ts'
import { neededText, neededValues, placeOfRule, type WatchedDecision } from '../access/rules.ts'
import type { Config } from '../config/config.ts'
import { challenge, needsLogin } from '../login/addresses.ts'
import type { SamlService } from '../login/service.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import { failureTable, type NotKept } from '../pages/failures.ts'
import { unreadText } from '../session/identity.ts'
import { tokenText } from '../session/token.ts'
import type { Verdict } from './gate.ts'

/** A request that does not pass, and the parts that make its answer. */
export interface DeniedRequest {
  readonly request: RequestHead
  readonly place: Place
  readonly config: Config
  readonly saml: Pick<SamlService, 'loginAddress' | 'unreadAttributes'>
  readonly failurePage: FailurePage
}

type LoginNeeded = Extract<Verdict, { verdict: 'login-needed' }>

/**
 * The answer to a request that the rules refuse: a page for a person, JSON for a program. It never leads to the login by itself:
 * that would be a loop.
 */
export function refusedByRule(
  { access, session }: Extract<Verdict, { verdict: 'refused' }>,
  { request, place, config, saml, failurePage }: DeniedRequest,
): Response {
  const { rule, because } = access
  const user = session?.subject
  const program = tokenText(session)
  const ambiguous = access.verdict === 'ambiguous'
  const allow = config.accessTell && rule && !ambiguous ? rule.allow : 'nobody'
  const needed = neededText(allow)
  const message = ambiguous ? undefined : rule?.message
  const signedIn = user === undefined ? 'access_closed' : 'access_refused'
  const code = ambiguous ? 'access_ambiguous' : signedIn
  // A name like a known one is the likeliest reason why a person lacks a group that the identity provider sends.
  const unreadAttributes =
    user === undefined
      ? ''
      : unreadText(saml.unreadAttributes().filter(({ like }) => like !== undefined))
  const answered = failurePage({
    request,
    code,
    as: code === 'access_refused' && unreadAttributes !== '' ? 'access_refused_unread' : code,
    words: { user: user ?? '', other: saml.loginAddress(pathAndQuery(place), 'other') },
    // A message of the administrator says it in better words.
    needed: message === undefined ? neededValues(allow) : [],
    message,
    json: {
      error: ambiguous ? 'ambiguous_address' : 'access_denied',
      rule: rule?.number ?? null,
      ...(needed.length > 0 ? { needed } : {}),
    },
    facts: {
      user,
      program,
      decided: placeOfRule(rule),
      path: rule?.path.written,
      why: because,
      unreadAttributes: unreadAttributes || undefined,
    },
  })
  // These facts are for the log, and they name the rule.
  const decided: OutcomeFacts = {
    outcome: 'refused',
    because: 'access',
    why: because,
    rule: rule?.number,
    line: rule?.line,
    user,
    program,
  }
  return { ...answered, facts: { ...answered.facts, ...decided } }
}

/** The answer to a page of another origin that opens a WebSocket with the session of a user; undefined when none does. */
export function refusedSocket({
  request,
  config,
  failurePage,
}: DeniedRequest): Response | undefined {
  if (!isForeignSocket(request, config)) return undefined
  const facts = { origin: request.fields.get('Origin') }
  return failurePage({ request, code: 'websocket_origin', facts })
}

/**
 * The address of a login for a request that cannot be repeated after it. The login leads back to the page that has sent the
 * request.
 */
export function loginOfPage(
  { how }: LoginNeeded,
  { request, place, config, saml }: DeniedRequest,
): string {
  return saml.loginAddress(pageOf(request, config.baseUrl, pathAndQuery(place)), how)
}

export function programNeedsLogin(verdict: LoginNeeded, denied: DeniedRequest): Response {
  const login = loginOfPage(verdict, denied)
  if (verdict.because.startsWith('token-')) return needsLogin(denied.request, login, 'token')
  return needsLogin(denied.request, login, verdict.session === undefined ? 'session' : 'login')
}

/**
 * The page for a person whose form cannot be kept over a login. It comes before the login, while the browser still has the
 * filled-in form.
 */
export function formNotKept(
  because: NotKept,
  verdict: LoginNeeded,
  denied: DeniedRequest,
): Response {
  const { request, config, failurePage } = denied
  const { fields } = request
  const { replaySize: limit } = config.saml
  const login = loginOfPage(verdict, denied)
  return failurePage({
    request,
    code: 'request_not_kept',
    words: { because: failureTable().notKept[because].because, login },
    ...(isOwnPost(request, config.baseUrl) ? {} : { as: 'foreign_form_not_kept' }),
    details: because === 'too-large' ? [['Limit', `${limit} bytes`]] : [],
    fields: challenge(login),
    facts: {
      because,
      contentType: fields.get('Content-Type'),
      contentLength: fields.get('Content-Length'),
      origin: fields.get('Origin'),
      site: fields.get('Sec-Fetch-Site'),
      limit,
    },
  })
}

/** The facts for the log about a request that needs a login. */
export function loginFacts({ because, session, token, would }: LoginNeeded): OutcomeFacts {
  const [user, program] = [session?.subject, tokenText(session)]
  return { because, user, program, passthrough: token, ...watchedFacts(would) }
}

/** The facts for the log about what a watched rule would have done. */
export function watchedFacts(would: WatchedDecision | undefined): OutcomeFacts | undefined {
  if (would === undefined) return undefined
  const { verdict, rule, because: why } = would
  const what = verdict === 'step-up' ? 'login' : 'refuse'
  return { would: what, why, rule: rule?.number, line: rule?.line }
}
