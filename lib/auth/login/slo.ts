/**
 * Logout and single logout (SLO), /saml/slo. A person who signs out loses the local session first; then single logout is begun
 * if the IdP offers it. A logout message of the IdP counts when it is signed, by HTTP-Redirect over the query bytes, by
 * HTTP-POST inside.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { LogoutMessage } from '../../saml/binding/logout-message.ts'
import { logoutRequestXml } from '../../saml/binding/message-xml.ts'
import {
  checkRedirectSignature,
  type RedirectMessage,
  readRedirect,
} from '../../saml/binding/redirect.ts'
import { decodeBase64 } from '../../saml/core/encoding.ts'
import { logoutLimits } from '../../saml/core/message.ts'
import type { ResponseRules } from '../../saml/core/verify-response.ts'
import { keepKnown, stateOf } from './login-state.ts'
import { newHead, type Saml } from './parts.ts'
import { readPost } from './post.ts'
import { logoutRefused, type Refusal } from './refusal-page.ts'
import { sendMessage } from './send.ts'
import { answerRequest, signedOut, signingOut, takeAnswer } from './slo-messages.ts'
import { clientOf, verify } from './verify.ts'
import type { Client } from './worker/pool.ts'

/** A message by either binding; only HTTP-Redirect has a signature beside the message. */
type Message = RedirectMessage & { readonly binding: 'redirect' | 'post' }

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
async function messageIn(saml: Saml, request: Request): Promise<Message | Refusal | undefined> {
  const { method, target, fields } = request
  if (method !== 'POST') {
    const message = readRedirect(target.form === 'origin' ? target.query : undefined)
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
  const purpose = fields.get('Sec-Purpose') ?? fields.get('Purpose') ?? ''
  if (/prefetch|prerender/i.test(purpose)) return true
  // Requests for images, styles, scripts and beacons do not count as a logout, even from our own pages, because users can put
  // addresses into those.
  if (fields.get('Sec-Fetch-Mode') === 'no-cors') return true
  const place = fields.get('Sec-Fetch-Dest')
  return place !== undefined && !['document', 'iframe', 'frame', 'empty'].includes(place)
}

async function takeMessage(saml: Saml, request: Request, message: Message): Promise<Response> {
  if (saml.source.current() === undefined) {
    return logoutRefused(saml, request, { code: 'idp_metadata' })
  }
  const { name, relayState, signature } = message
  const state = stateOf(saml, request)
  // Without a signature a message by redirect can only be refused, unless it answers a logout that this browser has begun.
  const awaited = name === 'SAMLResponse' && state.logout !== undefined
  const hopeless = signature === undefined && !awaited && !saml.config().allowUnsignedLogout
  if (message.binding === 'redirect' && hopeless) {
    const expected = 'a signature over the query'
    const finding = { what: 'Signature', ok: false, expected, received: '(nothing)' }
    return logoutRefused(saml, request, { code: 'signature_missing', findings: [finding] })
  }
  const client = clientOf(saml, request, state.cookieState === 'state')
  const read = await verify(saml, rules => readMessage(saml, message, { rules, client }))
  if (!read.ok) return logoutRefused(saml, request, read.refusal)
  if (name === 'SAMLRequest' && read.kind === 'LogoutRequest') {
    return answerRequest(saml, read, { request, relayState })
  }
  return name === 'SAMLResponse' && read.kind === 'LogoutResponse'
    ? takeAnswer(saml, read, request)
    : logoutRefused(saml, request, { code: 'logout_form' })
}

/** Reads a message. With HTTP-Redirect only the signature over the query counts, and `signed` speaks of that one. */
async function readMessage(
  saml: Saml,
  message: Message,
  { rules, client }: { readonly rules: ResponseRules; readonly client: Client },
): Promise<LogoutMessage> {
  const { bytes, binding } = message
  const because = checkRedirectSignature(message, rules)
  const signed = because === undefined
  if (!signed && because !== 'signature_missing') {
    const finding = {
      what: 'SigAlg and Signature',
      expected: 'a signature by a key of the IdP, with RSA, RSA-PSS or ECDSA and SHA-256 or better',
      received: message.signature?.algorithm ?? '(nothing)',
    }
    return { ok: false, because, problem: 'the signature over the query does not hold', finding }
  }
  const job = { kind: 'logout', bytes, rules: { ...rules, signedOutside: signed } } as const
  const read = await saml.verifiers.logout.run(job, client)
  return read.ok && binding === 'redirect' ? { ...read, signed } : read
}

/** Ends the local session, and begins single logout when there was one and the IdP offers it. */
async function begin(saml: Saml, request: Request): Promise<Response> {
  const session = await saml.sessions.read(request)
  // The last login is forgotten, so that signing in again after a logout does not count as a loop.
  const { last, logout } = stateOf(saml, request)
  const cookies = saml.sessions.end(request)
  const fields =
    last === undefined ? cookies : cookies.plus('Set-Cookie', keepKnown(saml, { logout }))
  if (session === undefined) return signedOut(saml, request, { where: 'unknown', fields })
  await saml.sessions.revoke({ sessionId: session.id })
  saml.count('logout')
  saml.log.info('signed out', { request: request.id, session: session.id, by: 'person' })
  const idp = saml.source.current()
  const [endpoint] = idp?.singleLogout ?? []
  const { nameId, sessionIndex } = session
  if (endpoint === undefined || nameId === undefined || session.issuer !== idp?.entityId) {
    return signedOut(saml, request, { where: 'no', fields })
  }
  const head = newHead(saml, endpoint.location)
  const { id } = head
  const notOnOrAfter = head.issued + 300_000
  const xml = logoutRequestXml({ ...head, nameId, sessionIndex, notOnOrAfter })
  return sendMessage(saml, {
    ...signingOut,
    request,
    to: endpoint,
    message: { name: 'SAMLRequest', xml, id },
    fields: cookies.plus('Set-Cookie', keepKnown(saml, { logout: id })),
  })
}
