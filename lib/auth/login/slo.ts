/**
 * Logout and single logout (SLO), /saml/slo. A person who signs out loses the local session first; then single logout is begun
 * if the IdP offers it. A logout message of the IdP counts when it is signed, by HTTP-Redirect over the query bytes, by
 * HTTP-POST inside. A request of the IdP ends sessions and is answered; an answer to ours ends the conversation
 * (saml-profiles-2.0-os section 4.4).
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import type { LogoutRequest, LogoutResponse } from '../../saml/binding/logout-message.ts'
import { logoutRequestXml, logoutResponseXml } from '../../saml/binding/message-xml.ts'
import { readRedirect } from '../../saml/binding/redirect.ts'
import { isSameAddress } from '../../saml/response/check-assertion.ts'
import type { MessageHead } from '../../saml/response/read-assertion.ts'
import { decodeBase64 } from '../../saml/xml/encoding.ts'
import { formatInstant } from '../../saml/xml/instant.ts'
import { type Difference, logoutLimits } from '../../saml/xml/message.ts'
import { shortName, status } from '../../saml/xml/vocabulary.ts'
import { isByWorker, isFetchedAhead } from '../access/navigation.ts'
import type { SentLogout } from '../idp/idp-link.ts'
import type { Sentence } from '../pages/language.ts'
import { challenge, loginAddress } from './addresses.ts'
import { AGAIN, clientOf, formPage, isAgain, readPost, sendMessage } from './bindings.ts'
import type { Saml } from './parts.ts'
import { logoutRefused, type Refusal } from './refusal-page.ts'

/** Answers GET and POST /saml/slo. */
export async function logout(saml: Saml, request: Request): Promise<Response> {
  // A HEAD comes from a program that fetches ahead, never from a person.
  if (request.method === 'HEAD') return askFirst(saml, request)
  const message = await messageIn(saml, request)
  if (message === undefined) return beginAsked(saml, request)
  return 'code' in message
    ? logoutRefused(saml, request, message)
    : takeMessage(saml, request, message)
}

/** The message of a request by either binding, if there is one. */
async function messageIn(saml: Saml, request: Request): Promise<SentLogout | Refusal | undefined> {
  const { method, target, fields } = request
  if (method !== 'POST') {
    const message = readRedirect(originForm(target).query)
    if (typeof message === 'string') return { code: 'logout_query', facts: { problem: message } }
    return message && { ...message, binding: 'redirect' }
  }
  if (fields.get('Content-Type') === undefined) return undefined
  const posted = await readPost(request, saml, logoutLimits)
  if (posted === undefined) return undefined
  if (typeof posted === 'string') return { code: posted }
  const { name, encoded, relayState } = posted
  const bytes = decodeBase64(encoded)
  if (bytes === undefined) return { code: 'base64' }
  return { name, bytes, relayState, signature: undefined, binding: 'post' }
}

/**
 * A person who opens the address is signed out at once, wherever the link was. Asks first when an image, a frame, a page fetched
 * ahead, or a form of another origin may have caused the request: none of them can answer the question. HEAD changes nothing.
 */
async function beginAsked(saml: Saml, request: Request): Promise<Response> {
  const { baseUrl } = saml.config()
  return isForeign(request, baseUrl) || isUnmeant(request)
    ? askFirst(saml, request)
    : begin(saml, request)
}

function askFirst(saml: Saml, request: Request): Response {
  return saml.page({
    request,
    template: 'saml-confirm-logout',
    // The form of the page has to say where it comes from: without a referrer policy of its own it would say "Origin: null".
    fields: Fields.of(['Referrer-Policy', 'same-origin']),
    view: say => ({
      title: say('Sign out?'),
      question: say('A link or another site asked to sign you out. Do you want to sign out?'),
      yes: say('Sign out'),
      no: say('Stay signed in'),
    }),
  })
}

/**
 * Whether a page of another origin caused the request, even one of the same site. A link that a person followed does not count.
 * Browsers without Sec-Fetch-Site say it by Origin when they post.
 */
function isForeign({ method, fields }: Request, baseUrl: string): boolean {
  const site = fields.get('Sec-Fetch-Site')
  if (site === 'same-origin' || site === 'none') return false
  if (site === undefined) return (fields.get('Origin') ?? baseUrl) !== baseUrl
  const followed =
    fields.get('Sec-Fetch-User') === '?1' && fields.get('Sec-Fetch-Dest') === 'document'
  return method === 'POST' || !followed
}

