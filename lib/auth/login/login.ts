/**
 * Begins a login by sending a navigation without a session to the IdP with an AuthnRequest. The facts that are needed when the
 * browser comes back are in the sealed state cookie.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import { authnRequestXml } from '../../saml/binding/message-xml.ts'
import type { LoginAsks } from '../../saml/response/check-assertion.ts'
import { isFramed } from '../access/navigation.ts'
import { isOwnPost, ownReferer } from '../access/own-origin.ts'
import type { SamlConfig } from '../config/config.ts'
import { browserIn, browserLine, newBrowser } from '../session/cookie.ts'
import {
  backAddress,
  challenge,
  type LoginKind,
  loginAddress,
  returnPath,
  safeReturn,
} from './addresses.ts'
import { clientOf, redirect, sendMessage } from './bindings.ts'
import { asksOf, depthOf, hasJustAsked, requestIdOf } from './cookies.ts'
import type { Form } from './kept-forms.ts'
import type { Saml } from './parts.ts'
import { lostSession } from './refusal-page.ts'

export interface LoginStart {
  readonly returnTo: string
  /** The content of a form post without a session, to be sent once after the login. */
  readonly form?: Form
  /** The kind of the login; undefined when any will do. */
  readonly how?: LoginKind | undefined
  /** Whether the user has to sign in again, even with a session in the browser or at the IdP. */
  readonly anew?: boolean
  /** Whether the IdP is asked to answer without showing anything to the person. */
  readonly passive?: boolean
  /** Whether the browser has a session. */
  readonly signedIn?: boolean
  /** The ID of the login that this one replaces. When that login is no longer known, its tab still knows its address. */
  readonly instead?: string
  /** Whether the login begins without the person. Two logins in a row must not do so. */
  readonly isAutomatic?: boolean
}

/** The number of logins in a row without a session after which we stop sending the browser to the IdP. */
const MOST_TURNS = 3

/** Begins a login: sends the browser to the IdP, or answers with a page that says why it cannot. */
export async function startLogin(
  saml: Saml,
  request: Request,
  login: LoginStart,
): Promise<Response> {
  if (isFramed(request)) return signInOnTop(saml, request, login)
  const { baseUrl, loginStatus } = saml.config()
  if (loginStatus === 302 && wantsRedirect(request, login)) {
    return redirect(302, addressOf(baseUrl, safeReturn(login.returnTo), login))
  }
  // A login begins again when the IdP may have new keys, so they should be known before its answer arrives.
  if (login.instead !== undefined) await saml.idp.metadata.downloadsEnded()
  const now = saml.clock.now()
  const cookies = saml.cookies(request)
  const { state } = cookies
  const { instead, isAutomatic = false } = login
  const before = cookies.flow(instead)
  const returnTo = safeReturn(before?.returnTo ?? login.returnTo)
  const config = saml.config()
  const back = `${config.baseUrl}${returnTo}`
  const asks = before?.asks ?? newAsks(login)
  const passive = (before === undefined ? login.passive : before.passive) === true
  if (typeof login.how === 'object' && asks !== undefined && hasJustAsked(state, asks, now)) {
    saml.count('login_unmet')
    const facts = { anew: asks.anew, contexts: asks.contexts.join(' ') }
    const words = { back }
    cookies.know({})
    const fields = cookies.lines
    return saml.failurePage({ request, code: 'login_unmet', words, facts, fields })
  }
  // A browser that has a session has not lost one.
  const depth = login.signedIn === true ? 0 : depthOf(state, now)
  if (depth >= MOST_TURNS) {
    // The last login is forgotten, so that "Try again" begins without a history.
    cookies.know({})
    return lostSession(saml, request, { code: 'login_loop', loginTarget: back, ownAddress: back })
  }
  const idp = saml.idp.current
  const endpoint = idp?.singleSignOn[0]
  if (idp === undefined || endpoint === undefined) {
    saml.count('idp_metadata')
    const facts = { problem: saml.idp.metadata.problems().join('; ') }
    return saml.failurePage({ request, code: 'idp_metadata', words: { back }, facts })
  }

  const id = cookies.newId(isAutomatic || instead !== undefined)
  const requestId = requestIdOf({ id })
  const form =
    before?.form === undefined
      ? keepForm(saml, request, id, login)
      : await saml.forms.move(before.id, before.form, id, config.loginTime)
  const isPassive = passive || undefined
  const flow = { id, began: now, returnTo, depth, done: false, form, asks, passive: isPassive }
  // Only browsers have a fragment to keep, and they say that they navigate. Other clients get a plain redirect.
  const navigates = request.fields.get('Sec-Fetch-Mode') === 'navigate'
  const { location: destination, binding } = endpoint
  const head = {
    id: requestId,
    issuer: config.entityId,
    issued: now,
    destination,
    isPassive: passive,
  }
  const xml = authnRequestXml(head, asks === undefined ? config : askedConfig(config, asks))
  cookies.begin(flow, { small: navigates })
  if (before !== undefined) cookies.drop(before.id)
  // A browser without a name gets one now, so that tabs that log in at the same time come back with the same name.
  const isNamed = browserIn(request.fields) !== undefined
  const name = isNamed ? undefined : browserLine(newBrowser(saml.random))
  saml.idp.awaitAnswer()
  saml.log.debug('login begins', { request: request.id, flow: id, binding })
  return sendMessage(saml, {
    request,
    title: 'Signing in',
    label: 'Continue to sign in',
    to: endpoint,
    message: { name: 'SAMLRequest', xml, id: requestId, relayState: id },
    signed: saml.idp.signsRequests,
    follows: navigates ? 'page' : 302,
    status: pageStatus(config),
    keep: instead === undefined ? { id, address: returnTo } : { id, of: instead },
    fields: Fields.of(
      ...cookies.lines,
      ['Set-Cookie', name],
      ...challenge(addressOf(config.baseUrl, returnTo.length > LONG ? '/' : returnTo, login)),
    ),
  })
}

