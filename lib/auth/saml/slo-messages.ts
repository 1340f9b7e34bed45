/**
 * What a verified logout message leads to, saml-profiles-2.0-os section 4.4: a request ends sessions and is answered, an answer
 * to ours ends the conversation.
 */
import type { Request, Response } from '../../http/message/message.ts'
import type { LogoutRequest, LogoutResponse } from './binding/logout-message.ts'
import { logoutResponseXml } from './binding/logout-xml.ts'
import { parseInstant } from './core/instant.ts'
import { shortName, status } from './core/vocabulary.ts'
import type { Endpoint } from './metadata/idp-metadata.ts'
import { newId, type Saml, stateOf } from './parts.ts'
import { logoutRefused, sendMessage, signedOut } from './slo-pages.ts'

interface Arrived {
  readonly request: Request
  /** Whether it is signed, by either binding. */
  readonly signed: boolean
  readonly relayState: string | undefined
}

/** Ends the sessions a LogoutRequest of the IdP names (4.4.3.1) and sends its answer. */
export async function answerRequest(
  saml: Saml,
  message: LogoutRequest,
  arrived: Arrived,
): Promise<Response> {
  const { request, signed, relayState } = arrived
  const config = saml.config()
  if (!signed && !config.allowUnsignedLogout) {
    return logoutRefused(saml, request, { code: 'signature_missing' })
  }
  if (!signed)
    saml.log.warn('an unsigned LogoutRequest is taken, as configured', { request: request.id })
  const problem = checkHead(saml, message) ?? checkTimes(saml, message)
  if (problem !== undefined) return logoutRefused(saml, request, { code: problem })
  const { issuer = '', nameId } = message
  const until = saml.clock.now() + config.assertionAge + 2 * config.clockSkew
  if (!saml.consumed.consume([`logout ${message.id}`], until)) {
    return logoutRefused(saml, request, { code: 'replay' })
  }
  if (nameId === undefined) {
    return logoutRefused(saml, request, {
      code: message.encryptedId ? 'encrypted_id' : 'logout_form',
    })
  }
  const session = await saml.sessions.read(request)
  const sessionIndexes = message.sessionIndexes
  await saml.sessions.revoke({ issuer, nameId: nameId.value, sessionIndexes })
  // This browser's own session ends when it is meant: that of somebody else in it does not.
  const meant =
    session !== undefined &&
    session.issuer === issuer &&
    session.nameId?.value === nameId.value &&
    (sessionIndexes.length === 0 || sessionIndexes.includes(session.sessionIndex ?? ''))
  const cookies = meant ? saml.sessions.end(request) : undefined
  saml.outcomes.count('logout')
  saml.log.info('signed out', { request: request.id, session: session?.id, by: 'idp', meant })
  const endpoint = answerEndpoint(saml)
  if (endpoint === undefined) return signedOut(saml, { cookies, everywhere: 'yes' })
  const location = endpoint.responseLocation ?? endpoint.location
  const id = newId(saml)
  const xml = logoutResponseXml({
    id,
    issuer: config.entityId,
    issued: saml.clock.now(),
    destination: location,
    inResponseTo: message.id,
    status: status.success,
  })
  const answer = { name: 'SAMLResponse', xml, id, relayState } as const
  return sendMessage(saml, { endpoint, location, message: answer, cookies, request })
}

function answerEndpoint(saml: Saml): Endpoint | undefined {
  return saml.source.current()?.singleLogout[0]
}

/** The IdP's answer to our LogoutRequest; the local session has ended already, so all it changes is what the page says. */
export async function takeAnswer(
  saml: Saml,
  message: LogoutResponse,
  arrived: Arrived,
): Promise<Response> {
  const { request, signed } = arrived
  const problem = checkHead(saml, message)
  if (problem !== undefined) return logoutRefused(saml, request, { code: problem })
  const { state } = stateOf(saml, request)
  const ours = state.logout !== undefined && message.inResponseTo === state.logout
  const done = signed && ours && message.status === status.success
  saml.log.info('single logout was answered', {
    request: request.id,
    status: shortName(message.status),
    signed,
    ours,
  })
  // Anybody can send an answer to a question we never asked: it must not sign anybody out.
  if (!ours && (await saml.sessions.read(request)) !== undefined) {
    return logoutRefused(saml, request, { code: 'in_response_to' })
  }
  const cookies = ours ? saml.sessions.end(request) : undefined
  return signedOut(saml, { cookies, everywhere: done ? 'yes' : 'partly' })
}

function checkHead(saml: Saml, message: LogoutRequest | LogoutResponse): string | undefined {
  const { sloUrl, clockSkew, assertionAge } = saml.config()
  const { version, id, issuer, destination, issued } = message
  if (version !== '2.0' || id === '') return 'version'
  if (issuer === undefined || issuer !== saml.source.current()?.entityId) return 'issuer'
  if (destination !== undefined && destination !== sloUrl) return 'destination'
  const now = saml.clock.now()
  const moment = issued?.moment
  if (moment === undefined || moment > now + clockSkew) return 'issue_instant'
  return moment < now - assertionAge - clockSkew ? 'too_old' : undefined
}

function checkTimes(saml: Saml, { notOnOrAfter }: LogoutRequest): string | undefined {
  if (notOnOrAfter === undefined) return undefined
  const moment = parseInstant(notOnOrAfter.text)
  const open = moment !== undefined && moment > saml.clock.now() - saml.config().clockSkew
  return open ? undefined : 'expired'
}
