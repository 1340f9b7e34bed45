/**
 * Begins a login by sending a navigation without a session to the IdP with an AuthnRequest. What has to be known when the
 * browser comes back travels in the sealed state cookie.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { SamlConfig } from '../config/config.ts'
import type { Form } from '../form-preservation/kept-forms.ts'
import { lastOwner } from '../form-preservation/owner.ts'
import { browserIn, browserLine, newBrowser } from '../session/cookie.ts'
import { authnRequestXml } from './binding/message-xml.ts'
import { beginFlow, depthOf, keepKnown, newFlowId, requestIdOf, stateOf } from './login-state.ts'
import type { IdpMetadata } from './metadata/idp-metadata.ts'
import { type Saml, safeReturn } from './parts.ts'
import { lostSession } from './refusal-page.ts'
import { sendMessage } from './send.ts'
import { clientOf } from './verify.ts'

export interface LoginStart {
  readonly returnTo: string
  /** The content of a form post without a session, to be sent once after the login. */
  readonly form?: Form
  /** ID of a login nothing is known of any more, whose place this one takes: its tab still knows its address. */
  readonly instead?: string
}

/** Logins in a row that did not lead to a session before we stop sending the browser to the IdP. */
const MOST_TURNS = 3

/** Begins a login: sends the browser to the IdP, or answers with a page that says why it cannot. */
export async function startLogin(
  saml: Saml,
  request: Request,
  login: LoginStart,
): Promise<Response> {
  // A login begins again when the IdP may have new keys: they should be known before its answer comes.
  if (login.instead !== undefined) await saml.source.settled()
  const now = saml.clock.now()
  const state = stateOf(saml, request)
  const depth = depthOf(state, now)
  if (depth >= MOST_TURNS) {
    // The last login is forgotten, so that "Try again" begins anew.
    return lostSession(saml, request, { code: 'login_loop', state, setCookie: keepKnown(saml, {}) })
  }
  const idp = saml.source.current()
  const endpoint = idp?.singleSignOn[0]
  if (idp === undefined || endpoint === undefined) {
    saml.count('idp_metadata')
    const facts = { problem: saml.source.problems().join('; ') }
    return saml.failurePage({ request, code: 'idp_metadata', facts })
  }

  const config = saml.config()
  const { instead } = login
  const id = newFlowId(saml, instead !== undefined)
  const requestId = requestIdOf({ id })
  const returnTo = safeReturn(login.returnTo)
  const form = keepForm(saml, request, id, login)
  const flow = { id, began: now, returnTo, depth, done: false, form }
  // Only a browser has a fragment to keep, and says that it navigates; other clients are simply redirected.
  const navigates = request.fields.get('Sec-Fetch-Mode') === 'navigate'
  const { location: destination, binding } = endpoint
  const head = { id: requestId, issuer: config.entityId, issued: now, destination }
  const xml = authnRequestXml(head, config)
  const cookies = [...beginFlow(saml, state, { flow, small: navigates })]
  // A browser without a name gets one now: tabs that log in at the same time come back with the same.
  if (browserIn(request.fields) === undefined) cookies.push(browserLine(newBrowser(saml.random)))
  saml.verifiers.login.warm()
  saml.log.debug('login begins', { request: request.id, flow: id, binding })
  return sendMessage(saml, {
    request,
    title: 'Signing in',
    label: 'Continue to sign in',
    to: endpoint,
    message: { name: 'SAMLRequest', xml, id: requestId, relayState: id },
    signed: signsRequests(config, idp),
    follows: navigates ? 'page' : 302,
    keep: instead === undefined ? { id, address: returnTo } : { id, of: instead },
    fields: Fields.of(...cookies.map(line => ['Set-Cookie', line] as const)),
  })
}

/** Whether AuthnRequests are signed: when the IdP's metadata asks for it, unless configured. */
export function signsRequests(
  { requestSigning }: Pick<SamlConfig, 'requestSigning'>,
  idp: IdpMetadata | undefined,
): boolean {
  return requestSigning === 'auto'
    ? idp?.wantAuthnRequestsSigned === true
    : requestSigning === 'always'
}

/** Only posts of our own pages are kept, for the user of this browser as far as it is known. */
function keepForm(
  saml: Saml,
  request: Request,
  id: string,
  { form, returnTo }: LoginStart,
): string | undefined {
  const { replaySize, loginTime, baseUrl } = saml.config()
  if (form === undefined || !isOwnPost(request, baseUrl)) return undefined
  if (form.content.length > replaySize || safeReturn(returnTo) !== returnTo) return undefined
  const { address: network } = clientOf(saml, request, false)
  const place = { owner: lastOwner(saml, request), target: returnTo, network }
  return saml.forms.put(id, form, place, loginTime)
}
