/**
 * Whether a verified assertion is meant for us, for this browser, now: saml-profiles-2.0-os section 4.1.4.3 and saml-core-2.0-os
 * section 2.5.1. Pure. Every check leaves a Finding, so that a refusal can be explained field by field.
 *
 * What stands in the Response around a signed assertion is checked too, but proves nothing unless the response is signed: it
 * can only ever make us refuse.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { AssertionReason, AssertionVerdict, Expected, Finding } from './assertion-verdict.ts'
import { formatInstant } from './instant.ts'
import type {
  AssertionFacts,
  AuthnStatementFacts,
  Confirmation,
  ResponseFacts,
  WrittenInstant,
} from './read-assertion.ts'
import type { VerifiedSubject } from './subject.ts'
import { bearer } from './vocabulary.ts'

/** Checks a response and its assertion against what is expected at `now`. */
export function checkAssertion(
  message: { readonly response: ResponseFacts; readonly assertion: AssertionFacts },
  expected: Expected,
  now: Milliseconds,
): AssertionVerdict {
  const { response, assertion } = message
  const check = new Check(expected, now)
  check.response(response)
  check.issuing(assertion)
  const confirmation = check.confirmation(assertion.confirmations)
  check.inResponseTo(response, confirmation)
  check.conditions(assertion)
  const statement = check.statement(assertion, confirmation?.inResponseTo)
  const { findings, because } = check
  if (because !== undefined || confirmation === undefined || statement === undefined) {
    const clockAhead =
      because !== undefined && isTime(because) ? aheadBy(assertion, now) : undefined
    return { ok: false, because: because ?? 'subject_confirmation', findings, clockAhead }
  }
  const subject: VerifiedSubject = {
    nameId: assertion.nameId,
    attributes: assertion.attributes,
    issuer: expected.idp,
    assertionId: assertion.id,
    sessionIndex: statement.sessionIndex,
    authenticated: statement.instant?.moment ?? now,
    sessionEnds: earliest(assertion.statements.map(each => each.sessionNotOnOrAfter?.moment)),
  }
  // Nobody takes it after this, so nobody needs to remember it for longer.
  const ends = earliest([confirmation.notOnOrAfter?.moment]) ?? now
  const until = Math.max(ends, now + expected.assertionAge) + 2 * expected.skew
  return { ok: true, subject, requestId: confirmation.inResponseTo, until, findings }
}

/** Collects findings; the first that fails gives the reason. */
class Check {
  readonly findings: Finding[] = []
  because: AssertionReason | undefined
  readonly #expected: Expected
  readonly #now: Milliseconds

  constructor(expected: Expected, now: Milliseconds) {
    this.#expected = expected
    this.#now = now
  }

  /** The Response's own attributes (3.2.2); Destination has to be there when it is signed (saml-bindings section 3.5.5.2). */
  response(response: ResponseFacts): void {
    const { acsUrl, idp } = this.#expected
    this.#found('version', 'Response Version', response.version === '2.0', '2.0', response.version)
    if (response.issuer !== undefined) {
      this.#found('issuer', 'Response Issuer', response.issuer === idp, idp, response.issuer)
    }
    const { destination } = response
    const meant = destination === undefined ? !response.signed : destination === acsUrl
    this.#found('destination', 'Destination', meant, acsUrl, destination)
    if (response.issued !== undefined) this.#issued('Response IssueInstant', response.issued)
  }

  issuing(assertion: AssertionFacts): void {
    const { idp } = this.#expected
    const { version, issuer, issued } = assertion
    this.#found('version', 'Assertion Version', version === '2.0', '2.0', version)
    this.#found('issuer', 'Assertion Issuer', issuer === idp, idp, issuer)
    this.#issued('Assertion IssueInstant', issued)
  }

  /** The first bearer confirmation that holds (profiles 4.1.4.2); when none does, what is wrong with the first. */
  confirmation(all: readonly Confirmation[]): Confirmation | undefined {
    const bearers = all.filter(confirmation => confirmation.method === bearer)
    const tried = bearers.map(confirmation => {
      const check = new Check(this.#expected, this.#now)
      check.#bearer(confirmation)
      return { confirmation, check }
    })
    const best = tried.find(({ check }) => check.because === undefined) ?? tried[0]
    if (best === undefined) {
      const methods = all.map(confirmation => confirmation.method).join(' ')
      this.#found(
        'subject_confirmation',
        'SubjectConfirmation',
        false,
        bearer,
        methods || undefined,
      )
      return undefined
    }
    this.findings.push(...best.check.findings)
    this.because ??= best.check.because
    return best.confirmation
  }

