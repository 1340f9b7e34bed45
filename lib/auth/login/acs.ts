/**
 * Handles the IdP's answer to a login at the ACS (assertion consumer service). The order is: size limit; login state; a thread
 * with a deadline, which does strict base64 and UTF-8, the scan, structure, algorithms and cryptography; our own checks of the
 * signed assertion; use of the request ID and the assertion ID in one step; session.
 *
 * The state comes before the parser: without a login under way in this browser nothing is parsed.
 *
 * Each of these steps can end with the answer. What happens to it then is a table of facts (`OUTCOMES`).
 */
import { setCookie } from '../../http/message/cookie.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import {
  type AssertionVerdict,
  type CheckedAssertion,
  checkAssertion,
} from '../../saml/response/check-assertion.ts'
import type { WrittenInstant } from '../../saml/response/read-assertion.ts'
import type { VerifiedResponse } from '../../saml/response/verify-response.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import { ownValues } from '../access/own-cookies.ts'
import { browserIn } from '../session/cookie.ts'
import type { Session } from '../session/token.ts'
import { backAddress, loginAddress, relayedTarget } from './addresses.ts'
import {
  AGAIN,
  clientOf,
  formPage,
  isAgain,
  linkPage,
  type PostedMessage,
  readPost,
  redirect,
} from './bindings.ts'
import { type Flow, flowIdIn, type LoginCookies, requestIdOf } from './cookies.ts'
import type { Saml } from './parts.ts'
import { type Refusal, refusalPage } from './refusal-page.ts'

interface Arrival {
  readonly saml: Saml
  readonly request: Request
  readonly posted: PostedMessage
  /** The cookies of the browser that sent it, and its logins that wait for an answer. */
  readonly cookies: LoginCookies
  readonly open: readonly Flow[]
  /** The address of the link on a page that refuses it. */
  readonly linkTarget: string
}

/** What happens to an answer. */
type Outcome =
  /** The person is signed in. */
  | 'session'
  /** The browser goes back without a session: the IdP would have had to ask the person. */
  | 'no-session'
  /** A page of ours posts the answer again, with the cookies that browsers hold back from a post of another site. */
  | 'posted-again'
  /** A login begins here, instead of one that the IdP began. */
  | 'begun-here'
  /** A person who is signed in goes on. */
  | 'goes-on'
  /** The redirect endpoint sends a browser with a session on, and begins the login again for one without. */
  | 'resumed'
  | 'refused'

/** The facts that decide it. Those that a step does not know are false. */
export interface AnswerFacts {
  /** The step with which the answer ended. */
  readonly at: 'cookies' | 'verification' | 'assertion' | 'use' | 'end'
  /** Whether the RelayState has the form of the ID of a login here: of a first one, or of one that replaced another. */
  readonly names: 'nothing' | 'login' | 'replacement'
  /** Whether the only problem is one that a login which begins again does not have. */
  readonly mayResume: boolean
  /** Whether a login may begin here that the IdP began, and is not allowed to. */
  readonly mayBegin: boolean
  /** Whether the browser has a session already. */
  readonly signedIn: boolean
  /** Whether the browser may have held cookies back, and the answer can be posted again. */
  readonly heldBack: boolean
  /** Whether it is the refusal of a passive login of this browser. */
  readonly passive: boolean
}

/** The first row whose facts are all there decides. */
const OUTCOMES: ReadonlyArray<readonly [outcome: Outcome, when: Partial<AnswerFacts>]> = [
  ['session', { at: 'end' }],
  ['no-session', { at: 'verification', passive: true }],
  ['posted-again', { at: 'cookies', heldBack: true }],
  ['refused', { mayResume: false }],
  ['begun-here', { names: 'nothing', mayBegin: true }],
  ['goes-on', { names: 'nothing', signedIn: true }],
  ['refused', { names: 'nothing' }],
  // The second time in a row the person reads why.
  ['refused', { names: 'replacement', signedIn: false }],
  ['resumed', {}],
]

