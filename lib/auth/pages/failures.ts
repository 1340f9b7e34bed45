/**
 * The status and the texts of every failure, by its code.
 *
 * Texts are public and fixed; `{name}` stands for a word the report of the failure gives. The texts for the person are shown in
 * the language of the browser. The text for the administrator is in English, like the log, the settings and the manuals.
 *
 * Most refused answers of the IdP share one text, so that an attacker cannot learn from the page which check refused a forged
 * answer. A failure has its own text where the person, the administrator or the IdP can do something about it.
 */

import type { FailureCategory } from '../access/outcome.ts'
import type { Sentence } from './language.ts'

export interface FailureText {
  readonly category: FailureCategory
  readonly status: number
  /** Reason phrase when it differs from the standard one. */
  readonly reason?: string
  readonly title: Sentence
  readonly text: Sentence
  /** The things the person may try, a sentence each. */
  readonly person?: readonly Sentence[]
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

/** Advice to a person when trying again may help. */
const adviceToReport = 'If it happens again, tell your administrator the reference below.'

/** The text of a refusal by the rules under `access`. */
const refusedByRule = {
  category: 'ACCESS-REFUSED',
  status: 403,
  title: 'You may not open this page',
  administrator: 'authproxy explain names the rule that refused it, with its line in the file.',
} as const

const clocked = [
  ['Address of this service', '{base}/'],
  ['Clock of this server', '{clock}'],
] as const

/** The text of a refused answer of the IdP. */
const login = {
  category: 'SAML-ERROR',
  status: 403,
  title: 'Signing in did not work',
  text: 'The answer of the identity provider could not be accepted.',
  person: ['Sign in again.'],
  action: { href: '{back}', label: 'Sign in again' },
  details: clocked,
} as const

/** The text for an IdP that cannot fulfil a request that our settings make. */
const unable = { ...login, person: ['Tell your administrator the reference below.'] } as const

const tooMuch = {
  ...login,
  text: 'The identity provider says more about you than this service takes. Most likely you are in very many groups.',
  person: ['Tell your administrator the reference below.'],
  administrator:
    'Have the identity provider send the groups this application needs, and no others, or raise saml.responseSize.',
  details: [...clocked, ['Largest answer that is taken', '{limit}']],
} as const

const noLogin = {
  ...login,
  text: 'This answer belongs to no sign-in that is under way in this browser. It may have taken too long, or the page was loaded twice.',
} as const

const busy = {
  ...login,
  status: 503,
  text: 'Too many people are signing in at this moment.',
  person: ['Wait a moment, then sign in again.'],
} as const

/** The text of a refused logout message of the IdP. */
const logout = {
  category: 'SAML-ERROR',
  status: 403,
  title: 'Signing out was not completed',
  text: 'A message about signing out came from the identity provider and could not be accepted. It has signed out no user.',
  person: ['Sign out in the application, then close the browser.', adviceToReport],
  action: { href: '{base}/', label: 'Go to the application' },
  details: clocked,
} as const

/** The text for a session whose cookie does not come back; `{said}` tells what happened before. */
const lost = {
  category: 'SAML-ERROR',
  status: 403,
  title: 'You are signed in, but the session did not stay',
  action: { href: '{back}', label: 'Try again' },
  details: [
    ['Session cookies received', '{cookies}'],
    ['Clock of this server', '{clock}'],
  ],
} as const

/** The category and status of a login that ends without a session. */
const denied = { category: 'SAML-ERROR', status: 403 } as const

const noSubject = { ...denied, title: 'No usable subject identifier' } as const

/** The category and status of a form that was kept during the login and is not sent. */
const notSent = {
  ...denied,
  title: 'Your form was not sent',
  person: ['Please fill it in again if you still want to send it.'],
  action: { href: '{target}', label: 'Continue' },
} as const

/** The button for a browser that came by a wrong host name or without TLS. */
const goThere = { href: '{there}', label: 'Go to {base}' } as const

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