function isUnmeant({ fields }: Request): boolean {
  if (isFetchedAhead(fields)) return true
  // Requests for images, styles, scripts and beacons do not count as a logout, even from our own pages, because users can put
  // addresses into those.
  if (fields.get('Sec-Fetch-Mode') === 'no-cors') return true
  const place = fields.get('Sec-Fetch-Dest')
  return place !== undefined && !['document', 'iframe', 'frame', 'empty'].includes(place)
}

async function takeMessage(saml: Saml, request: Request, message: SentLogout): Promise<Response> {
  if (saml.idp.current === undefined) {
    return logoutRefused(saml, request, { code: 'idp_metadata' })
  }
  const { name, signature } = message
  const { state } = saml.cookies(request)
  // Without a signature a message by redirect can only be refused, unless it answers a logout that this browser has begun.
  const awaited = name === 'SAMLResponse' && state.logout !== undefined
  const hopeless = signature === undefined && !awaited && !saml.config().allowUnsignedLogout
  if (message.binding === 'redirect' && hopeless) {
    const expected = 'a signature over the query'
    const finding = { what: 'Signature', ok: false, expected, received: '(nothing)' }
    return logoutRefused(saml, request, { code: 'signature_missing', findings: [finding] })
  }
  const client = clientOf(saml, request, state.cookieState === 'state')
  const read = await saml.idp.verifyLogout(message, client)
  if (!read.ok) return logoutRefused(saml, request, read.refusal)
  if (name === 'SAMLRequest' && read.kind === 'LogoutRequest') {
    return answerRequest(saml, read, { request, message })
  }
  return name === 'SAMLResponse' && read.kind === 'LogoutResponse'
    ? takeAnswer(saml, read, request)
    : logoutRefused(saml, request, { code: 'logout_form' })
}

/** Ends the local session, and begins single logout when there was one and the IdP offers it. */
async function begin(saml: Saml, request: Request): Promise<Response> {
  const session = await saml.sessions.read(request)
  // The last login is forgotten, so that signing in again after a logout does not count as a loop.
  const cookies = saml.cookies(request)
  const { last, logout } = cookies.state
  if (last !== undefined) cookies.know({ logout })
  const ended = saml.sessions.end(request)
  const fields = Fields.of(...ended, ...cookies.lines)
  if (session === undefined) return signedOut(saml, request, { where: 'unknown', fields })
  await saml.sessions.revoke({ sessionId: session.id })
  saml.count('logout')
  saml.log.info('signed out', { request: request.id, session: session.id, by: 'person' })
  const idp = saml.idp.current
  const [endpoint] = idp?.singleLogout ?? []
  const { nameId, sessionIndex } = session
  if (endpoint === undefined || nameId === undefined || session.issuer !== idp?.entityId) {
    return signedOut(saml, request, { where: 'no', fields })
  }
  const head = newHead(saml, endpoint.location)
  const { id } = head
  const notOnOrAfter = head.issued + 300_000
  const xml = logoutRequestXml({ ...head, nameId, sessionIndex, notOnOrAfter })
  cookies.know({ logout: id })
  return sendMessage(saml, {
    ...signingOut,
    request,
    to: endpoint,
    message: { name: 'SAMLRequest', xml, id },
    fields: Fields.of(...ended, ...cookies.lines),
  })
}

/** The head of a logout message of ours. Its new ID is unguessable, and an xs:ID (saml-core-2.0-os section 1.3.4). */
function newHead(saml: Saml, destination: string) {
  const id = `_${saml.random(20).toString('hex')}`
  return { id, issuer: saml.config().entityId, issued: saml.clock.now(), destination }
}

/** Logout messages are always signed, because IdPs that do not require a signature accept one. */
const signingOut = {
  title: 'Signing out',
  label: 'Continue to sign out',
  signed: true,
  follows: 303,
} as const

