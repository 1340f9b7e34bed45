/**
 * Answers /__authproxy-redirect, to which a browser comes back after a login at the IdP. The endpoint checks that the session
 * cookie came along before it sends the browser on. If the cookie is missing, it answers with the reason and does not begin
 * another login.
 *
 * # Facts
 * - This request still counts as coming from the IdP's site, so browsers do not send a SameSite=Strict cookie. A page of ours
 *   that leads here again makes it a request of our own site; only a cookie missing then is really missing.
 * - The page also restores the fragment, and an address too long for the cookie, because the tab keeps both. For a kept form it
 *   posts the ID of the login to the address of the form (resubmission.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { originForm } from '../../http/message/target.ts'
import { isNavigation } from '../access/navigation.ts'
import { whyNotFulfilled } from '../access/rules.ts'
import type { Session } from '../session/token.ts'
import {
  backAddress,
  cannotLogIn,
  challenge,
  kindIn,
  type LoginKind,
  loginAddress,
  needsLogin,
  safeReturn,
} from './addresses.ts'
import { formPage, linkPage, redirect } from './bindings.ts'
import { flowIdIn, hasJustAsked, isJustUnknown, ownerOf } from './cookies.ts'
import { addressOf, anewAlone, type LoginStart, pageStatus, startLogin } from './login.ts'
import type { Saml } from './parts.ts'
import { lostSession } from './refusal-page.ts'
import { notSent, resubmissionField } from './resubmission.ts'

/** Answers GET /__authproxy-redirect. */
export async function comeBack(saml: Saml, request: Request): Promise<Response> {
  const { baseUrl } = saml.config()
  const query = new URLSearchParams(originForm(request.target).query)
  const session = await saml.sessions.read(request)
  const wanted = query.get('login')
  const how = kindIn(query, saml.config())
  const now = saml.clock.now()
  const suffices = session !== undefined && isOfKind(session, how, now)
  const cookies = saml.cookies(request)
  if (wanted !== null) {
    const returnTo = safeReturn(wanted)
    const anew = query.has('reauth')
    if (session === undefined) {
      const passive = query.has('passive') && !anew
      if (passive && isJustUnknown(cookies.state, now)) return notSignedIn(saml, request, returnTo)
      return begin(saml, request, { returnTo, isAutomatic: query.has('again'), how, anew, passive })
    }
    // A page of another site cannot make a person sign in again, except as a rule wants it: the page of that rule leads here, also behind
    // a link of another site, and would lead here again.
    const isForeign = request.fields.get('Sec-Fetch-Site') === 'cross-site'
    // A page that asks for a new login each time it is opened gets one login and no loop.
    const wantsNew = anew && !isForeign && !hasJustAsked(cookies.state, anewAlone, now)
    const isNeeded = !suffices && (!isForeign || how !== 'other')
    return wantsNew || isNeeded
      ? begin(saml, request, { returnTo, how, anew: anew && !isForeign, signedIn: true })
      : redirect(303, `${baseUrl}${returnTo}`)
  }
  const id = flowIdIn(query.get('flow') ?? undefined)?.id
  if (session === undefined) {
    // The service sends browsers here with the ID of their login. A browser without one followed a bookmark, to sign in.
    if (id === undefined) return begin(saml, request, { returnTo: '/' })
    const resumes = query.has('resume')
    if (!query.has('again')) {
      const href = `${backAddress(baseUrl, id, resumes ? 'resume' : 'flow', how)}&again=1`
      return linkPage(saml, { request, title: 'Signing in', label: 'Continue', href })
    }
    if (resumes) return begin(saml, request, { returnTo: '/', instead: id, how })
    return lostSession(saml, request, {
      code: 'session_cookie_missing',
      loginTarget: backAddress(baseUrl, id, 'resume'),
      ownAddress: `${baseUrl}${cookies.flow(id)?.returnTo ?? '/'}`,
    })
  }
  if (id === undefined) return redirect(303, `${baseUrl}/`)
  const flow = cookies.flow(id)
  const signedIn = { request, title: 'Signed in', label: 'Continue', restore: id } as const
  // The login is no longer known, or the page was reloaded. Only the tab can know the address.
  if (flow === undefined) return linkPage(saml, { ...signedIn, href: `${baseUrl}/` })
  if (!suffices || (flow.asks !== undefined && !flow.done)) {
    // The session is still the earlier one, whose login is not enough. The next login takes the form along.
    return begin(saml, request, { returnTo: flow.returnTo, instead: id, how, signedIn: true })
  }
  if (flow.form === undefined) {
    cookies.drop(id)
    const href = `${baseUrl}${flow.returnTo}`
    return linkPage(saml, { ...signedIn, href, fields: cookies.lines })
  }
  const place = await saml.forms.placeOf(flow.id, ownerOf(session))
  if ('because' in place) {
    cookies.drop(id)
    const { because } = place
    return notSent(saml, request, { because, target: flow.returnTo, fields: cookies.lines })
  }
  return formPage(saml, {
    request,
    title: 'Sending your form',
    label: 'Send the form you filled in',
    action: `${baseUrl}${place.target}`,
    values: { [resubmissionField]: flow.id },
    // Without a referrer policy of its own the post would carry "Origin: null", which applications take for a forgery.
    fields: Fields.of(['Referrer-Policy', 'same-origin']),
    // The application may redirect to any address with TLS after a post.
    formAction: ['https:'],
  })
}

/** Whether the login of a session is of the wanted kind. */
function isOfKind(session: Session, how: LoginKind | undefined, now: Milliseconds): boolean {
  if (how === 'other') return false
  return how?.login === undefined || whyNotFulfilled(how.login, session, now) === undefined
}

/**
 * Begins a login after the checks of any first request. An image or a script of another site must not begin logins, because
 * they would displace those of tabs.
 */
async function begin(saml: Saml, request: Request, login: LoginStart): Promise<Response> {
  const { domain, baseUrl: base } = saml.config()
  const { returnTo, signedIn } = login
  if (!isNavigation(request)) {
    return needsLogin(request, addressOf(base, returnTo, login), signedIn ? 'login' : 'session')
  }
  const cannot = cannotLogIn(request, { domain, base, returnTo }, saml.failurePage)
  return cannot ?? startLogin(saml, request, login)
}

/** The page for a browser that asks for a passive login again, just after the IdP has said that it would have to ask the person. */
function notSignedIn(saml: Saml, request: Request, returnTo: string): Response {
  const href = loginAddress(saml.config().baseUrl, returnTo)
  return saml.page({
    request,
    template: 'sign-in-on-top',
    status: pageStatus(saml.config()),
    fields: challenge(href),
    view: say => ({
      title: say('You are not signed in'),
      text: say('The identity provider was asked a moment ago whether it knows you, and does not.'),
      href,
      label: say('Sign in'),
    }),
  })
}