  access_refused: {
    ...refusedByRule,
    text: 'You are signed in as {user}, and the rules of this service do not let you open this page.',
    action: { href: '{other}', label: 'Sign in as someone else' },
  },
  /** The text for a request without a session, where a login would not help. */
  access_closed: {
    ...refusedByRule,
    text: 'The rules of this service let no one open this page.',
  },
  access_ambiguous: {
    category: 'ACCESS-REFUSED',
    status: 400,
    title: 'This address cannot be opened',
    text: 'Servers read this address in different ways, so the rules of this service cannot tell which page it means.',
    person: ['Go to the application, and open the page from there.'],
    administrator:
      'authproxy explain says which rule it could have passed by; docs/access-rules.md says which spellings are refused.',
    action: { href: '/', label: 'Go to the application' },
  },
  /** The text for a request of another site for /__authproxy/whoami. The link asks for it again, from a page of ours. */
  whoami_foreign: {
    category: 'ACCESS-REFUSED',
    status: 403,
    title: 'Another site asks who you are',
    text: 'Another site led you here. What this service knows about you is shown only to you, so no other site has seen it.',
    person: ['If you want to see it, go on. The other site learns nothing of it.'],
    administrator:
      'A page of another origin opened /__authproxy/whoami, or a script of one asked for it. Scripts of the application itself have to run under its own host name.',
    action: { href: '{own}', label: 'Show it' },
  },

  acs_get: {
    category: 'SAML-ERROR',
    status: 405,
    title: 'Nothing to see here',
    text: 'The identity provider delivers its answers to this address; it is no page to visit.',
    person: ['Go to the application. If you are not signed in any more, it will ask you to.'],
    action: { href: '/', label: 'Go to the application' },
  },
  idp_metadata: {
    category: 'SAML-ERROR',
    status: 503,
    title: 'Signing in is not possible right now',
    text: 'What is known of the identity provider is out of date.',
    person: ['Try again in a few minutes.'],
    administrator:
      'The log says why the metadata could not be refreshed, and authproxy doctor what is wrong with it.',
    action: { href: '{back}', label: 'Try again' },
  },

