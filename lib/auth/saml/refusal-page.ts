/**
 * The page for a message of the IdP that is refused. Its text is in the table of failures; what was checked is in the log.
 */
import type { Milliseconds, Seconds } from '../../async/clock.ts'
import type { Facts } from '../../errors.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { type FailureCode, failures } from '../pages/failures.ts'
import { timeText } from '../pages/page.ts'
import type { Finding } from './core/check-assertion.ts'
import type { Saml } from './parts.ts'

export interface Refusal {
  readonly code: string
  readonly facts?: Facts
  readonly findings?: readonly Finding[]
  /** How far the IdP's clock seems to be ahead, when a time is what failed. */
  readonly clockAhead?: Milliseconds | undefined
  readonly cause?: unknown
}

/** Refuses an answer to a login: counts the code, leaves it in the log with what was checked, and answers with the page. */
export function refused(saml: Saml, request: Request, refusal: Refusal): Response {
  const { code, facts, findings = [], clockAhead, cause } = refusal
  saml.outcomes.count(code)
  const failed = findings.find(finding => !finding.ok)
  const seconds = clockAhead === undefined ? undefined : Math.round(clockAhead / 1000)
  return saml.failurePage({
    request,
    code,
    as: textFor(code, seconds),
    words: {
      seconds: `${Math.abs(seconds ?? 0)}`,
      base: saml.config().baseUrl,
      clock: timeText(saml.clock.now()),
    },
    facts: {
      ...facts,
      check: failed?.what,
      expected: failed?.expected,
      received: failed?.received,
      clockAheadSeconds: seconds,
      clock: seconds === undefined ? undefined : clockSentence(seconds),
    },
    findings,
    cause,
  })
}

/** Refuses a logout message, which ends no session. */
export function logoutRefused(saml: Saml, request: Request, refusal: Refusal): Response {
  const { code } = refusal
  return refused(saml, request, {
    ...refusal,
    code: code.startsWith('logout_') ? code : `logout_${code}`,
  })
}

function textFor(code: string, clockAhead: Seconds | undefined): FailureCode {
  if (clockAhead !== undefined) return clockAhead < 0 ? 'clocks_differ_late' : 'clocks_differ'
  if (isFailureCode(code)) return code
  return code.startsWith('logout_') ? 'logout_refused' : 'login_refused'
}

function isFailureCode(code: string): code is FailureCode {
  return Object.hasOwn(failures, code)
}

function clockSentence(seconds: number): string {
  return seconds >= 0
    ? `the clock of the IdP is ${seconds} s ahead of ours`
    : `the clock of the IdP is ${-seconds} s behind ours, or the answer was that long on its way`
}