export function outcomeOf(facts: AnswerFacts): Outcome {
  const held = new Map(Object.entries(facts))
  const row = OUTCOMES.find(([, when]) =>
    Object.entries(when).every(([name, value]) => held.get(name) === value),
  )
  return row?.[0] ?? 'refused'
}

/** An answer that ended with a step before the last, and why. */
interface Ended {
  readonly facts: AnswerFacts
  readonly refusal: Refusal
}

/** Answers POST /saml/acs. */
export async function takeAssertion(saml: Saml, request: Request): Promise<Response> {
  const cookies = saml.cookies(request)
  const open = cookies.state.flows.filter(flow => !flow.done)
  const { responseSize: size } = saml.config()
  const posted = await readPost(request, saml, { size })
  const relayState = typeof posted === 'object' ? posted.relayState : undefined
  const linkTarget = wayBack(saml, open, relayState)
  const refuse = (refusal: Refusal) => refusalPage(saml, request, { ...refusal, linkTarget })
  if (typeof posted === 'string') return refuse({ code: posted, facts: { limit: size } })
  if (posted?.name !== 'SAMLResponse') return refuse({ code: 'form_malformed' })

  const arrival = { saml, request, posted, cookies, open, linkTarget }
  const judged = isExpected(arrival) ? await judge(arrival) : await withoutLogin(arrival)
  if ('checked' in judged) return startSession(arrival, judged)
  const { facts, refusal } = judged
  switch (outcomeOf(facts)) {
    case 'no-session':
      return withoutSession(arrival, refusal)
    case 'posted-again':
      return postAgain(arrival)
    case 'begun-here':
      return beginHere(arrival)
    case 'goes-on': {
      const { baseUrl } = saml.config()
      return redirect(303, `${baseUrl}${relayedReturn(saml, request, posted.relayState)}`)
    }
    case 'resumed':
      return resume(arrival, refusal)
    default:
      return refuse(refusal)
  }
}

/** Whether a login of this browser waits for an answer, or the IdP may begin logins. */
function isExpected({ saml, request, posted, cookies, open }: Arrival): boolean {
  const { idpInitiated } = saml.config()
  // The RelayState names a login that began here, so the answer is not one that the IdP began.
  const heldBack =
    cookies.state.cookieState === 'absent' && flowIdIn(posted.relayState) !== undefined
  return !(open.length === 0 && (!idpInitiated || (heldBack && !isAgain(request))))
}

/** Verifies and checks an answer, and uses its IDs up: it is accepted, or it ended with one of these steps. */
async function judge(arrival: Arrival): Promise<Ended | Accepted> {
  const { saml, request, posted, open } = arrival
  const { encoded, relayState } = posted
  const unknown = factsOf(posted)
  if (saml.idp.current === undefined) {
    return { facts: { ...unknown, at: 'verification' }, refusal: { code: 'idp_metadata' } }
  }
  const asking = open.find(flow => flow.id === relayState)
  const client = clientOf(saml, request, open.length > 0)
  const verified = await saml.idp.verifyLogin(encoded, client, saml.used.beginTry())
  if (!verified.ok) {
    const { renewing, refusal } = verified
    const passive = asking?.passive === true && refusal.code === 'idp_status'
    const asksAgain = asking !== undefined && refusal.facts?.['idpMessage'] === ASK_AGAIN
    const mayResume = renewing || asksAgain
    return { facts: { ...unknown, at: 'verification', passive, mayResume }, refusal }
  }

  const expected = {
    config: saml.config(),
    idp: saml.idp.metadata.last?.entityId ?? '',
    requests: new Map(open.map(flow => [requestIdOf(flow), flow])),
  }
  const checked = checkAssertion(verified, expected, saml.clock.now())
  if (!checked.ok) {
    const { because: code, findings, clockAhead } = checked
    const mayResume = unknownAlone(checked, posted)
    const mayBegin = code === 'unsolicited' && mayBeginHere(request, open)
    const refusal = mayResume ? { code, findings } : { code, findings, clockAhead }
    return { facts: { ...unknown, at: 'assertion', mayResume, mayBegin }, refusal }
  }
  const flow = open.find(each => requestIdOf(each) === checked.requestId)
  const ids = [`assertion ${checked.subject.assertionId}`]
  if (flow !== undefined) ids.push(`request ${flow.id}`)
  const ownListSuffices = flow !== undefined && saml.config().onOutage === 'continue'
  const use = await saml.used.use({ ids, until: checked.until, ownListSuffices })
  if (use !== 'first') {
    // A second click on the page that posts itself, or a second answer of the IdP. Nothing is accepted by it.
    const mayResume = use === 'again' && flow !== undefined && flow.id === relayState
    const refusal = { code: useCodes[use], findings: checked.findings }
    return { facts: { ...unknown, at: 'use', mayResume }, refusal }
  }
  return { ...verified, checked, flow }
}

