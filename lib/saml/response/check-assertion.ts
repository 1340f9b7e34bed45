/**
 * Checks whether a verified assertion is for this service, for this browser and for this moment: saml-profiles-2.0-os section
 * 4.1.4.3 and saml-core-2.0-os section 2. Pure. Every check leaves a finding, so that a refusal can be explained field by
 * field.
 *
 * The parts of the Response around a signed assertion are checked too. Unless the Response is signed they prove nothing, and
 * can only lead to a refusal.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { AssertionFinding, VerifiedSubject } from '../subject.ts'
import { formatInstant } from '../xml/instant.ts'
import { bearer } from '../xml/vocabulary.ts'
import type {
  AssertionFacts,
  AuthnStatementFacts,
  Confirmation,
  MessageHead,
  WrittenInstant,
} from './read-assertion.ts'

/** The requirements that one login sends to the identity provider. */
export interface LoginAsks {
  /** Whether the person has to authenticate again. */
  readonly anew: boolean
  /** The contexts one of which has to be used; an empty list allows any. */
  readonly contexts: readonly string[]
}

/** The requirements for every assertion: our names, and the settings of the operator. */
export interface AssertionRules {
  /** Our entity ID; the next member is the address of our ACS. */
  readonly entityId: string
  readonly acsUrl: string
  /** Whether an assertion that answers no request is accepted. */
  readonly idpInitiated: boolean
  /** Whether the person has to authenticate for each login. */
  readonly forceAuthn: boolean
  /** The contexts that the IdP is asked for; an empty list allows any. */
  readonly authnContext: readonly string[]
  readonly authnContextComparison: string
  /** The allowed difference between the clock of the IdP and ours. */
  readonly clockSkew: Milliseconds
  /** The time after its IssueInstant during which an assertion is accepted. */
  readonly assertionAge: Milliseconds
}

export interface ExpectedAssertion {
  readonly config: AssertionRules
  /** Entity ID of the IdP. */
  readonly idp: string
  /** The requests that this browser has under way, by their IDs. */
  readonly requests: ReadonlyMap<string, AwaitedRequest>
}

interface AwaitedRequest {
  readonly began: Milliseconds
  /** Its requirements beyond the settings. */
  readonly asks?: LoginAsks | undefined
}

export type AssertionReason =
  | 'version'
  | 'issuer'
  | 'destination'
  | 'subject_confirmation'
  | 'recipient'
  | 'in_response_to'
  | 'unsolicited'
  | 'audience'
  | 'conditions'
  | 'authn_statement'
  | 'session_over'
  | 'authn_context'
  | 'authn_stale'
  | 'authn_future'
  | TimeReason

const TIMES = ['not_yet_valid', 'expired', 'issue_instant', 'too_old'] as const
type TimeReason = (typeof TIMES)[number]

export interface CheckedAssertion {
  readonly ok: true
  readonly subject: VerifiedSubject
  /** The request that the assertion answers; undefined for an unsolicited one. */
  readonly requestId: string | undefined
  /** The moment until which the ID of the assertion has to be remembered. */
  readonly until: Milliseconds
  readonly findings: readonly AssertionFinding[]
}

export type AssertionVerdict =
  | CheckedAssertion
  | {
      readonly ok: false
      readonly because: AssertionReason
      readonly findings: readonly AssertionFinding[]
      /** The time by which the IdP's clock seems to be ahead of ours, when the check of a time failed. */
      readonly clockAhead: Milliseconds | undefined
    }

/** Checks a response and its assertion against what is expected at `now`. */
export function checkAssertion(
  message: { readonly response: MessageHead; readonly assertion: AssertionFacts },
  expected: ExpectedAssertion,
  now: Milliseconds,
): AssertionVerdict {
  const { response, assertion } = message
  const check = new Check(expected, now)
  check.response(response)
  check.assertion(assertion)
  const confirmation = check.confirmation(assertion.confirmations)
  check.inResponseTo(response, confirmation)
  check.conditions(assertion)
  const statement = check.statement(assertion, confirmation?.inResponseTo)
  const { findings, because } = check
  if (because !== undefined || confirmation === undefined || statement === undefined) {
    // A message travels for a moment only, so the time between its IssueInstant and now is mostly a difference of clocks.
    const written = TIMES.some(time => time === because) ? assertion.issued?.moment : undefined
    const clockAhead = written === undefined ? undefined : written - now
    return { ok: false, because: because ?? 'subject_confirmation', findings, clockAhead }
  }
  const ends = assertion.statements.flatMap(each => each.sessionNotOnOrAfter?.moment ?? [])
  const { assertionAge, clockSkew } = expected.config
  // An AuthnInstant further ahead than clocks may differ is not believed, because the login may be hours old: an identity
  // provider may write local time as UTC.
  const moment = statement.instant?.moment
  const authnInstant =
    moment === undefined || moment > now + clockSkew ? undefined : Math.min(moment, now)
  const subject: VerifiedSubject = {
    nameId: assertion.nameId,
    attributes: assertion.attributes,
    issuer: expected.idp,
    assertionId: assertion.id,
    sessionIndex: statement.sessionIndex,
    authenticated: authnInstant ?? now,
    authnInstant,
    authnContext: statement.contextClass,
    sessionEnds: ends.length === 0 ? undefined : Math.min(...ends),
  }
  // After this moment the checks of its times refuse the assertion, so its ID can be forgotten.
  const confirmed = confirmation.notOnOrAfter?.moment ?? now
  const until = Math.max(confirmed, now + assertionAge) + 2 * clockSkew
  return { ok: true, subject, requestId: confirmation.inResponseTo, until, findings }
}

