/**
 * The page behind every answer of an IdP that was not taken. One text for all, so that nobody can learn from it what to forge
 * next; except where the person, or the IdP, can do something about it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Facts } from '../../errors.ts'
import type { Request, Response } from '../../http/message/message.ts'
import type { WordedFailure } from '../pages/failure-page.ts'
import type { Finding } from './core/check-assertion.ts'
import { clockText } from './loop-page.ts'
import type { Saml } from './parts.ts'

export interface Refusal {
  readonly code: string
  readonly facts?: Facts
  readonly findings?: readonly Finding[]
  /** How far the IdP's clock seems to be ahead, when a time is what failed. */
  readonly clockAhead?: Milliseconds | undefined
  readonly cause?: unknown
}

type Wording = Pick<WordedFailure, 'status' | 'title' | 'text' | 'advice'>

/** Answers with the page, counts the code and leaves it in the log with what was checked. */
export function refused(saml: Saml, request: Request, refusal: Refusal): Response {
  const { code, facts, findings, clockAhead, cause } = refusal
  const { baseUrl } = saml.config()
  const logout = code.startsWith('logout_')
  saml.outcomes.count(code)
  const seconds = clockAhead === undefined ? undefined : Math.round(clockAhead / 1000)
  const failed = findings?.find(finding => !finding.ok)
  return saml.failurePage({
    request,
    category: 'SAML-ERROR',
    code,
    ...(seconds === undefined ? wordingOf(code, logout) : clockWording(seconds)),
    action: { href: `${baseUrl}/`, label: logout ? 'Go to the application' : 'Sign in again' },
    details: [
      ['Address of this service', `${baseUrl}/`],
      ['Clock of this server', clockText(saml.clock.now())],
    ],
    facts: {
      ...facts,
      client: saml.clientAddress(request),
      ...(failed === undefined
        ? {}
        : { check: failed.what, expected: failed.expected, received: failed.received }),
      ...(seconds === undefined
        ? {}
        : { clockAheadSeconds: seconds, clock: clockSentence(seconds) }),
    },
    ...(findings === undefined ? {} : { findings }),
    ...(cause === undefined ? {} : { cause }),
  })
}

function clockSentence(seconds: number): string {
  return seconds >= 0
    ? `the clock of the IdP is ${seconds} s ahead of ours`
    : `the clock of the IdP is ${-seconds} s behind ours, or the answer was that long on its way`
}

/** A logout message that was not taken has the status of what was wrong with it, and words of its own. */
function wordingOf(code: string, logout: boolean): Wording {
  if (!logout) return wordings.get(code) ?? usual
  return { ...usualLogout, status: wordings.get(code.slice('logout_'.length))?.status ?? 403 }
}

const usualLogout: Wording = {
  status: 403,
  title: 'Signing out was not completed',
  text: 'A message about signing out came from the identity provider and could not be accepted. Nobody was signed out by it.',
  advice: [
    'Sign out in the application, then close the browser.',
    'If it happens again, tell your administrator the reference below.',
  ],
}

const usual: Wording = {
  status: 403,
  title: 'Signing in did not work',
  text: 'The answer of the identity provider could not be accepted.',
  advice: [
    'Sign in again.',
    'If it happens again, tell your administrator the reference below: authproxy explain knows what was wrong with the answer.',
  ],
}

/** What the signature says the IdP wrote at a time that cannot be: no secret, and somebody can mend it. */
function clockWording(seconds: number): Wording {
  const late = seconds < 0 ? ', or its answer was that long on its way' : ''
  return {
    ...usual,
    text: `The clocks of this server and of the identity provider differ by about ${Math.abs(seconds)} seconds${late}.`,
    advice: ['Sign in again.', 'Administrator: set both clocks by NTP.'],
  }
}

/** What to do when the IdP's metadata has expired. */
export const metadataAdvice: readonly string[] = [
  'Try again in a few minutes.',
  'Administrator: the log says why the metadata could not be refreshed, and authproxy doctor what is wrong with it.',
]

const busy: Wording = {
  ...usual,
  status: 503,
  text: 'Too many people are signing in at this moment.',
  advice: ['Wait a moment, then sign in again.'],
}

const tooMuch: Wording = {
  ...usual,
  text: 'The identity provider says more about you than this service takes. Most likely you are in very many groups.',
  advice: [
    'Administrator: have the identity provider send the groups this application needs, and no others.',
  ],
}

const restart: Wording = {
  ...usual,
  text: 'This answer belongs to no sign-in that is under way in this browser. It may have taken too long, or the page was loaded twice.',
}

const wordings: ReadonlyMap<string, Wording> = new Map(
  Object.entries<Wording>({
    'xml_too-large': tooMuch,
    'xml_too-many-elements': tooMuch,
    login_unknown: restart,
    login_cookie_invalid: restart,
    login_cookie_missing: {
      ...usual,
      text: 'The browser did not send back the cookie that was set when signing in began: it refuses cookies, it took too long, or signing in began somewhere else.',
      advice: [
        'Allow cookies for this site, and sign in within the time the identity provider gives you.',
        'Begin at the address below, with https: a cookie that was set without TLS, or under another name, does not come back.',
        'Do not begin at the identity provider, nor at a bookmark of its page.',
      ],
    },
    idp_status: {
      ...usual,
      text: 'The identity provider did not sign you in.',
      advice: [
        'Sign in again.',
        'If it happens again, you may lack access to this application: ask your administrator.',
      ],
    },
    idp_metadata: {
      ...usual,
      status: 503,
      text: 'What is known of the identity provider is out of date.',
      advice: metadataAdvice,
    },
    verifier_busy: busy,
    authn_context: {
      ...usual,
      text: 'This application asks for another way of signing in than the one the identity provider used.',
      advice: [
        'Sign in again, and choose another way if you are offered one.',
        'Administrator: saml.authnContext names what is asked for; authproxy explain says what came.',
      ],
    },
    session_over: {
      ...usual,
      text: 'The identity provider says that your session there has ended already.',
      advice: [
        'Sign in again.',
        'Administrator: if it happens at once, compare the clocks of this server and of the identity provider.',
      ],
    },
    form_busy: busy,
    form_type: {
      ...usual,
      status: 415,
      text: 'This address takes the answers of the identity provider and nothing else.',
      advice: ['Open the application and sign in from there.'],
    },
    form_too_large: { ...tooMuch, status: 413 },
    form_late: {
      ...usual,
      status: 408,
      text: 'The answer of the identity provider did not arrive in time.',
    },
    form_malformed: {
      ...usual,
      status: 400,
      text: 'What came to this address is no answer of an identity provider.',
    },
  }),
)
