/**
 * Handles the IdP's answer to a login at the ACS (assertion consumer service). The order is: size limit; login state; a thread
 * with a deadline, which does strict base64 and UTF-8, the scan, structure, algorithms and cryptography; our own checks of the
 * signed assertion; use of the request ID and the assertion ID in one step; session.
 *
 * The state comes before the parser: without a login under way in this browser nothing is parsed.
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
import {
  dropFlow,
  type Flow,
  flowIdIn,
  keepFlow,
  keepKnown,
  type LoginState,
  ownerCookie,
  requestIdOf,
  stateOf,
} from './login-state.ts'
import { backAddress, loginAddress, type Saml } from './parts.ts'
import { AGAIN, isAgain, type PostedMessage, readPost } from './post.ts'
import { type Refusal, refusalPage } from './refusal-page.ts'
import { relayedTarget } from './relayed-target.ts'
import { useOnce } from './replay-cache.ts'
import { formPage, linkPage, redirect } from './send.ts'
import { clientOf, verifyLogin } from './verify.ts'

interface Arrival {
  readonly saml: Saml
  readonly request: Request
  readonly posted: PostedMessage
  /** The logins of the browser that sent it. */
  readonly state: LoginState
  /** The address of the link on a page that refuses it. */
  readonly linkTarget: string
}

/** Answers POST /saml/acs. */
export async function takeAssertion(saml: Saml, request: Request): Promise<Response> {
  const state = stateOf(saml, request)
  const open = state.flows.filter(flow => !flow.done)
  const { responseSize: size } = saml.config()
  const posted = await readPost(request, saml, { size })
  const relayState = typeof posted === 'object' ? posted.relayState : undefined
  const linkTarget = wayBack(saml, open, relayState)
  const refuse = (refusal: Refusal) => refusalPage(saml, request, { ...refusal, linkTarget })
  if (typeof posted === 'string') return refuse({ code: posted, facts: { limit: size } })
  if (posted?.name !== 'SAMLResponse') return refuse({ code: 'form_malformed' })

  const arrival = { saml, request, posted, state, linkTarget }
  const { idpInitiated } = saml.config()
  // The RelayState names a login that began here, so the answer is not one that the IdP began.
  const heldBack = state.cookieState === 'absent' && flowIdIn(posted.relayState) !== undefined
  if (open.length === 0 && (!idpInitiated || (heldBack && !isAgain(request)))) {
    return answerWithoutLogin(arrival)
  }
  if (saml.source.current() === undefined) return refuse({ code: 'idp_metadata' })

  const { encoded } = posted
  const client = clientOf(saml, request, open.length > 0)
  const verified = await verifyLogin(saml, encoded, client)
  if (!verified.ok) {
    const { renewing, refusal } = verified
    const asking = open.find(flow => flow.id === relayState)
    if (asking?.passive === true && refusal.code === 'idp_status') {
      return notPassive(arrival, asking, refusal.facts)
    }
    const asksAgain = asking !== undefined && refusal.facts?.['idpMessage'] === ASK_AGAIN
    return renewing || asksAgain ? resumeLogin(arrival, refusal) : refuse(refusal)
  }

  const expected = {
    config: saml.config(),
    idp: saml.source.last?.entityId ?? '',
    requests: new Map(open.map(flow => [requestIdOf(flow), flow])),
  }
  const checked = checkAssertion(verified, expected, saml.clock.now())
  if (!checked.ok) {
    const { because: code, findings, clockAhead } = checked
    const unsolicited = code === 'unsolicited' && flowIdIn(relayState) === undefined
    if (!unknownAlone(checked, posted)) return refuse({ code, findings, clockAhead })
    if (unsolicited && mayBegin(request, open)) return begunHere(arrival)
    return resumeLogin(arrival, { code, findings })
  }
  const flow = open.find(each => requestIdOf(each) === checked.requestId)
  const used = [`assertion ${checked.subject.assertionId}`]
  if (flow !== undefined) used.push(`request ${flow.id}`)
  const ownListSuffices = flow !== undefined && saml.config().onOutage === 'continue'
  const use = await useOnce(saml, { ids: used, until: checked.until, ownListSuffices })
  if (use !== 'first') {
    const refusal = { code: useCodes[use], findings: checked.findings }
    // A second click on the page that posts itself, or a second answer of the IdP. Nothing is accepted by it.
    const isTwice = use === 'again' && flow !== undefined && flow.id === relayState
    return isTwice ? resumeLogin(arrival, refusal) : refuse(refusal)
  }
  return startSession(arrival, { ...verified, checked, flow })
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
function notPassive(
  { saml, request, state }: Arrival,
  flow: Flow,
  facts: Refusal['facts'],
): Response {
  saml.count('not_passive')
  saml.log.info('a passive login ends without a session', { request: request.id, ...facts })
  const { last, logout } = state
  const known = { last, logout, notPassive: saml.clock.now() }
  return linkPage(saml, {
    request,
    title: 'Signing in',
    label: 'Continue',
    restore: flow.id,
    href: `${saml.config().baseUrl}${flow.returnTo}`,
    fields: Fields.of(['Set-Cookie', dropFlow(flow.id)], ['Set-Cookie', keepKnown(saml, known)]),
  })
}

/** Makes the session and sends the browser on to the redirect endpoint. */
async function startSession(
  { saml, request, posted, linkTarget }: Arrival,
  {
    encrypted,
    assertion,
    checked,
    flow,
  }: VerifiedResponse & { readonly checked: CheckedAssertion; readonly flow: Flow | undefined },
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
    unreadAttributes: saml.unread.take(unread),
    authnInstant: session.authnInstant && new Date(session.authnInstant),
    authnContext: session.authnContext,
    ...futureLogin(assertion.statements[0]?.instant, session),
    ...(assertion.unread.length === 0 ? {} : { unread: assertion.unread }),
  })
  const { baseUrl } = saml.config()
  let fields = setCookie.plus('Set-Cookie', ownerCookie(saml, session))
  const location =
    flow === undefined
      ? loginAddress(baseUrl, relayedReturn(saml, request, posted.relayState))
      : backAddress(baseUrl, flow.id)
  if (flow !== undefined) {
    const { sessionEnds: ends } = checked.subject
    const last = { at: now, depth: flow.depth, ahead, asks: flow.asks, ends }
    fields = fields
      .plus('Set-Cookie', keepFlow(saml, { ...flow, done: true }))
      // An earlier logout is forgotten, so that a late answer to it cannot end this session.
      .plus('Set-Cookie', keepKnown(saml, { last }))
  }
  const facts: OutcomeFacts = { saml: 'accepted' }
  return { ...redirect(303, location, fields), facts }
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
 * Handles an answer that no login of this browser waits for. A user already signed in goes on (a reload, a second tab). Browsers do
 * not send the session cookie with a post of another site (SameSite=Lax), and strict ones send no cookie at all: so when cookies
 * are missing, the browser posts the answer again from a page of ours, once.
 */