type Accepted = VerifiedResponse & {
  readonly checked: CheckedAssertion
  readonly flow: Flow | undefined
}

/** What the post alone says; nothing else is known. */
function factsOf({ relayState }: PostedMessage): Omit<AnswerFacts, 'at'> {
  const named = flowIdIn(relayState)
  const login = named?.isReplacement === true ? 'replacement' : 'login'
  const names = named === undefined ? 'nothing' : login
  return {
    names,
    ...{ mayResume: false, mayBegin: false, signedIn: false, heldBack: false, passive: false },
  }
}

/** The codes of answers whose IDs could not be marked as used. */
const useCodes = { again: 'replay', full: 'used_ids_full', unsure: 'store_away' } as const

/** The AuthnInstant that was not believed, for the log. Rules with maxAge do not count such a login as recent. */
function futureLogin(written: WrittenInstant | undefined, { authnInstant }: Session) {
  return written?.moment === undefined || authnInstant !== undefined
    ? {}
    : { futureAuthnInstant: written.text.slice(0, 40) }
}

/**
 * Sends a browser back to where its passive login began, without a session: the IdP would have had to ask the person
 * (NoPassive, saml-core-2.0-os section 3.4.1), or does not do that. Such an answer need not be signed. With a forged one an
 * attacker who knows the ID of the login could only end that login.
 */
function withoutSession(
  { saml, request, posted, cookies }: Arrival,
  { facts }: Pick<Refusal, 'facts'>,
): Response {
  const flow = cookies.flow(posted.relayState)
  saml.count('not_passive')
  saml.log.info('a passive login ends without a session', { request: request.id, ...facts })
  const { last, logout } = cookies.state
  if (flow !== undefined) cookies.drop(flow.id)
  cookies.know({ last, logout, notPassive: saml.clock.now() })
  return linkPage(saml, {
    request,
    title: 'Signing in',
    label: 'Continue',
    restore: flow?.id ?? '',
    href: `${saml.config().baseUrl}${flow?.returnTo ?? '/'}`,
    fields: cookies.lines,
  })
}

