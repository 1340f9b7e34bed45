/**
 * The way out: a navigation without a session is sent to the IdP with an AuthnRequest. What has to be known when it comes back
 * travels in the sealed state cookie.
 */
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { isOwnPost } from '../access/own-origin.ts'
import type { SamlConfig } from '../config/config.ts'
import type { Form } from '../form-preservation/kept-forms.ts'
import { lastOwner } from '../form-preservation/owner.ts'
import { metadataAdvice } from './acs-page.ts'
import { authnRequestXml } from './binding/authn-request.ts'
import { redirectAddress } from './binding/redirect.ts'
import { signElement } from './core/signature.ts'
import { depthOf, type Flow, withFlow } from './login-state.ts'
import { loopPage } from './loop-page.ts'
import type { Endpoint, IdpMetadata } from './metadata/idp-metadata.ts'
import { keepState, newId, type Saml, safeReturn, stateOf } from './parts.ts'

export interface LoginStart {
  readonly returnTo: string
  /** The content of a form post whose session has ended, to be sent once after the login. */
  readonly form?: Form
}

/** Logins in a row that did not lead to a session before we stop sending the browser round. */
const MOST_TURNS = 3

/** Begins a login; answers with the way to the IdP, or with a page that says why there is none. */
export async function startLogin(
  saml: Saml,
  request: Request,
  login: LoginStart,
): Promise<Response> {
  const now = saml.clock.now()
  const { state } = stateOf(saml, request)
  const depth = depthOf(state, now)
  if (depth >= MOST_TURNS) return loopPage(saml, request, state)
  const idp = saml.source.current()
  const endpoint = idp?.singleSignOn[0]
  if (idp === undefined || endpoint === undefined) return noIdpPage(saml, request)

  const id = saml.random(12).toString('base64url')
  const config = saml.config()
  const form = keepForm(saml, request, id, login)
  const flow: Flow = {
    id,
    request: newId(saml),
    began: now,
    returnTo: safeReturn(login.returnTo),
    depth,
    done: false,
    ...(form === undefined ? {} : { form }),
  }
  const xml = authnRequestXml(
    { id: flow.request, issued: now, destination: endpoint.location },
    config,
  )
  const cookie = keepState(saml, withFlow(state, flow))
  saml.verifier.warm()
  saml.log.debug('login begins', { request: request.id, flow: id, binding: endpoint.binding })
  return leave(saml, request, { xml, flow, cookie, endpoint, signed: signsRequests(config, idp) })
}

/** Whether AuthnRequests are signed: as the IdP wishes, unless told. */
export function signsRequests(
  { requestSigning }: Pick<SamlConfig, 'requestSigning'>,
  idp: IdpMetadata | undefined,
): boolean {
  return (
    requestSigning === 'always' ||
    (requestSigning === 'auto' && idp?.wantAuthnRequestsSigned === true)
  )
}

interface Leaving {
  readonly xml: string
  readonly flow: Flow
  readonly cookie: string
  readonly endpoint: Endpoint
  readonly signed: boolean
}

function leave(saml: Saml, request: Request, leaving: Leaving): Response {
  const { xml, flow, cookie, endpoint, signed } = leaving
  const fields = Fields.of(
    ['Set-Cookie', cookie],
    ['Cache-Control', 'no-store'],
    ['Vary', 'Cookie'],
  )
  const [key] = saml.keys.saml()
  const title = 'Signing in'
  const label = 'Continue to sign in'
  if (endpoint.binding === 'post') {
    const message = signed && key !== undefined ? signElement(xml, { id: flow.request, key }) : xml
    return saml.page({
      template: 'saml-form',
      view: {
        title,
        label,
        keep: flow.id,
        action: endpoint.location,
        enctype: 'application/x-www-form-urlencoded',
        fields: [
          { name: 'SAMLRequest', value: Buffer.from(message).toString('base64') },
          { name: 'RelayState', value: flow.id },
        ],
      },
      fields,
      script: true,
      formAction: formTargets(endpoint.location),
    })
  }
  const message = { name: 'SAMLRequest', xml, relayState: flow.id } as const
  const href = redirectAddress(endpoint.location, message, signed ? key : undefined)
  // Only a browser has a fragment to keep, and says that it navigates; others are simply redirected.
  if (request.fields.get('Sec-Fetch-Mode') !== 'navigate') {
    return { status: 302, fields: fields.plus('Location', href), content: noContent }
  }
  return saml.page({
    template: 'saml-go',
    view: { title, label, href, keep: flow.id, restore: '' },
    fields,
    script: true,
  })
}

/**
 * Chrome holds a form's redirects to the policy too, and IdPs redirect where they like: so any address with TLS, and the IdP's
 * own even without.
 */
export function formTargets(location: string): readonly string[] {
  return ['https:', new URL(location).origin]
}

/**
 * Only what this site has sent itself is kept, and only of somebody: a stranger's post must not be sent again under anybody's
 * name.
 */
function keepForm(
  saml: Saml,
  request: Request,
  id: string,
  { form, returnTo }: LoginStart,
): string | undefined {
  const { stashLimit, loginTime, baseUrl } = saml.config()
  if (form === undefined || !isOwnPost(request, baseUrl)) return undefined
  const owner = lastOwner(saml, request)
  if (owner === undefined || form.content.length > stashLimit) return undefined
  if (safeReturn(returnTo) !== returnTo) return undefined
  return saml.forms.put(id, form, { owner, target: returnTo }, loginTime)
}

function noIdpPage(saml: Saml, request: Request): Response {
  saml.outcomes.count('idp_metadata')
  return saml.failurePage({
    request,
    category: 'SAML-ERROR',
    code: 'idp_metadata',
    status: 503,
    title: 'Signing in is not possible right now',
    text: 'What is known of the identity provider is out of date.',
    advice: metadataAdvice,
    facts: { problem: saml.source.problems().join('; ') },
  })
}
