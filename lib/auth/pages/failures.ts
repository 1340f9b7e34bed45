/**
 * The status and the texts of every failure, by its code.
 *
 * Texts are public and fixed; `{name}` stands for a word the report of the failure gives. The texts for the person are shown in
 * the language of the browser. The text for the administrator is in English, like the log, the settings and the manuals.
 */

import type { FailureCategory } from '../access/outcome.ts'
import { accessFailures } from './access-failures.ts'
import type { Sentence } from './language.ts'
import { adviceToReport, samlFailures } from './saml-failures.ts'

export interface FailureText {
  readonly category: FailureCategory
  readonly status: number
  /** Reason phrase when it differs from the standard one. */
  readonly reason?: string
  readonly title: Sentence
  /** The description of the failure. */
  readonly text: Sentence
  /** The things the person may try, a sentence each. */
  readonly person?: readonly Sentence[]
  /** The remedy for the administrator. */
  readonly administrator?: string
  /** A link below the text, to a path of ours or an address of the IdP. */
  readonly action?: { readonly href: string; readonly label: Sentence }
  /** Small public figures that help the administrator. */
  readonly details?: ReadonlyArray<readonly [name: string, value: string]>
}

/** The text of a failure of a request on its way between the client, this service and the backend. */
const proxying = (text: Omit<FailureText, 'category'>): FailureText => {
  return { category: 'PROXY-ERROR', ...text }
}

/** The text of every code. */
export const failures = {
  loop_detected: proxying({
    status: 508,
    reason: 'Loop Detected',
    title: 'Loop detected',
    text: 'This request came back to where it had been forwarded from.',
    administrator:
      'proxy.targetURL, or a route of the edge in front of this service, leads back here.',
  }),
  // Codes of connections to the backend, such as backend_connect_refused, share this text.
  backend: proxying({
    status: 502,
    reason: 'Proxy Error',
    title: 'The application cannot be reached',
    text: 'Your request reached this service, but the application behind it did not answer.',
    person: ['Please try again in a moment.', adviceToReport],
  }),
  // The failures backend_malformed and backend_head_too_large share this text: the backend answered, but the answer was
  // refused.
  backend_answer: proxying({
    status: 502,
    reason: 'Proxy Error',
    title: 'The answer of the application cannot be read',
    text: 'The application behind this service answered your request, but its answer is not proper HTTP.',
    person: ['Please try again in a moment.', adviceToReport],
  }),
  client_too_slow: proxying({
    status: 408,
    title: 'The upload stopped',
    text: 'The content of the request did not arrive in time.',
    person: ['Please send it again, over a better connection if you have one.'],
  }),
  content_malformed: proxying({
    status: 400,
    title: 'The upload cannot be read',
    text: 'The content of the request is malformed.',
    person: ['Please send it again.', adviceToReport],
  }),
  request_unfit: proxying({
    status: 400,
    title: 'This request cannot be forwarded',
    text: 'A header of the request has characters that are not allowed in headers.',
    person: ['Delete the cookies of this site in your browser and try again.'],
  }),
  foreign_target: proxying({
    status: 400,
    title: 'Not an address of this service',
    text: 'The request names another server, or no path at all.',
    person: ['Open the address of the application in your browser.'],
    administrator:
      'This service is a gateway for one application; browsers must not use it as their proxy.',
  }),
  wrong_host: proxying({
    status: 421,
    title: 'This is not the address of the service',
    text: 'You cannot sign in under this host name: the cookies of the login would belong to another one.',
    person: ['Use the address below.'],
    administrator:
      'If the browser shows that address already, the edge in front of this service does not preserve the Host.',
    action: { href: '{base}/', label: 'Go to {domain}' },
    details: [
      ['Host of this service', '{domain}'],
      ['Host of this request', '{host}'],
    ],
  }),
  without_tls: proxying({
    status: 403,
    title: 'This page needs a secure connection',
    text: 'Your browser came here by http, without TLS. The cookies of a login are sent over https only, so you cannot sign in this way.',
    person: ['Open the address below, which begins with https.'],
    administrator:
      'The edge in front of this service has to redirect http to https, and to send X-Forwarded-Proto: https with every request that came over TLS.',
    action: { href: '{base}{returnTo}', label: 'Go to {base}' },
    details: [['X-Forwarded-Proto of this request', 'http']],
  }),
  websocket_origin: proxying({
    status: 403,
    title: 'Not from this page',
    text: 'Pages of other sites may not open connections here.',
    administrator: 'proxy.webSocketOrigins names the origins that may.',
  }),
  request_not_kept: proxying({
    status: 401,
    title: 'What you sent was not kept',
    text: 'There is no valid session, and the request could not be kept until you have signed in: {because}. The application has not received it.',
    person: [
      'To keep what you filled in: sign in in another tab, then go back here and send it again.',
    ],
    action: { href: '{login}', label: 'Sign in' },
  }),
  /**
   * The text for a form that a page of another site has posted. The browser does not send the session with it, so the user is
   * not known.
   */
  foreign_form_not_kept: proxying({
    status: 401,
    title: 'What you sent was not kept',
    text: 'Another site sends you here with a form. Your browser does not send your session along with it, so this service asks you before it sends the form to the application. It could not keep the form until then: {because}. The application has not received it.',
    administrator:
      'saml.replaySize says how large a form may be. passthroughPaths lets forms of other sites through to an address, without the user.',
    action: { href: '/', label: 'Go to the application' },
  }),
  internal: proxying({
    status: 500,
    title: 'Something went wrong here',
    text: 'The service made a mistake.',
    person: ['Please try again in a moment.', adviceToReport],
  }),

  ...accessFailures,
  ...samlFailures,
} satisfies Readonly<Record<string, FailureText>>

export type FailureCode = keyof typeof failures

/** The reasons why a post is not kept, as the end of the sentence in `request_not_kept`. */
export const whyNotKept = {
  off: 'this service keeps none',
  type: 'it is not a form',
  frame: 'it was sent in a part of a page, where signing in does not work',
  address: 'after the login your browser could not be sent back to its address',
  'too-large': 'it is too large',
  late: 'it did not arrive in time',
  busy: 'too many others are being kept at the moment',
  spent: 'it was sent already',
} satisfies Readonly<Record<string, Sentence>>

export type NotKept = keyof typeof whyNotKept
