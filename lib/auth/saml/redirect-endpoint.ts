/**
 * Back from the IdP: /__authproxy-redirect. Finds out whether the session cookie came with the browser before it is sent on to
 * where it wanted to go; if it did not, says why instead of sending it round once more.
 *
 * # Facts
 * - This request still counts as coming from the IdP's site, so a SameSite=Strict cookie stays away. A page of ours that
 *   leads here again makes it a request of our own site; only what is missing then is really missing.
 * - The page also puts the fragment back. For a form that was kept it posts the ID of the login to where the form was for:
 *   what goes to the backend in its place is in memory (form-preservation/), since a page could not send files again.
 */
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { ownerOf } from '../form-preservation/owner.ts'
import { notSent, resubmissionField } from '../form-preservation/resubmission.ts'
import { startLogin } from './login.ts'
import type { Flow, LoginState } from './login-state.ts'
import { withoutFlow } from './login-state.ts'
import { detailsOf, likelyCause } from './loop-page.ts'
import { keepState, returnPath, type Saml, safeReturn, stateOf } from './parts.ts'

/** Answers GET /__authproxy-redirect. */
export async function comeBack(saml: Saml, request: Request): Promise<Response> {
  const query = new URLSearchParams(request.target.form === 'origin' ? request.target.query : '')
  const session = await saml.sessions.read(request)
  const wanted = query.get('login')
  if (wanted !== null) {
    const returnTo = safeReturn(wanted)
    return session === undefined
      ? startLogin(saml, request, { returnTo })
      : seeOther(`${saml.config().baseUrl}${returnTo}`)
  }
  const { state } = stateOf(saml, request)
  const flow = state.flows.find(each => each.id === query.get('flow') && each.done)
  if (session === undefined) return withoutSession(saml, request, { query, flow, state })
  if (flow === undefined) return seeOther(`${saml.config().baseUrl}/`)
  const cookie = keepState(saml, withoutFlow(state, flow.id))
  if (flow.form !== undefined) {
    const place = saml.forms.placeOf(flow.id, ownerOf(session))
    if ('target' in place) return sendAgain(saml, flow.id, place.target)
    const { returnTo: target } = flow
    const fields = Fields.of(['Set-Cookie', cookie])
    return notSent(saml, request, { because: place.because, target, fields })
  }
  return onward(saml, flow, cookie)
}

/** The address a script may send its user to: a login that comes back to `returnTo`. */
export function loginAddress(baseUrl: string, returnTo: string): string {
  return `${baseUrl}${returnPath}?login=${encodeURIComponent(safeReturn(returnTo))}`
}

function seeOther(location: string): Response {
  const fields = Fields.of(['Location', location], ['Cache-Control', 'no-store'])
  return { status: 303, fields, content: noContent }
}

function onward(saml: Saml, flow: Flow, cookie: string): Response {
  const href = `${saml.config().baseUrl}${flow.returnTo}`
  return saml.page({
    template: 'saml-go',
    view: { title: 'Signed in', label: 'Continue', href, keep: '', restore: flow.id },
    fields: Fields.of(['Set-Cookie', cookie]),
    script: true,
  })
}

function sendAgain(saml: Saml, id: string, target: string): Response {
  return saml.page({
    template: 'saml-form',
    view: {
      title: 'Sending your form',
      label: 'Send the form you filled in',
      keep: '',
      action: `${saml.config().baseUrl}${target}`,
      enctype: 'application/x-www-form-urlencoded',
      fields: [{ name: resubmissionField, value: id }],
    },
    // Without a referrer policy of its own the post would carry "Origin: null", which applications take for a forgery.
    fields: Fields.of(['Referrer-Policy', 'same-origin']),
    script: true,
    // Where the application redirects to after a post is its own business.
    formAction: ['https:'],
  })
}

async function withoutSession(
  saml: Saml,
  request: Request,
  came: {
    readonly query: URLSearchParams
    readonly flow: Flow | undefined
    readonly state: LoginState
  },
): Promise<Response> {
  const { query, flow, state } = came
  const id = query.get('flow')
  if (id !== null && !query.has('again')) {
    const href = `${saml.config().baseUrl}${returnPath}?flow=${encodeURIComponent(id)}&again=1`
    return saml.page({
      template: 'saml-go',
      view: { title: 'Signing in', label: 'Continue', href, keep: '', restore: '' },
      script: true,
    })
  }
  // Nobody comes here without having been sent; a bookmark of this address is a wish to sign in.
  if (id === null) return startLogin(saml, request, { returnTo: '/' })
  const diagnosis = await saml.sessions.diagnose(request)
  const cause = likelyCause(saml, request, diagnosis, state.last?.ahead ?? 0)
  saml.outcomes.count('session_cookie_missing')
  return saml.failurePage({
    request,
    category: 'SAML-ERROR',
    code: 'session_cookie_missing',
    status: 403,
    title: 'You are signed in, but the session did not stay',
    text: `The identity provider has signed you in, but no valid session came back with the next request. ${cause.text}`,
    advice: cause.advice,
    action: { href: '/', label: 'Try again' },
    details: detailsOf(saml, diagnosis),
    facts: {
      cause: cause.code,
      cookies: diagnosis.count,
      bytes: diagnosis.bytes,
      because: diagnosis.because,
      stateCookie: flow !== undefined,
    },
  })
}