async function answerWithoutLogin(arrival: Arrival): Promise<Response> {
  const { saml, request, posted, state } = arrival
  const { encoded, relayState } = posted
  const { cookieState } = state
  const signedIn = (await saml.sessions.read(request)) !== undefined
  const sent = signedIn || (await saml.sessions.diagnose(request)).count > 0
  const heldBack = !signedIn && (cookieState === 'absent' || (cookieState === 'state' && !sent))
  const isPlain = /^[\x20-\x7e\r\n]*$/.test(`${encoded}${relayState ?? ''}`)
  if (heldBack && !isAgain(request) && isPlain) {
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
  if (!signedIn && flowIdIn(relayState) === undefined && mayBegin(request, [])) {
    return begunHere(arrival)
  }
  const cookies = request.fields.all('Cookie').join('; ')
  const count = cookies === '' ? 0 : cookies.split(';').length
  const finding = {
    what: 'Cookie of the login',
    ok: false,
    expected: 'one of a login that is under way in this browser',
    received: `${received[cookieState]}; ${count} cookies in all`,
  }
  const isOurs = flowIdIn(relayState) !== undefined
  const relayed = {
    what: 'RelayState',
    ok: isOurs,
    expected: 'the ID of a login begun here',
    received: isOurs ? 'the ID of a login begun here' : relayState ? 'something else' : '(nothing)',
  }
  const facts = { signedIn, idpInitiated: saml.config().idpInitiated }
  const findings = [finding, relayed]
  return resumeLogin(arrival, { code: codes[cookieState], findings, facts }, signedIn)
}

const received = {
  state: 'one of a login that is over',
  absent: 'none',
  invalid: 'one that our keys do not open',
}

/** Whether an answer without a login here may begin one: once, and in a browser that accepts cookies, or the browser would loop. */
function mayBegin(request: Request, open: readonly Flow[]): boolean {
  const { fields } = request
  const takesCookies = browserIn(fields) !== undefined || ownValues(fields, PROBE).length > 0
  return takesCookies && !open.some(flow => flowIdIn(flow.id)?.isReplacement)
}

/** A cookie without content. */
const PROBE = '__Host-authproxy_probe'

/**
 * Begins a login in place of one that the IdP began and `saml.idpInitiated` does not allow. The answer is dropped, and the IdP,
 * where the person is signed in, is asked for another. The login leads to the same target.
 */
function begunHere({ saml, request, posted: { relayState } }: Arrival): Response {
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
 * Answers when the only problem is that the login is not known, that its answer was posted twice, or that the IdP may have changed
 * its keys. A login is not known when it began too long ago, when too many tabs logged in, or when the IdP itself has lost it. The
 * redirect endpoint sends a browser with a session on, and begins the login again, once, for a browser without. Without the ID of a
 * login, or after the second time, the answer is refused.
 */
function resumeLogin(
  { saml, request, posted, linkTarget }: Arrival,
  refusal: Refusal,
  signedIn = false,
): Response {
  const { baseUrl } = saml.config()
  const flow = flowIdIn(posted.relayState)
  if (flow === undefined && signedIn) {
    return redirect(303, `${baseUrl}${relayedReturn(saml, request, posted.relayState)}`)
  }
  if (flow === undefined || (flow.isReplacement && !signedIn)) {
    return refusalPage(saml, request, { ...refusal, linkTarget })
  }
  const { code, facts } = refusal
  saml.count('login_resumed')
  saml.log.info('the login begins again', { request: request.id, flow: flow.id, code, ...facts })
  return redirect(303, backAddress(baseUrl, flow.id, 'resume'))
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
