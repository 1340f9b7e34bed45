/**
 * What an assertion is checked against, and what comes of it. Types only.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { VerifiedSubject } from './subject.ts'

/** One thing that was checked: `Audience`, what was expected, what was received. */
export interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly expected: string
  readonly received: string
}

export interface Expected {
  /** Ours, which must be among the audiences. */
  readonly entityId: string
  readonly acsUrl: string
  /** Entity ID of the IdP. */
  readonly idp: string
  /** IDs of the requests this browser has under way, with the moment each was made. */
  readonly requests: ReadonlyMap<string, Milliseconds>
  /** Whether an assertion nobody asked for is taken. */
  readonly unsolicited: boolean
  readonly skew: Milliseconds
  readonly assertionAge: Milliseconds
  /** Whether the person had to be authenticated anew. */
  readonly forceAuthn: boolean
  /** Authentication contexts of which one was asked for exactly; empty when none was. */
  readonly contexts: readonly string[]
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
  | 'not_yet_valid'
  | 'expired'
  | 'issue_instant'
  | 'too_old'
  | 'authn_statement'
  | 'session_over'
  | 'authn_context'
  | 'authn_stale'

export type AssertionVerdict =
  | {
      readonly ok: true
      readonly subject: VerifiedSubject
      /** The request it answers; undefined for an unsolicited one. */
      readonly requestId: string | undefined
      /** Until when its ID has to be remembered. */
      readonly until: Milliseconds
      readonly findings: readonly Finding[]
    }
  | {
      readonly ok: false
      readonly because: AssertionReason
      readonly findings: readonly Finding[]
      /** How far the IdP's clock seems to be ahead of ours, when a time is what failed. */
      readonly clockAhead: Milliseconds | undefined
    }
