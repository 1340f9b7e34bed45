/**
 * Texts of failed logins and logouts, a part of the table of failures.
 *
 * Most refused answers share one text, so that an attacker cannot learn from the page which check refused a forged answer. A
 * failure has its own text where the person, the administrator or the IdP can do something about it.
 */

/** Advice to a person when trying again may help. */
export const adviceToReport = 'If it happens again, tell your administrator the reference below.'

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
    'Have the identity provider send the groups this application needs, and no others.',
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

export const samlFailures = {
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
    text: 'This application asks you to sign in anew, and the identity provider answered with an earlier login.',
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
    text: 'This application asks you to sign in anew, and the identity provider says that you have done so in the future: its clock or its time zone is wrong.',
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
} as const