/** Ends the sessions a LogoutRequest of the IdP names (4.4.3.1) and sends its answer. */
async function answerRequest(
  saml: Saml,
  message: LogoutRequest,
  arrived: { readonly request: Request; readonly message: SentLogout },
): Promise<Response> {
  const { request } = arrived
  const { relayState } = arrived.message
  const { signed, issuer = '', nameId, sessionIndexes, encryptedId } = message
  const { allowUnsignedLogout, assertionAge, clockSkew } = saml.config()
  const refuse = (code: Refusal['code']) =>
    logoutRefused(saml, request, { code, ...sentBy(message) })
  if (!signed && !allowUnsignedLogout) return refuse('signature_missing')
  if (!signed) {
    saml.log.warn('an unsigned LogoutRequest is taken, as configured', { request: request.id })
  }
  const problem = checkHead(saml, message) ?? checkEnd(saml, message)
  if (problem !== undefined) return logoutRefused(saml, request, problem)
  const session = await saml.sessions.read(request)
  if (session === undefined && !saml.sessions.canRevoke && !isAgain(request)) {
    const again = postedAgain(saml, arrived)
    if (again !== undefined) return again
  }
  const until = saml.clock.now() + assertionAge + 2 * clockSkew
  const used = [`logout ${message.id}`]
  // Messages that any client can send must not fill the replay cache, or no login would be accepted.
  const once = { ids: used, until, ownListSuffices: true }
  if (signed && (await saml.used.use(once)) !== 'first') return refuse('replay')
  if (nameId === undefined) return refuse(encryptedId ? 'encrypted_id' : 'logout_form')

  const named = { issuer, nameId: nameId.value, sessionIndexes }
  const everywhere = await saml.sessions.revoke(named, signed ? 'known' : 'anyone')
  // The cookies of this browser are removed when the message names its session. They stay when the session is another person's,
  // and when it is not seen: any site could post a message that was once meant for somebody else. A session that the message
  // names has ended by the list all the same.
  const meant =
    session !== undefined &&
    session.issuer === issuer &&
    session.nameId?.value === nameId.value &&
    (sessionIndexes.length === 0 || sessionIndexes.includes(session.sessionIndex ?? ''))
  const fields = meant ? saml.sessions.end(request) : undefined
  saml.count('logout')
  saml.log.info('signed out', { request: request.id, session: session?.id, by: 'idp', meant })
  const [endpoint] = saml.idp.current?.singleLogout ?? []
  if (endpoint === undefined) return signedOut(saml, request, { where: 'yes', fields })
  const { binding, location: usual, responseLocation: location = usual } = endpoint
  const head = { ...newHead(saml, location), inResponseTo: message.id }
  // Without a list of ended sessions, only the session of this browser is known to have ended.
  const ended = everywhere || meant
  const xml = logoutResponseXml({ ...head, status: ended ? status.success : status.responder })
  return sendMessage(saml, {
    ...signingOut,
    request,
    to: { binding, location },
    message: { name: 'SAMLResponse', xml, id: head.id, relayState },
    framedBy: originsOf(saml),
    ...(fields === undefined ? {} : { fields }),
  })
}

/**
 * A page of ours that posts the message once more, so that the browser sends the cookie of the session along: it holds the cookie
 * back from a post of another site (SameSite=Lax), the IdP's included. Needed only without a list of ended sessions. Undefined
 * for a message by redirect, and one that a page cannot repeat.
 */
function postedAgain(
  saml: Saml,
  { request, message }: { readonly request: Request; readonly message: SentLogout },
): Response | undefined {
  const { binding, bytes, relayState } = message
  if (binding !== 'post' || !/^[\x20-\x7e]*$/.test(relayState ?? '')) return undefined
  return formPage(saml, {
    ...signingOut,
    request,
    action: `/saml/slo?${AGAIN}`,
    values: { SAMLRequest: bytes.toString('base64'), RelayState: relayState },
    framedBy: originsOf(saml),
  })
}

/** The origins of the IdP. Some sign out by hidden frames: their page shows ours, which sends the answer on and nothing else. */
function originsOf(saml: Saml): readonly string[] {
  const { singleLogout = [], singleSignOn = [] } = saml.idp.current ?? {}
  const locations = [...singleLogout, ...singleSignOn].map(({ location }) => location)
  return [...new Set(locations.map(location => new URL(location).origin))]
}

/** The IdP's answer to our LogoutRequest; the local session has ended already, so all it changes is what the page says. */
async function takeAnswer(
  saml: Saml,
  message: LogoutResponse,
  request: Request,
): Promise<Response> {
  const problem = checkHead(saml, message)
  if (problem !== undefined) return logoutRefused(saml, request, problem)
  const { signed, inResponseTo } = message
  const { logout } = saml.cookies(request).state
  const ours = logout !== undefined && inResponseTo === logout
  const facts = { request: request.id, status: shortName(message.status), signed, ours }
  saml.log.info('single logout was answered', facts)
  // Any site can make a browser send an answer to a request we never made. Such an answer must not sign a user out.
  if (!ours && (await saml.sessions.read(request)) !== undefined) {
    const expected = logout ?? 'no answer: this browser has begun no logout'
    const finding = { what: 'InResponseTo', expected, received: inResponseTo ?? NOTHING }
    return logoutRefused(saml, request, wrong(message, 'in_response_to', finding))
  }
  const done = signed && ours && message.status === status.success
  return signedOut(saml, request, {
    where: done ? 'yes' : 'partly',
    fields: ours ? saml.sessions.end(request) : undefined,
  })
}