/**
 * Whether two https addresses are equal by RFC 3986 section 6.2: case in scheme and host, and the default port, do not count.
 * Everything else counts, and no URL parser reads the received text.
 */
export function isSameAddress(received: string, ours: string): boolean {
  return normalised(received) === normalised(ours)
}

function normalised(address: string): string {
  const [, authority, rest = ''] = /^https:\/\/([a-z0-9.[\]:-]+)(.*)$/is.exec(address) ?? []
  return authority === undefined
    ? address
    : `https://${authority.toLowerCase().replace(/:(?:443)?$/, '')}${rest}`
}

/** Collects findings. The first that fails gives the reason for the refusal. */
class Check {
  readonly findings: AssertionFinding[] = []
  because: AssertionReason | undefined
  readonly #expected: ExpectedAssertion
  readonly #now: Milliseconds

  constructor(expected: ExpectedAssertion, now: Milliseconds) {
    this.#expected = expected
    this.#now = now
  }

  /** core 3.2.2; a Destination is required when the Response is signed (saml-bindings section 3.5.5.2). */
  response({ version, issuer, destination, issued, signed }: MessageHead): void {
    const { idp, config } = this.#expected
    const { acsUrl } = config
    this.#note('version', 'Response Version', { expected: '2.0', received: version })
    if (issuer !== undefined) {
      this.#note('issuer', 'Response Issuer', { expected: idp, received: issuer })
    }
    const ok = destination === undefined ? !signed : isSameAddress(destination, acsUrl)
    this.#note('destination', 'Destination', { expected: acsUrl, received: destination, ok })
    if (issued !== undefined) this.#issued('Response', issued)
  }

  /** core 2.3.3 */
  assertion({ version, issuer, issued }: AssertionFacts): void {
    const { idp } = this.#expected
    this.#note('version', 'Assertion Version', { expected: '2.0', received: version })
    this.#note('issuer', 'Assertion Issuer', { expected: idp, received: issuer })
    this.#issued('Assertion', issued)
  }

  /** profiles 4.1.4.2: the first bearer confirmation that holds; when none does, the findings are those of the first. */
  confirmation(all: readonly Confirmation[]): Confirmation | undefined {
    const tried = all
      .filter(({ method }) => method === bearer)
      .map(confirmation => {
        const check = new Check(this.#expected, this.#now)
        check.#bearer(confirmation)
        return { confirmation, check }
      })
    const best = tried.find(({ check }) => check.because === undefined) ?? tried[0]
    if (best === undefined) {
      const received = all.map(({ method }) => method).join(' ') || undefined
      const facts = { expected: bearer, received, ok: false }
      this.#note('subject_confirmation', 'SubjectConfirmation', facts)
      return undefined
    }
    this.findings.push(...best.check.findings)
    this.because ??= best.check.because
    return best.confirmation
  }

  #bearer({ recipient, notBefore, notOnOrAfter }: Confirmation): void {
    const { acsUrl } = this.#expected.config
    const ok = recipient !== undefined && isSameAddress(recipient, acsUrl)
    this.#note('recipient', 'Recipient', { expected: acsUrl, received: recipient, ok })
    this.#ends('SubjectConfirmationData', notOnOrAfter)
    this.#begins('SubjectConfirmationData', notBefore)
  }

  /** profiles 4.1.4.3: the signed InResponseTo names a request of this very browser; the unsigned one must not contradict it. */
  inResponseTo({ inResponseTo: outer }: MessageHead, confirmation: Confirmation | undefined): void {
    const { requests, config } = this.#expected
    const { idpInitiated } = config
    const signed = confirmation?.inResponseTo
    const wanted = 'the ID of a request of this browser'
    if (signed === undefined && outer === undefined) {
      const expected = idpInitiated ? 'none needed' : wanted
      this.#note('unsolicited', 'InResponseTo', { expected, ok: idpInitiated })
      return
    }
    const known = signed !== undefined && requests.has(signed)
    const inner = { expected: wanted, received: signed, ok: known }
    this.#note('in_response_to', 'SubjectConfirmationData InResponseTo', inner)
    if (outer === undefined) return
    const around = { expected: signed ?? wanted, received: outer, ok: outer === signed }
    this.#note('in_response_to', 'Response InResponseTo', around)
  }

