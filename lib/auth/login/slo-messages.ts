/**
 * Acts on verified logout messages, saml-profiles-2.0-os section 4.4: a request ends sessions and is answered, an answer to ours
 * ends the conversation.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { LogoutRequest, LogoutResponse } from '../../saml/binding/logout-message.ts'
import { logoutResponseXml } from '../../saml/binding/message-xml.ts'
import { isSameAddress } from '../../saml/core/check-assertion.ts'
import { formatInstant } from '../../saml/core/instant.ts'
import type { Difference } from '../../saml/core/message.ts'
import type { MessageHead } from '../../saml/core/read-assertion.ts'
import { shortName, status } from '../../saml/core/vocabulary.ts'
import { isByWorker } from '../access/navigation.ts'
import { challenge } from '../pages/failure-page.ts'
import type { Sentence } from '../pages/language.ts'
import { useOnce } from './first-use.ts'
import { stateOf } from './login-state.ts'
import { loginAddress, newHead, type Saml } from './parts.ts'
import { logoutRefused, type Refusal } from './refusal-page.ts'
import { sendMessage } from './send.ts'

/** Logout messages are always signed, because IdPs that do not require a signature accept one. */
export const signingOut = {
  title: 'Signing out',
  label: 'Continue to sign out',
  signed: true,
  follows: 303,
} as const

/** Ends the sessions a LogoutRequest of the IdP names (4.4.3.1) and sends its answer. */
export async function answerRequest(
  saml: Saml,
  message: LogoutRequest,
  arrived: { readonly request: Request; readonly relayState: string | undefined },
): Promise<Response> {
  const { request, relayState } = arrived
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
  const until = saml.clock.now() + assertionAge + 2 * clockSkew
  const used = [`logout ${message.id}`]
  // Messages that any client can send must not fill the replay cache, or no login would be accepted any more.
  const once = { ids: used, until, alone: true }
  if (signed && (await useOnce(saml, once)) !== 'first') return refuse('replay')
  if (nameId === undefined) return refuse(encryptedId ? 'encrypted_id' : 'logout_form')

  const session = await saml.sessions.read(request)
  const named = { issuer, nameId: nameId.value, sessionIndexes }
  const everywhere = await saml.sessions.revoke(named, signed ? 'known' : 'anyone')
  // This browser's own session ends when the message names it, and stays when it is another person's. A post from the IdP's
  // site comes without the session's cookie (SameSite=Lax): then a signed message takes whichever there is away.
  const meant =
    session !== undefined &&
    session.issuer === issuer &&
    session.nameId?.value === nameId.value &&
    (sessionIndexes.length === 0 || sessionIndexes.includes(session.sessionIndex ?? ''))
  const unseen = session === undefined && signed
  const fields = meant || unseen ? saml.sessions.end(request) : undefined
  saml.count('logout')
  saml.log.info('signed out', { request: request.id, session: session?.id, by: 'idp', meant })
  const [endpoint] = saml.source.current()?.singleLogout ?? []
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
    ...(fields === undefined ? {} : { fields }),
  })
}

/** The IdP's answer to our LogoutRequest; the local session has ended already, so all it changes is what the page says. */
export async function takeAnswer(
  saml: Saml,
  message: LogoutResponse,
  request: Request,
): Promise<Response> {
  const problem = checkHead(saml, message)
  if (problem !== undefined) return logoutRefused(saml, request, problem)
  const { signed, inResponseTo } = message
  const { logout } = stateOf(saml, request)
  const ours = logout !== undefined && inResponseTo === logout
  const facts = { request: request.id, status: shortName(message.status), signed, ours }
  saml.log.info('single logout was answered', facts)
  // Any site can make a browser send an answer to a request we never made. Such an answer must not sign a user out.
  if (!ours && (await saml.sessions.read(request)) !== undefined) {
    const expected = logout ?? 'no answer: this browser has begun no logout'
    const finding = { what: 'InResponseTo', ok: false, expected, received: inResponseTo ?? NOTHING }
    return logoutRefused(saml, request, {
      code: 'in_response_to',
      findings: [finding],
      ...sentBy(message),
    })
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
  const wrong = (
    code: Refusal['code'],
    what: string,
    difference: Omit<Difference, 'what'>,
  ): Refusal => ({
    code,
    findings: [{ what, ok: false, ...difference }],
    ...sentBy(message),
  })
  if (version !== '2.0') return wrong('version', 'Version', { expected: '2.0', received: version })
  if (id === '') return wrong('version', 'ID', { expected: 'an ID', received: NOTHING })
  const expected = saml.source.current()?.entityId ?? ''
  if (issuer === undefined || issuer !== expected) {
    return wrong('issuer', 'Issuer', { expected, received: issuer ?? NOTHING })
  }
  // A signed message names where it goes (saml-bindings-2.0-os sections 3.4.5.2 and 3.5.5.2), or it could be played to another service.
  if (destination === undefined ? signed : !isSameAddress(destination, sloUrl)) {
    const received = destination ?? NOTHING
    return wrong('destination', 'Destination', { expected: sloUrl, received })
  }
  const now = saml.clock.now()
  const moment = issued?.moment
  const [oldest, newest] = [now - assertionAge - clockSkew, now + clockSkew]
  if (moment !== undefined && moment >= oldest && moment <= newest) return undefined
  const code = moment !== undefined && moment < oldest ? 'too_old' : 'issue_instant'
  return wrong(code, 'IssueInstant', {
    expected: `from ${formatInstant(oldest)} until ${formatInstant(newest)}`,
    received: issued?.text ?? NOTHING,
  })
}

const NOTHING = '(nothing)'

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
  const finding = { what: 'NotOnOrAfter', ok: false, expected, received: notOnOrAfter.text }
  return { code: 'expired', findings: [finding], ...sentBy(message) }
}

/** The end of a session, with a link to begin another: the page does not sign in by itself. */
export function signedOut(
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
