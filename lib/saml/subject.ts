/**
 * The facts of a verified assertion about a person, and the findings of its checks. Sessions, identities and pages use these
 * values, which do not depend on XML.
 */
import type { Milliseconds } from '../async/clock.ts'

export interface NameId {
  readonly value: string
  /** The URI of the format; undefined when the assertion names none. */
  readonly format: string | undefined
  readonly nameQualifier: string | undefined
  readonly spNameQualifier: string | undefined
}

/** One attribute of the assertion: its Name, its FriendlyName, and its values in order, each as text. */
export interface SamlAttribute {
  readonly name: string
  readonly friendlyName: string | undefined
  readonly values: readonly string[]
}

/** The facts of a verified assertion about a person, before any of them is chosen or renamed. */
export interface VerifiedSubject {
  readonly nameId: NameId | undefined
  /** Attributes in the order of the assertion; the same Name may come more than once. */
  readonly attributes: readonly SamlAttribute[]
  /** Entity ID of the identity provider. */
  readonly issuer: string
  readonly assertionId: string
  /** The IdP's name of this session, for logout. */
  readonly sessionIndex: string | undefined
  readonly authenticated: Milliseconds
  /** AuthnInstant and AuthnContextClassRef, when the IdP names them. */
  readonly authnInstant?: Milliseconds | undefined
  readonly authnContext?: string | undefined
  /** SessionNotOnOrAfter: the session must not outlive it. */
  readonly sessionEnds: Milliseconds | undefined
}

/** The result of one check: its subject, such as `Audience`, the expected value and the received one. */
export interface AssertionFinding {
  readonly what: string
  readonly ok: boolean
  readonly expected: string
  readonly received: string
}
