/**
 * Answers of logout: a message on its way to the IdP, the page that says one is signed out and does not sign in again by
 * itself, and the page for messages that were not taken.
 */
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { type Refusal, refused } from './acs-page.ts'
import { type MessageName, redirectAddress } from './binding/redirect.ts'
import { signElement } from './core/signature.ts'
import { formTargets } from './login.ts'
import type { Endpoint } from './metadata/idp-metadata.ts'
import { keepState, type Saml, stateOf } from './parts.ts'

interface Sending {
  readonly endpoint: Endpoint
  readonly location: string
  readonly message: {
    readonly name: MessageName
    readonly xml: string
    readonly id: string
    readonly relayState?: string | undefined
  }
  /** Set-Cookie lines that end the local session. */
  readonly cookies: Fields | undefined
  /** ID of our request whose answer the browser is to remember. */
  readonly waitsFor?: string
  readonly request: Request
}

/** Sends a logout message by the endpoint's binding. Always signed: an IdP that does not ask for it does not mind. */
export function sendMessage(saml: Saml, sending: Sending): Response {
  const { endpoint, location, message, cookies, waitsFor, request } = sending
  const { name, xml, id, relayState } = message
  const [key] = saml.keys.saml()
  const { last: _forgotten, ...known } = stateOf(saml, request).state
  const state = {
    ...known,
    ...(waitsFor === undefined ? {} : { logout: waitsFor }),
  }
  const fields = Fields.of(
    ...(cookies ?? []),
    ['Set-Cookie', waitsFor === undefined ? undefined : keepState(saml, state)],
    ['Cache-Control', 'no-store'],
  )
  if (endpoint.binding === 'redirect') {
    const carried = { name, xml, ...(relayState === undefined ? {} : { relayState }) }
    const href = redirectAddress(location, carried, key)
    return { status: 303, fields: fields.plus('Location', href), content: noContent }
  }
  const signed = key === undefined ? xml : signElement(xml, { id, key })
  return saml.page({
    template: 'saml-form',
    view: {
      title: 'Signing out',
      label: 'Continue to sign out',
      keep: '',
      action: location,
      enctype: 'application/x-www-form-urlencoded',
      fields: [
        { name, value: Buffer.from(signed).toString('base64') },
        ...(relayState === undefined ? [] : [{ name: 'RelayState', value: relayState }]),
      ],
    },
    fields,
    script: true,
    formAction: formTargets(location),
  })
}

/** The end of a session, with a link to begin another: nothing here signs in by itself. */
export function signedOut(
  saml: Saml,
  how: {
    readonly cookies: Fields | undefined
    /** Whether the IdP has ended its session too, as far as we know. */
    readonly everywhere: 'yes' | 'partly' | 'no' | 'unknown'
  },
): Response {
  return saml.page({
    template: 'saml-signed-out',
    view: {
      title: 'You are signed out',
      sentences: sentences[how.everywhere],
      href: `${saml.config().baseUrl}/`,
      label: 'Sign in again',
    },
    ...(how.cookies === undefined ? {} : { fields: how.cookies }),
  })
}

const closeBrowser = 'To be safe on a shared computer, close the browser.'

const sentences: Readonly<Record<'yes' | 'partly' | 'no' | 'unknown', readonly string[]>> = {
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
}

/** A logout message that was not taken. No session is touched by it. */
export function logoutRefused(saml: Saml, request: Request, refusal: Refusal): Response {
  return refused(saml, request, {
    ...refusal,
    code: refusal.code.startsWith('logout_') ? refusal.code : `logout_${refusal.code}`,
  })
}