/** The reason why the head of a message is refused, with the expected and the received value; undefined when it is accepted. */
function checkHead(saml: Saml, message: MessageHead): Refusal | undefined {
  const { sloUrl, clockSkew, assertionAge } = saml.config()
  const { version, id, issuer, destination, issued, signed } = message
  if (version !== '2.0') {
    return wrong(message, 'version', { what: 'Version', expected: '2.0', received: version })
  }
  if (id === '') {
    return wrong(message, 'version', { what: 'ID', expected: 'an ID', received: NOTHING })
  }
  const expected = saml.idp.current?.entityId ?? ''
  if (issuer === undefined || issuer !== expected) {
    return wrong(message, 'issuer', { what: 'Issuer', expected, received: issuer ?? NOTHING })
  }
  // A signed message names where it goes (saml-bindings-2.0-os sections 3.4.5.2 and 3.5.5.2), or it could be played to another service.
  if (destination === undefined ? signed : !isSameAddress(destination, sloUrl)) {
    const received = destination ?? NOTHING
    return wrong(message, 'destination', { what: 'Destination', expected: sloUrl, received })
  }
  const now = saml.clock.now()
  const moment = issued?.moment
  const [oldest, newest] = [now - assertionAge - clockSkew, now + clockSkew]
  if (moment !== undefined && moment >= oldest && moment <= newest) return undefined
  const code = moment !== undefined && moment < oldest ? 'too_old' : 'issue_instant'
  return wrong(message, code, {
    what: 'IssueInstant',
    expected: `from ${formatInstant(oldest)} until ${formatInstant(newest)}`,
    received: issued?.text ?? NOTHING,
  })
}

const NOTHING = '(nothing)'

/** The refusal of a message that is not as expected in one thing. */
function wrong(message: MessageHead, code: Refusal['code'], difference: Difference): Refusal {
  const { what, ...values } = difference
  return { code, findings: [{ what, ok: false, ...values }], ...sentBy(message) }
}

/** The sender of a message, for the log. */
function sentBy({ issuer, signed, id }: MessageHead): Pick<Refusal, 'facts'> {
  return { facts: { issuer: issuer?.slice(0, 200), signed, id: id.slice(0, 200) } }
}

function checkEnd(saml: Saml, message: LogoutRequest): Refusal | undefined {
  const { notOnOrAfter } = message
  if (notOnOrAfter === undefined) return undefined
  const moment = notOnOrAfter.moment ?? Number.NEGATIVE_INFINITY
  const earliest = saml.clock.now() - saml.config().clockSkew
  if (moment > earliest) return undefined
  const expected = `after ${formatInstant(earliest)}`
  return wrong(message, 'expired', { what: 'NotOnOrAfter', expected, received: notOnOrAfter.text })
}

/** The end of a session, with a link to begin another: the page does not sign in by itself. */
function signedOut(
  saml: Saml,
  request: Request,
  ended: { readonly where: keyof typeof sentences; readonly fields: Fields | undefined },
): Response {
  // A service worker would keep a page with a status of success, and show it the next time instead of signing out.
  const byWorker = isByWorker(request)
  const login = byWorker ? challenge(loginAddress(saml.config().baseUrl, '/')) : Fields.empty
  const fields = Fields.of(...(ended.fields ?? Fields.empty), ...login)
  return saml.page({
    request,
    template: 'sentences',
    status: byWorker ? 401 : 200,
    fields,
    view: say => ({
      title: say('You are signed out'),
      sentences: sentences[ended.where].map(sentence => say(sentence)),
      href: `${saml.config().baseUrl}/`,
      label: say('Sign in again'),
    }),
  })
}

const closeBrowser = 'To be safe on a shared computer, close the browser.'

/** The places where sessions are known to have ended. */
const sentences = {
  yes: ['Your session here and at the identity provider has ended.'],
  partly: [
    'Your session here has ended. The identity provider did not confirm that all others have.',
    closeBrowser,
  ],
  no: [
    'Your session here has ended. Your session at the identity provider stays active, and may sign you in again without asking.',
    closeBrowser,
  ],
  unknown: ['There is no session here.'],
} satisfies Readonly<Record<string, readonly Sentence[]>>