/**
 * The status of the pages of a login. Service workers store pages with a status of success, and would show this page instead of the
 * application's.
 */
export function pageStatus({ loginStatus }: Pick<SamlConfig, 'loginStatus'>): 200 | 401 {
  return loginStatus === 302 ? 200 : 401
}

/** Whether a navigation is led to the address of a login. At a longer address of the application the page itself has status 200. */
function wantsRedirect({ method, target, fields }: Request, { returnTo }: LoginStart): boolean {
  const isOwn = originForm(target).path === returnPath
  const navigates = fields.get('Sec-Fetch-Mode') === 'navigate'
  return navigates && method === 'GET' && !isOwn && returnTo.length <= LONG
}

/** The address that begins a login of the same kind. */
export function addressOf(
  baseUrl: string,
  returnTo: string,
  { how, anew }: Pick<LoginStart, 'how' | 'anew'>,
): string {
  return `${loginAddress(baseUrl, returnTo, how)}${anew === true ? '&reauth' : ''}`
}

function newAsks({ how, anew }: LoginStart): LoginAsks | undefined {
  const needs = typeof how === 'object' ? how.login : undefined
  if (how === 'other' || anew === true) return { ...anewAlone, contexts: needs?.contexts ?? [] }
  return needs && asksOf(needs)
}

/** The requirements of a login that has to differ from the earlier one. */
export const anewAlone: LoginAsks = { anew: true, contexts: [] }

/** The settings of SAML with the further requirements of one login. */
function askedConfig(config: SamlConfig, { anew, contexts }: LoginAsks): SamlConfig {
  const forceAuthn = config.forceAuthn || anew
  if (contexts.length === 0) return { ...config, forceAuthn }
  return { ...config, forceAuthn, authnContext: contexts, authnContextComparison: 'exact' }
}

/** A longer address is not repeated in the fields of an answer, because servers in front accept only small heads. */
const LONG = 1000

/**
 * The page for a frame: neither the pages of a login nor those of identity providers are shown in one. Pages of our own origin
 * may show this page, whose link opens the login instead of the whole page. Frames are small, so the page begins with the
 * link.
 */
function signInOnTop(saml: Saml, request: Request, login: LoginStart): Response {
  const { baseUrl } = saml.config()
  const { returnTo, signedIn = false } = login
  const href = addressOf(baseUrl, ownReferer(request, baseUrl) ?? returnTo, login)
  return saml.page({
    request,
    template: 'sign-in-on-top',
    status: pageStatus(saml.config()),
    fields: challenge(href),
    framedBy: 'self',
    view: say => ({
      title: say(signedIn ? 'Sign in again' : 'You are not signed in'),
      text: say('Signing in does not work in a part of a page. It takes the whole window.'),
      href,
      label: say('Sign in'),
    }),
  })
}

interface ForeignForm extends Pick<LoginStart, 'returnTo' | 'how'> {
  readonly form: Form & { readonly origin: string }
}

/**
 * The page for a form that a page of another site has posted. Browsers send the session along with the forms of our own pages
 * alone, so nothing is known of the user here; and only a person can say whether the form is meant. It is kept for the answer.
 */
export function askAboutForm(
  saml: Saml,
  request: Request,
  { returnTo, form, how }: ForeignForm,
): Response {
  const { baseUrl, loginTime } = saml.config()
  const cookies = saml.cookies(request)
  const id = cookies.newId(false)
  const { address: network } = clientOf(saml, request, false)
  const place = { owner: cookies.owner, target: returnTo, network }
  const key = saml.forms.put(id, form, place, loginTime)
  const began = saml.clock.now()
  cookies.begin({ id, began, returnTo, depth: 0, done: true, form: key }, { small: false })
  const href = backAddress(baseUrl, id, 'resume', how)
  saml.count('form_of_other_site')
  saml.log.info('asked about a form of another site', { request: request.id, origin: form.origin })
  return saml.page({
    request,
    template: 'foreign-form',
    status: pageStatus(saml.config()),
    fields: Fields.of(...cookies.lines, ...challenge(href)),
    view: say => ({
      title: say('Send this form?'),
      sentences: [
        say('{site} sends you here with a form. The application has not received it yet.', {
          site: form.origin === 'null' ? 'Another site' : form.origin,
        }),
      ],
      // A click that was meant for another page, which opened this one under the pointer, cannot fulfil both conditions.
      action: href.split('?')[0] ?? '',
      values: [...new URL(href).searchParams].map(([name, value]) => ({ name, value })),
      expected: say('I expect this form.'),
      yes: say('Send the form'),
      home: `${baseUrl}/`,
      no: say('Do not send it'),
    }),
  })
}

/** Only posts of our own pages are kept, for the user of this browser if that user is known. */
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
  const place = { owner: saml.cookies(request).owner, target: returnTo, network }
  return saml.forms.put(id, form, place, loginTime)
}