/** Makes the session and sends the browser on to the redirect endpoint. */
async function startSession(
  { saml, request, posted, cookies, linkTarget }: Arrival,
  { encrypted, assertion, checked, flow }: Accepted,
): Promise<Response> {
  const established = await saml.sessions.establish(checked.subject, request, linkTarget)
  if ('refuse' in established) {
    saml.count('session_refused')
    return established.refuse
  }
  const { session, setCookie, unread } = established
  saml.count('accepted')
  const now = saml.clock.now()
  const ahead = (assertion.issued?.moment ?? now) - now
  saml.log.info('signed in', {
    request: request.id,
    session: session.id,
    subject: session.subject,
    assertion: checked.subject.assertionId,
    idp: checked.subject.issuer,
    encrypted,
    client: saml.clientAddress(request),
    clockAheadMs: ahead,
    // The replay of a log needs these facts (replay/replay.ts).
    attributes: loggedAttributes(saml, session),
    unreadAttributes: unread,
    authnInstant: session.authnInstant && new Date(session.authnInstant),
    authnContext: session.authnContext,
    ...futureLogin(assertion.statements[0]?.instant, session),
    ...(assertion.unread.length === 0 ? {} : { unread: assertion.unread }),
  })
  const { baseUrl } = saml.config()
  cookies.own(session)
  if (flow !== undefined) {
    const { sessionEnds: ends } = checked.subject
    cookies.keep({ ...flow, done: true })
    // An earlier logout is forgotten, so that a late answer to it cannot end this session.
    cookies.know({ last: { at: now, depth: flow.depth, ahead, asks: flow.asks, ends } })
  }
  const location =
    flow === undefined
      ? loginAddress(baseUrl, relayedReturn(saml, request, posted.relayState))
      : backAddress(baseUrl, flow.id)
  const facts: OutcomeFacts = { saml: 'accepted' }
  return { ...redirect(303, location, Fields.of(...setCookie, ...cookies.lines)), facts }
}

/** The attributes that `log.groups` asks for; undefined where it is off. */
function loggedAttributes(saml: Saml, { attributes }: Pick<Session, 'attributes'>) {
  const names = saml.config().loggedAttributes
  if (names.length === 0) return undefined
  return Object.fromEntries(names.map(name => [name, attributes.get(name) ?? []]))
}

