/**
 * What a verified assertion says of a person, and what its checks found: the values that sessions, identities and pages take from
 * SAML. They know nothing of XML.
 */
import type { Milliseconds } from '../async/clock.ts'

export interface NameId {
  readonly value: string
  /** URI of its format; undefined when the assertion names none. */
  readonly format: string | undefined
  readonly nameQualifier: string | undefined
  readonly spNameQualifier: string | undefined
}

/** One attribute as it came: its Name, its FriendlyName, its values in order, each as text. */
export interface SamlAttribute {
  readonly name: string
  readonly friendlyName: string | undefined
  readonly values: readonly string[]
}

/** What a verified assertion says of a person, before any of it is chosen or renamed. */
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
  /** AuthnInstant and AuthnContextClassRef, as far as the IdP said them. */
  readonly authnInstant?: Milliseconds | undefined
  readonly authnContext?: string | undefined
  /** SessionNotOnOrAfter: the session must not outlive it. */
  readonly sessionEnds: Milliseconds | undefined
}

/** One thing that was checked: `Audience`, what was expected, what was received. */
export interface AssertionFinding {
  readonly what: string
  readonly ok: boolean
  readonly expected: string
  readonly received: string
}