  /** core 2.5.1; every restriction has to name us (2.5.1.4), an unknown condition makes the assertion invalid (2.5.1.1). */
  conditions({ conditions }: AssertionFacts): void {
    const { entityId: expected } = this.#expected.config
    const audiences = conditions?.audiences ?? []
    const ok = audiences.length > 0 && audiences.every(each => each.includes(expected))
    const received = audiences.flat().join(' ') || undefined
    this.#note('audience', 'Audience', { expected, received, ok })
    if (conditions === undefined) return
    const { unknown, notBefore, notOnOrAfter } = conditions
    if (unknown.length > 0) {
      const facts = { expected: 'conditions of SAML 2.0', received: unknown.join(' '), ok: false }
      this.#note('conditions', 'Conditions', facts)
    }
    this.#begins('Conditions', notBefore)
    if (notOnOrAfter !== undefined) this.#ends('Conditions', notOnOrAfter)
  }

  /** core 2.7.2, and core 3.4.1 for what was requested. */
  statement(
    { statements }: AssertionFacts,
    requestId: string | undefined,
  ): AuthnStatementFacts | undefined {
    const { requests, config } = this.#expected
    const { clockSkew } = config
    const request = requests.get(requestId ?? '')
    const own = request?.asks
    const forceAuthn = config.forceAuthn || own?.anew === true
    const askedBySettings = config.authnContextComparison === 'exact' ? config.authnContext : []
    const contexts = own?.contexts.length ? own.contexts : askedBySettings
    const [statement] = statements
    if (statement === undefined) {
      this.#note('authn_statement', 'AuthnStatement', { expected: 'at least one', ok: false })
      return undefined
    }
    for (const { sessionNotOnOrAfter: ends } of statements) {
      if (ends === undefined) continue
      this.#note('session_over', 'SessionNotOnOrAfter', compared(ends, 'after', this.#now))
    }
    const { contextClass, instant } = statement
    // With another comparison than "exact" only the IdP knows which contexts are sufficient (3.3.2.2.1).
    if (contexts.length > 0) {
      const ok = contextClass !== undefined && contexts.includes(contextClass)
      const facts = { expected: contexts.join(' '), received: contextClass, ok }
      this.#note('authn_context', 'AuthnContextClassRef', facts)
    }
    if (forceAuthn && request !== undefined) {
      const earliest = request.began - clockSkew
      this.#note('authn_stale', 'AuthnInstant', compared(instant, 'from', earliest))
      this.#note('authn_future', 'AuthnInstant', compared(instant, 'until', this.#now + clockSkew))
    }
    return statement
  }

  #issued(what: string, issued: WrittenInstant | undefined): void {
    const { clockSkew, assertionAge } = this.#expected.config
    const sound = compared(issued, 'until', this.#now + clockSkew)
    this.#note('issue_instant', `${what} IssueInstant`, sound)
    if (!sound.ok) return
    const oldest = this.#now - assertionAge - clockSkew
    this.#note('too_old', `${what} IssueInstant`, compared(issued, 'from', oldest))
  }

  #begins(what: string, notBefore: WrittenInstant | undefined): void {
    if (notBefore === undefined) return
    const latest = this.#now + this.#expected.config.clockSkew
    this.#note('not_yet_valid', `${what} NotBefore`, compared(notBefore, 'until', latest))
  }

  #ends(what: string, notOnOrAfter: WrittenInstant | undefined): void {
    const earliest = this.#now - this.#expected.config.clockSkew
    this.#note('expired', `${what} NotOnOrAfter`, compared(notOnOrAfter, 'after', earliest))
  }

  #note(because: AssertionReason, what: string, { expected, received, ok }: Facts): void {
    const good = ok ?? received === expected
    const shown = received?.slice(0, 300) ?? '(nothing)'
    this.findings.push({ what, ok: good, expected, received: shown })
    if (!good) this.because ??= because
  }
}

interface Facts {
  readonly expected: string
  readonly received?: string | undefined
  /** Whether the check succeeds; by default whether the two texts are equal. */
  readonly ok?: boolean
}

/** Compares an instant with a bound. A missing or malformed instant fails. */
function compared(
  written: WrittenInstant | undefined,
  side: 'until' | 'from' | 'after',
  bound: Milliseconds,
): Facts {
  const moment = written?.moment ?? Number.NaN
  const ok = { until: moment <= bound, from: moment >= bound, after: moment > bound }[side]
  return { expected: `${side} ${formatInstant(bound)}`, received: written?.text, ok }
}