  #bearer({ recipient, notBefore, notOnOrAfter }: Confirmation): void {
    const { acsUrl } = this.#expected
    this.#found('recipient', 'Recipient', recipient === acsUrl, acsUrl, recipient)
    this.#ends('SubjectConfirmationData NotOnOrAfter', notOnOrAfter, true)
    this.#begins('SubjectConfirmationData NotBefore', notBefore)
  }

  /** The signed InResponseTo names a request of this very browser; the unsigned one must not contradict it. */
  inResponseTo(response: ResponseFacts, confirmation: Confirmation | undefined): void {
    const { requests, unsolicited } = this.#expected
    const signed = confirmation?.inResponseTo
    const outer = response.inResponseTo
    const wanted = 'the ID of a request of this browser'
    if (signed === undefined && outer === undefined) {
      const wish = unsolicited ? 'none needed' : wanted
      this.#found('unsolicited', 'InResponseTo', unsolicited, wish, undefined)
      return
    }
    const known = signed !== undefined && requests.has(signed)
    this.#found('in_response_to', 'SubjectConfirmationData InResponseTo', known, wanted, signed)
    if (outer !== undefined) {
      this.#found(
        'in_response_to',
        'Response InResponseTo',
        outer === signed,
        signed ?? wanted,
        outer,
      )
    }
  }

  /** core 2.5.1; every restriction has to name us (2.5.1.4), an unknown condition makes the assertion invalid (2.5.1.1). */
  conditions({ conditions }: AssertionFacts): void {
    const { entityId } = this.#expected
    const audiences = conditions?.audiences ?? []
    const meant = audiences.length > 0 && audiences.every(each => each.includes(entityId))
    this.#found('audience', 'Audience', meant, entityId, audiences.flat().join(' ') || undefined)
    if (conditions === undefined) return
    const { unknown, notBefore, notOnOrAfter } = conditions
    if (unknown.length > 0) {
      this.#found('conditions', 'Conditions', false, 'conditions of SAML 2.0', unknown.join(' '))
    }
    this.#begins('Conditions NotBefore', notBefore)
    this.#ends('Conditions NotOnOrAfter', notOnOrAfter, false)
  }

  statement(
    assertion: AssertionFacts,
    requestId: string | undefined,
  ): AuthnStatementFacts | undefined {
    const { contexts, forceAuthn, requests, skew } = this.#expected
    const [statement] = assertion.statements
    if (statement === undefined) {
      this.#found('authn_statement', 'AuthnStatement', false, 'at least one', undefined)
      return undefined
    }
    for (const { sessionNotOnOrAfter } of assertion.statements) {
      if (sessionNotOnOrAfter === undefined) continue
      const { moment } = sessionNotOnOrAfter
      const open = moment !== undefined && moment > this.#now
      this.#found(
        'session_over',
        'SessionNotOnOrAfter',
        open,
        `after ${formatInstant(this.#now)}`,
        sessionNotOnOrAfter.text,
      )
    }
    const { contextClass, instant } = statement
    if (contexts.length > 0) {
      const good = contextClass !== undefined && contexts.includes(contextClass)
      this.#found('authn_context', 'AuthnContextClassRef', good, contexts.join(' '), contextClass)
    }
    const asked = requestId === undefined ? undefined : requests.get(requestId)
    if (forceAuthn && asked !== undefined) {
      const fresh = instant?.moment !== undefined && instant.moment >= asked - skew
      this.#found(
        'authn_stale',
        'AuthnInstant',
        fresh,
        `from ${formatInstant(asked - skew)}`,
        instant?.text,
      )
    }
    return statement
  }

  #issued(what: string, issued: WrittenInstant | undefined): void {
    const { skew, assertionAge } = this.#expected
    const now = this.#now
    const latest = formatInstant(now + skew)
    const moment = issued?.moment
    const sound = moment !== undefined && moment <= now + skew
    this.#found('issue_instant', what, sound, `until ${latest}`, issued?.text)
    if (moment === undefined || !sound) return
    const oldest = now - assertionAge - skew
    this.#found('too_old', what, moment >= oldest, `from ${formatInstant(oldest)}`, issued?.text)
  }

  #begins(what: string, written: WrittenInstant | undefined): void {
    if (written === undefined) return
    const latest = this.#now + this.#expected.skew
    const good = written.moment !== undefined && written.moment <= latest
    this.#found('not_yet_valid', what, good, `until ${formatInstant(latest)}`, written.text)
  }

  #ends(what: string, written: WrittenInstant | undefined, required: boolean): void {
    if (written === undefined && !required) return
    const earliest = this.#now - this.#expected.skew
    const good = written?.moment !== undefined && written.moment > earliest
    this.#found('expired', what, good, `after ${formatInstant(earliest)}`, written?.text)
  }

  #found(
    because: AssertionReason,
    what: string,
    ok: boolean,
    expected: string,
    received: string | undefined,
  ): void {
    this.findings.push({ what, ok, expected, received: received?.slice(0, 300) ?? '(nothing)' })
    if (!ok) this.because ??= because
  }
}

const TIMES: readonly AssertionReason[] = ['not_yet_valid', 'expired', 'issue_instant', 'too_old']

function isTime(because: AssertionReason): boolean {
  return TIMES.includes(because)
}

/** A message is on its way for a moment only, so what lies between its writing and now is mostly the clocks. */
function aheadBy(assertion: AssertionFacts, now: Milliseconds): Milliseconds | undefined {
  const moment = assertion.issued?.moment
  return moment === undefined ? undefined : moment - now
}

function earliest(moments: ReadonlyArray<Milliseconds | undefined>): Milliseconds | undefined {
  const known = moments.filter(moment => moment !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
