/**
 * Who a verified assertion says somebody is: the subject and the attributes that are kept. Pure.
 */

import type { VerifiedSubject } from '../saml/core/subject.ts'
import { type Claim, mapClaims } from './claim.ts'

export interface IdentityRules {
  readonly claims: readonly Claim[]
  readonly looseNames: boolean
  /** Patterns of groups that are kept, `*` for any text; all are when there is none. */
  readonly groups: readonly string[]
  /** `name` makes the common name of a distinguished name: `cn=staff,ou=groups` becomes `staff`. */
  readonly groupForm: 'whole' | 'name'
  /** Canonical names of the attributes that are kept; all are when undefined. */
  readonly only: readonly string[] | undefined
}

export interface Identity {
  readonly subject: string
  /** Where the subject came from. A transient NameID is another one at every login. */
  readonly from: 'email' | 'sAMAccountName' | 'nameId' | 'transient-nameId'
  readonly attributes: ReadonlyMap<string, readonly string[]>
}

export type IdentityOutcome =
  | { readonly ok: true; readonly identity: Identity }
  | { readonly ok: false; readonly because: NoIdentity }

export type NoIdentity = 'no-subject' | 'unfit-subject'

const TRANSIENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'

/** The identity, or why there is none. The subject is the first that is not empty of: email, sAMAccountName, NameID. */
export function identityOf(verified: VerifiedSubject, rules: IdentityRules): IdentityOutcome {
  const mapped = mapClaims(verified.attributes, { more: rules.claims, loose: rules.looseNames })
  const nameId = verified.nameId?.value.trim() ?? ''
  const candidates = [
    ['email', mapped.get('email')?.[0]],
    ['sAMAccountName', mapped.get('sAMAccountName')?.[0]],
    [verified.nameId?.format === TRANSIENT ? 'transient-nameId' : 'nameId', nameId],
  ] as const
  for (const [from, subject] of candidates) {
    if (subject === undefined || subject === '') continue
    // A name with control characters in it is nobody's; what a reader would take it for cannot be known.
    if (UNFIT.test(subject)) return { ok: false, because: 'unfit-subject' }
    return { ok: true, identity: { subject, from, attributes: keptOf(mapped, rules) } }
  }
  return { ok: false, because: 'no-subject' }
}

const UNFIT = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u

function keptOf(
  mapped: ReadonlyMap<string, readonly string[]>,
  rules: IdentityRules,
): ReadonlyMap<string, readonly string[]> {
  const kept = new Map<string, readonly string[]>()
  for (const [name, values] of mapped) {
    if (rules.only !== undefined && !rules.only.includes(name)) continue
    const own = name === 'groups' ? groupsOf(values, rules) : values
    if (own.length > 0) kept.set(name, own)
  }
  return kept
}

function groupsOf(
  values: readonly string[],
  { groups, groupForm }: IdentityRules,
): readonly string[] {
  const patterns = groups.map(globOf)
  const kept = values.filter(value => patterns.length === 0 || patterns.some(p => p.test(value)))
  const named = groupForm === 'name' ? kept.map(commonName) : kept
  return [...new Set(named)]
}

/** A pattern in which `*` stands for any text. Without case: directories do not know it either. */
function globOf(pattern: string): RegExp {
  const parts = pattern.split('*').map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 'isu')
}

/** The value of the first CN of a distinguished name (RFC 4514); other text as it is. */
function commonName(text: string): string {
  const [, value] = /^\s*cn\s*=((?:[^,\\]|\\.)*)/i.exec(text) ?? []
  return value === undefined ? text : value.replace(/\\(.)/g, '$1').trim()
}