/** The target of an answer to no request of ours. A RelayState that names none leads to `/`, and the log says why. */
function relayedReturn(saml: Saml, request: Request, relayState = ''): string {
  const { path, ignored } = relayedTarget(saml.config().baseUrl, relayState)
  if (ignored !== undefined && flowIdIn(relayState) === undefined) {
    const [shown = ''] = relayState.split(/[?#]/)
    const facts = { request: request.id, because: ignored, target: shown.slice(0, 200) }
    saml.log.info('the RelayState is not used: it is not an address of this host', facts)
  }
  return path
}

/**
 * An answer that no login of this browser waits for. A user already signed in goes on (a reload, a second tab). Browsers do
 * not send the session cookie with a post of another site (SameSite=Lax), and strict ones send no cookie at all: so when cookies
 * are missing, the browser posts the answer again from a page of ours, once.
 */
async function withoutLogin({ saml, request, posted, cookies }: Arrival): Promise<Ended> {
  const { encoded, relayState } = posted
  const { cookieState } = cookies.state
  const signedIn = (await saml.sessions.read(request)) !== undefined
  const sent = signedIn || (await saml.sessions.diagnose(request)).count > 0
  const isMissing = !signedIn && (cookieState === 'absent' || (cookieState === 'state' && !sent))
  const isPlain = /^[\x20-\x7e\r\n]*$/.test(`${encoded}${relayState ?? ''}`)
  const heldBack = isMissing && !isAgain(request) && isPlain
  const mayBegin = !signedIn && mayBeginHere(request, [])
  const text = request.fields.all('Cookie').join('; ')
  const count = text === '' ? 0 : text.split(';').length
  const finding = {
    what: 'Cookie of the login',
    ok: false,
    expected: 'one of a login that is under way in this browser',
    received: `${received[cookieState]}; ${count} cookies in all`,
  }
  const known = factsOf(posted)
  const isOurs = known.names !== 'nothing'
  const relayed = {
    what: 'RelayState',
    ok: isOurs,
    expected: 'the ID of a login begun here',
    received: isOurs ? 'the ID of a login begun here' : relayState ? 'something else' : '(nothing)',
  }
  return {
    facts: { ...known, at: 'cookies', mayResume: true, mayBegin, signedIn, heldBack },
    refusal: {
      code: codes[cookieState],
      findings: [finding, relayed],
      facts: { signedIn, idpInitiated: saml.config().idpInitiated },
    },
  }
}

/** A page of ours that posts the answer again. */
function postAgain({ saml, request, posted }: Arrival): Response {
  const { encoded, relayState } = posted
  return formPage(saml, {
    request,
    title: 'Signing in',
    label: 'Continue to sign in',
    action: `/saml/acs?${AGAIN}`,
    values: { SAMLResponse: encoded, RelayState: relayState },
    // This cookie shows at the next request whether the browser accepts cookies at all. Its name may be among those that were
    // held back: another name in its place would end the sessions of that one.
    fields: Fields.of(['Set-Cookie', setCookie(PROBE, '1', { maxAge: 600, sameSite: 'None' })]),
  })
}

const received = {
  state: 'one of a login that is over',
  absent: 'none',
  invalid: 'one that our keys do not open',
}

/** Whether an answer without a login here may begin one: once, and in a browser that accepts cookies, or the browser would loop. */
function mayBeginHere(request: Request, open: readonly Flow[]): boolean {
  const { fields } = request
  const takesCookies = browserIn(fields) !== undefined || ownValues(fields, PROBE).length > 0
  return takesCookies && !open.some(flow => flowIdIn(flow.id)?.isReplacement)
}

/** A cookie without content. */
const PROBE = '__Host-authproxy_probe'

/**
 * Begins a login instead of one that the IdP began and `saml.idpInitiated` does not allow. The answer is dropped, and the IdP,
 * where the person is signed in, is asked for another. The login leads to the same target.
 */
function beginHere({ saml, request, posted: { relayState } }: Arrival): Response {
  const { baseUrl } = saml.config()
  saml.count('login_begun_here')
  const facts = { request: request.id, setting: 'saml.idpInitiated' }
  saml.log.info('a login begun at the identity provider begins here instead', facts)
  const address = loginAddress(baseUrl, relayedReturn(saml, request, relayState))
  return redirect(303, `${address}&again=1`)
}

/** The link on a page that refuses an answer: it begins the login again, so that the person arrives at its target. */
function wayBack(saml: Saml, open: readonly Flow[], relayState: string | undefined): string {
  const { baseUrl } = saml.config()
  const only = open.length === 1 ? open[0]?.id : undefined
  const id = flowIdIn(relayState)?.id ?? only
  return id === undefined ? `${baseUrl}/` : backAddress(baseUrl, id, 'resume')
}

/** The StatusMessage of Keycloak when the person has signed in in another tab, and we should ask again. */
const ASK_AGAIN = 'authentication_expired'

/**
 * Leads to the redirect endpoint when the only problem is that the login is not known, that its answer was posted twice, or that the IdP
 * may have changed its keys. A login is not known when it began too long ago, when too many tabs logged in, or when the IdP itself has
 * lost it. The redirect endpoint sends a browser with a session on, and begins the login again, once, for a browser without.
 */
function resume(
  { saml, request, posted: { relayState } }: Arrival,
  { code, facts }: Refusal,
): Response {
  const id = flowIdIn(relayState)?.id ?? ''
  saml.count('login_resumed')
  saml.log.info('the login begins again', { request: request.id, flow: id, code, ...facts })
  return redirect(303, backAddress(saml.config().baseUrl, id, 'resume'))
}

/**
 * Whether an assertion is valid except that the login of its RelayState is no longer known, here or at the IdP. An IdP that has
 * lost its state (SimpleSAMLphp, when the same person has just signed in in another tab) names no request, and repeats only the
 * RelayState.
 */
function unknownAlone(
  { because, findings }: Extract<AssertionVerdict, { ok: false }>,
  { relayState = '' }: PostedMessage,
): boolean {
  const [failed, ...more] = findings.filter(({ ok }) => !ok)
  if (more.length > 0) return false
  if (because === 'unsolicited') return true
  return because === 'in_response_to' && failed?.received === requestIdOf({ id: relayState })
}

const codes = {
  state: 'login_unknown',
  absent: 'login_cookie_missing',
  invalid: 'login_cookie_invalid',
} as const