  store_away: {
    category: 'SAML-ERROR',
    status: 503,
    title: 'Signing in is not possible right now',
    text: 'This service cannot reach the store that it needs to check the answer of the identity provider. Sessions are not affected.',
    person: ['Wait a moment, then sign in again.'],
    administrator:
      'authproxy status says why the store under state is away. Logins that begin at the application go on meanwhile, unless state.onOutage is refuse.',
    action: { href: '{back}', label: 'Try again' },
  },
  login_refused: {
    ...login,
    person: [...login.person, adviceToReport],
    administrator: 'authproxy explain says what was wrong with the answer.',
  },
  /**
   * The page may show the time, because the IdP signed it and it is not secret, and the administrator can correct the clock.
   */
  clocks_differ: {
    ...login,
    text: 'The clocks of this server and of the identity provider differ by about {amount} {unit}.',
    person: ['Tell your administrator the reference below.'],
    administrator: 'Set both clocks by NTP.',
  },
  /** The text of `clocks_differ` for an answer that is too old. */
  clocks_differ_late: {
    ...login,
    text: 'The clocks of this server and of the identity provider differ by about {amount} {unit}, or its answer was that long on its way.',
    administrator: 'Set both clocks by NTP.',
  },
  'xml_too-large': tooMuch,
  'xml_too-many-elements': tooMuch,
  'xml_too-many-references': tooMuch,
  login_unknown: noLogin,
  login_cookie_invalid: noLogin,
  login_cookie_missing: {
    ...login,
    text: 'The browser did not send back the cookie that was set when signing in began: it refuses cookies, it took too long, or signing in began somewhere else.',
    person: [
      'Allow cookies for this site, and sign in within the time the identity provider gives you.',
      'Begin at the address below, with https: a cookie that was set without TLS, or under another name, does not come back.',
    ],
  },
  idp_status: {
    ...login,
    text: 'The identity provider did not sign you in.',
    person: [
      'Sign in again.',
      'If it happens again, you may lack access to this application: ask your administrator.',
    ],
  },
  idp_name_id: {
    ...unable,
    text: 'The identity provider cannot name you in the form this application asks for.',
    administrator:
      'saml.nameIDFormat says which form of the name ID is asked for; none leaves it to the identity provider.',
  },
  idp_no_context: {
    ...unable,
    text: 'The identity provider cannot sign you in the way this application asks for.',
    administrator:
      'saml.authnContext and saml.authnContextComparison, or the login of a rule under access, say which way of signing in is asked for; without them the identity provider chooses.',
  },
  idp_unsupported: {
    ...unable,
    text: 'The identity provider does not support what this application asks of it.',
    administrator:
      'saml.nameIDFormat, saml.authnContext, saml.forceAuthn and samlRequestSigning say what is asked for; the identity provider does not support one of them.',
  },
  authn_context: {
    ...login,
    text: 'This application asks for another way of signing in than the one the identity provider used.',
    person: ['Sign in again, and choose another way if you are offered one.'],
    administrator:
      'saml.authnContext, or the login of a rule under access, names what is asked for; authproxy explain says what the identity provider used.',
  },
  /** The answer is based on an earlier login at the IdP. */
  authn_stale: {
    ...login,
    text: 'This application asks you to sign in again, and the identity provider answered with an earlier login.',
    person: [
      'Sign in again, and prove who you are when the identity provider asks for it.',
      adviceToReport,
    ],
    administrator:
      'saml.forceAuthn, or maxAge in the login of a rule under access, asks for it (ForceAuthn); the identity provider has to support that.',
  },
  /** The answer to a request for a new login says that the person signs in at a later time. */
  authn_future: {
    ...login,
    text: 'This application asks you to sign in again, and the identity provider says that you did so in the future: its clock or its time zone is wrong.',
    person: ['Tell your administrator the reference below.'],
    administrator:
      'AuthnInstant lies further ahead than saml.clockSkew, so it does not show that the login is new; the identity provider has to write it in UTC.',
  },
  /** A login was accepted, and a rule asks at once for another of the same kind. */
  login_unmet: {
    ...login,
    text: 'You have signed in, but not in the way this page asks for: the login is too old already, or of another kind.',
    person: ['Sign in again.', adviceToReport],
    administrator:
      'The login of the rule under access says what is needed; compare its maxAge with the time a login takes, and the clocks.',
  },
  verifier_busy: busy,
  used_ids_full: busy,
  form_busy: busy,
  form_type: {
    ...login,
    status: 415,
    text: 'This address takes the answers of the identity provider and nothing else.',
    person: ['Open the application and sign in from there.'],
  },
  form_too_large: { ...tooMuch, status: 413 },
  form_late: {
    ...login,
    status: 408,
    text: 'The answer of the identity provider did not arrive in time.',
  },
  form_malformed: {
    ...login,
    status: 400,
    text: 'What came to this address is no answer of an identity provider.',
  },

  logout_refused: logout,
  /** The session here had ended before, so the refused message can only be the answer to that logout. */
  logout_unconfirmed: {
    ...logout,
    title: 'You are signed out',
    text: 'Your session here has ended. The identity provider did not confirm that all others have.',
    person: ['To be safe on a shared computer, close the browser.'],
    administrator: 'authproxy explain says why the answer of the identity provider was refused.',
    action: { href: '{base}/', label: 'Sign in again' },
  },
  logout_idp_metadata: { ...logout, status: 503 },
  logout_verifier_busy: { ...logout, status: 503 },
  logout_form_busy: { ...logout, status: 503 },
  logout_form_type: { ...logout, status: 415 },
  logout_form_too_large: { ...logout, status: 413 },
  logout_form_late: { ...logout, status: 408 },
  logout_form_malformed: { ...logout, status: 400 },

