/**
 * Logout: /saml/slo. The local session always ends, before anything else is asked. Single logout is begun when the IdP offers
 * it and answered when the IdP begins it; a message of the IdP counts when it is signed, by HTTP-Redirect over the query bytes,
 * by HTTP-POST inside.
 */
import type { Request, Response } from '../../http/message/message.ts'
import type { Session } from '../session/token.ts'
import { logoutRequestXml } from './binding/logout-xml.ts'
import { onlyValue, readForm } from './binding/post.ts'
import {
  checkRedirectSignature,
  type MessageName,
  type RedirectMessage,
  readRedirect,
} from './binding/redirect.ts'
import { decodeBase64 } from './core/base64.ts'
import { messageLimits } from './core/scan.ts'
import { keepState, newId, type Saml, stateOf } from './parts.ts'
import { answerRequest, takeAnswer } from './slo-messages.ts'
import { logoutRefused, sendMessage, signedOut } from './slo-pages.ts'
import { WorkerFailure } from './worker/thread.ts'

/** Answers GET and POST /saml/slo. */
export async function logout(saml: Saml, request: Request): Promise<Response> {
  if (request.method === 'POST') {
    const form = await readPosted(saml, request)
    if (typeof form === 'string') return logoutRefused(saml, request, { code: form })
    return form === undefined ? beginAsked(saml, request) : takeMessage(saml, request, form)
  }
  const query = request.target.form === 'origin' ? request.target.query : undefined
  const message = readRedirect(query)
  if (typeof message === 'string') {
    return logoutRefused(saml, request, { code: 'logout_query', facts: { problem: message } })
  }
  if (message !== undefined) return takeMessage(saml, request, message)
  return beginAsked(saml, request)
}

/**
 * An image, a page fetched ahead, or a form of a strange page that sends itself must not sign anybody out: they are asked first,
 * which only a person can answer.
 */
async function beginAsked(saml: Saml, request: Request): Promise<Response> {
  if (isUnmeant(request)) {
    return saml.page({ template: 'saml-confirm-logout', view: { title: 'Sign out?' } })
  }
  return begin(saml, request)
}

function isUnmeant({ fields }: Request): boolean {
  if (fields.get('Sec-Fetch-Site') === 'cross-site') return true
  if (/prefetch|prerender/i.test(fields.get('Sec-Purpose') ?? fields.get('Purpose') ?? ''))
    return true
  // Images, styles, scripts and beacons, also those of our own pages: people put addresses into them.
  if (fields.get('Sec-Fetch-Mode') === 'no-cors') return true
  const place = fields.get('Sec-Fetch-Dest')
  return place !== undefined && !['document', 'iframe', 'frame', 'empty'].includes(place)
}

/** A message by HTTP-POST; undefined when the form carries none, a code when it cannot be read. */
async function readPosted(saml: Saml, request: Request): Promise<Message | string | undefined> {
  if (request.fields.get('Content-Type') === undefined) return undefined
  const size = messageLimits.size * 4
  const form = await readForm(request, { ...saml, size, time: 30_000 })
  if (!form.ok) return form.because
  const asked = onlyValue(form.pairs, 'SAMLRequest')
  const answered = onlyValue(form.pairs, 'SAMLResponse')
  const relayState = onlyValue(form.pairs, 'RelayState')
  const encoded = asked ?? answered
  if (encoded === undefined) return undefined
  const twice = asked !== undefined && answered !== undefined
  if (twice || typeof encoded !== 'string' || typeof relayState === 'object')
    return 'form_malformed'
  const bytes = decodeBase64(encoded)
  if (bytes === undefined) return 'base64'
  return {
    name: asked === undefined ? 'SAMLResponse' : 'SAMLRequest',
    bytes,
    relayState,
    outer: undefined,
  }
}

/** A message by either binding; `outer` is the message of HTTP-Redirect with its signature over the query. */
export interface Message {
  readonly name: MessageName
  readonly bytes: Buffer
  readonly relayState: string | undefined
  readonly outer: RedirectMessage | undefined
}

async function takeMessage(
  saml: Saml,
  request: Request,
  given: Message | RedirectMessage,
): Promise<Response> {
  const message: Message = 'outer' in given ? given : { ...given, outer: given }
  const { allowSha1 } = saml.config()
  const certificates = () => (saml.source.current()?.keys ?? []).map(key => key.certificate)
  if (saml.source.current() === undefined)
    return logoutRefused(saml, request, { code: 'idp_metadata' })
  let signature =
    message.outer === undefined
      ? undefined
      : checkRedirectSignature(message.outer, { certificates: certificates(), allowSha1 })
  if (
    message.outer !== undefined &&
    signature === 'signature_invalid' &&
    (await saml.source.refreshForUnknownKey())
  ) {
    signature = checkRedirectSignature(message.outer, { certificates: certificates(), allowSha1 })
  }
  if (signature !== undefined && signature !== 'signature_missing') {
    return logoutRefused(saml, request, { code: signature })
  }
  const rules = {
    certificates: certificates(),
    decryptionKeys: saml.keys.saml().map(pair => pair.privateKey),
    allowSha1,
    signedOutside: message.outer !== undefined && signature === undefined,
  }
  try {
    const read = await saml.verifier.run({ kind: 'logout', bytes: message.bytes, rules })
    if (!read.ok) {
      return logoutRefused(saml, request, { code: read.because, facts: { problem: read.problem } })
    }
    const signed = message.outer === undefined ? read.signed : signature === undefined
    const arrived = { request, signed, relayState: message.relayState }
    if (message.name === 'SAMLRequest' && read.kind === 'LogoutRequest') {
      return await answerRequest(saml, read, arrived)
    }
    if (message.name === 'SAMLResponse' && read.kind === 'LogoutResponse') {
      return await takeAnswer(saml, read, arrived)
    }
    return logoutRefused(saml, request, { code: 'logout_form' })
  } catch (error) {
    if (!(error instanceof WorkerFailure)) throw error
    return logoutRefused(saml, request, { code: error.code, cause: error })
  }
}

/** Ends the local session, and begins single logout when there was one and the IdP offers it. */
async function begin(saml: Saml, request: Request): Promise<Response> {
  const session = await saml.sessions.read(request)
  let cookies = saml.sessions.end(request)
  // Whoever signs out and in again runs in no loop.
  const { last, ...state } = stateOf(saml, request).state
  if (last !== undefined) cookies = cookies.plus('Set-Cookie', keepState(saml, state))
  if (session === undefined) return signedOut(saml, { cookies, everywhere: 'unknown' })
  await saml.sessions.revoke({ sessionId: session.id })
  saml.outcomes.count('logout')
  saml.log.info('signed out', { request: request.id, session: session.id, by: 'person' })
  const endpoint = saml.source.current()?.singleLogout[0]
  const nameId = session.nameId
  if (endpoint === undefined || nameId === undefined || !isOf(saml, session)) {
    return signedOut(saml, { cookies, everywhere: 'no' })
  }
  const id = newId(saml)
  const now = saml.clock.now()
  const { entityId } = saml.config()
  const xml = logoutRequestXml({
    id,
    issuer: entityId,
    issued: now,
    destination: endpoint.location,
    nameId,
    sessionIndex: session.sessionIndex,
    notOnOrAfter: now + 300_000,
  })
  const message = { name: 'SAMLRequest', xml, id } as const
  return sendMessage(saml, {
    endpoint,
    location: endpoint.location,
    message,
    cookies,
    waitsFor: id,
    request,
  })
}

function isOf(saml: Saml, session: Session): boolean {
  return session.issuer === saml.source.current()?.entityId
}