  lost_wrong_host: {
    ...lost,
    text: '{said} This server is reached under another host name than it is configured for, so the cookie belongs to that name.',
    person: ['Open the address below instead.'],
    administrator:
      'The edge proxy has to pass the public Host on, and `domain` has to be equal to it.',
    action: goThere,
  },
  lost_http_edge: {
    ...lost,
    text: '{said} The edge in front of this service says that the request came without TLS, and browsers do not send session cookies over such connections.',
    person: ['Open the address below instead, with https.'],
    administrator:
      'The edge proxy has to send X-Forwarded-Proto: https and redirect http to https.',
    action: goThere,
  },
  lost_cookie_invalid: {
    ...lost,
    text: '{said} The browser sent a session cookie, but not one that is valid here.',
    person: ['Delete the cookies of this site and try again.'],
    administrator:
      'Look whether another site of the parent domain sets a cookie of the same name, or several servers with different keys answer under this name.',
  },
  /** The session ended as the IdP asked, so soon that the next request begins a login again. */
  lost_session_short: {
    ...lost,
    title: 'Your session ends too soon',
    text: '{said} The identity provider lets your session here last for {amount} {unit}.',
    person: ['Tell your administrator the reference below.'],
    administrator:
      'The assertion has a SessionNotOnOrAfter of so soon: set a longer lifetime of sessions at the identity provider.',
  },
  lost_clock: {
    ...lost,
    text: '{said} The clocks of this server and of the identity provider differ by about {amount} {unit}.',
    person: ['Try again in a few minutes.'],
    administrator: 'Set both clocks by NTP.',
  },
  lost_cookie_missing: {
    ...lost,
    text: '{said} The browser did not send the session cookie back: it refuses cookies of this site, or the cookie was too large for it or for a proxy on the way.',
    person: [
      'Allow cookies for this site, and leave private mode or switch off extensions that block them.',
    ],
    administrator: 'If only people with many groups are affected, limit the groups that are kept.',
  },

  subject_missing: {
    ...noSubject,
    text: 'The SAML session has no usable subject identifier.',
    administrator:
      'The identity provider has to send the attribute email or sAMAccountName, or a NameID that is not empty.',
  },
  subject_unfit: {
    ...noSubject,
    text: 'The SAML session has no usable subject identifier. The one it has contains control characters or white space other than spaces.',
    administrator:
      'The identity provider has to send the attribute email or sAMAccountName, or a NameID, without control characters and white space other than spaces.',
  },
  subject_not_basic: {
    ...denied,
    title: 'This user name cannot be used here',
    text: 'The application expects user names without a colon, and yours has one.',
    administrator:
      'proxy.useBasicAuth sends the subject as the user of Basic credentials, which cannot have a colon.',
  },
  session_over: {
    ...denied,
    title: 'The session is over already',
    text: 'The identity provider says that your session there has ended already.',
    person: ['Sign in again.'],
    administrator:
      'If it happens at once, compare the clocks of this server and of the identity provider.',
    action: { href: '{back}', label: 'Sign in again' },
  },
  cookie_too_large: {
    ...denied,
    title: 'Your session is too large for the browser',
    text: 'You have signed in, but what the identity provider says about you does not fit the cookies a browser keeps.',
    administrator:
      'Have the identity provider send fewer groups or attributes, or keep fewer (identity.groups, identity.only, session.cookieSize).',
  },
  resubmission_gone: {
    ...notSent,
    status: 409,
    text: 'It was sent already, or could not be kept for so long.',
  },
  resubmission_other_user: {
    ...notSent,
    text: 'You are signed in as another user than when you filled it in.',
  },
  resubmission_foreign: {
    ...notSent,
    text: 'It did not come from a page of this service.',
  },
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
