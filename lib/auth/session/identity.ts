/**
 * Chooses the subject and the attributes of a session from a verified assertion.
 *
 * Remembers which attributes of the last login nothing read, by name and without values. An administrator who names them otherwise than we
 * do, in other capitals for instance, sees nothing of that otherwise: the user has no groups, and rules refuse.
 */

import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { SamlAttribute, VerifiedSubject } from '../../saml/subject.ts'
import { nameIdFormats } from '../../saml/xml/vocabulary.ts'
import { trimXml } from '../../saml/xml/xml.ts'
import { matchesPattern } from '../access/rules.ts'
import { mapClaims, readerOf } from '../config/claims.ts'
import type { Config } from '../config/config.ts'
import type { GroupTable } from './group-names.ts'

type Rules = Config['identity']

export interface Identity {
  readonly subject: string
  /** The source of the subject. A transient NameID changes at every login. */
  readonly from: 'email' | 'sAMAccountName' | 'nameId' | 'transient-nameId'
  readonly attributes: ReadonlyMap<string, readonly string[]>
}

/** The reason why an assertion gives no identity. */
export type NoIdentity = 'no-subject' | 'unfit-subject'

/** The identity, or why there is none; `table` has names for groups. The subject is the first that is not empty of: email, sAMAccountName, NameID. */
export function identityOf(
  verified: VerifiedSubject,
  rules: Rules,
  table?: GroupTable,
): Identity | NoIdentity {
  const named = mapClaims(verified.attributes, rules, false)
  const nameId = trimXml(verified.nameId?.value ?? '')
  const candidates = [
    ['email', named.get('email')?.[0]],
    ['sAMAccountName', named.get('sAMAccountName')?.[0]],
    [verified.nameId?.format === nameIdFormats.transient ? 'transient-nameId' : 'nameId', nameId],
  ] as const
  for (const [from, subject] of candidates) {
    if (subject === undefined || subject === '') continue
    // Applications drop or replace such characters in different ways, so that two subjects could become one.
    if (UNFIT.test(subject)) return 'unfit-subject'
    const mapped = mapClaims(verified.attributes, rules, true)
    return { subject, from, attributes: keptOf(mapped, rules, table) }
  }
  return 'no-subject'
}

/** Control characters, surrogates, and all white space other than the plain space, zero-width characters included. */
const UNFIT = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u200b\u2060\ufeff]|(?! )\p{Zs}/u

function keptOf(
  mapped: ReadonlyMap<string, readonly string[]>,
  rules: Rules,
  table: GroupTable | undefined,
): ReadonlyMap<string, readonly string[]> {
  const kept = new Map<string, readonly string[]>()
  for (const [name, values] of mapped) {
    if (rules.only !== undefined && !rules.only.includes(name)) continue
    const own = name === 'groups' ? groupsOf(values, rules, table) : values
    if (own.length > 0) kept.set(name, own)
  }
  return kept
}

/** The groups by their names in the table, and of the others those that match the patterns, in the form of the settings. */
function groupsOf(
  values: readonly string[],
  { groups, groupForm }: Rules,
  table: GroupTable | undefined,
): readonly string[] {
  const isKept = (value: string) =>
    groups.length === 0 || groups.some(pattern => matchesPattern(value, pattern))
  const named = values.flatMap(value => {
    const name = table?.names.get(value.toLowerCase())
    if (!isKept(name ?? value)) return []
    if (name !== undefined) return [name]
    const own = groupForm === 'name' ? commonName(value) : value
    return table?.given.has(own.toLowerCase()) === true ? [] : [own]
  })
  return [...new Set(named)]
}

/** The value of the first CN of a distinguished name (RFC 4514); other text as it is. */
function commonName(text: string): string {
  const [, value] = /^\s*cn\s*=((?:[^,\\]|\\.)*)/i.exec(text) ?? []
  return value === undefined ? text : trimXml(value.replace(/\\(.)/g, '$1'))
}

/** Whether a subject can be the user of Basic credentials (RFC 7617 section 2). */
export function mayBeBasicUser(subject: string): boolean {
  return !/[:\p{Cc}]/u.test(subject)
}

/** An attribute that nothing reads. */
export interface UnreadAttribute {
  readonly name: string
  /** The canonical name under which it would be read with `identity.looseNames`; undefined when it is like none. */
  readonly like: string | undefined
}

/** The most names of one login, and the most characters of each. */
const MOST_UNREAD = 30
const LONGEST_NAME = 200

/** The time between two lines of the log with names. */
const INTERVAL: Milliseconds = 60_000

/** The attributes with a value that nothing reads, each name once. */
export function unreadAttributes(
  attributes: readonly SamlAttribute[],
  rules: Pick<Config['identity'], 'claims' | 'looseNames'>,
): readonly UnreadAttribute[] {
  const reader = readerOf(rules)
  const unread = new Map<string, UnreadAttribute>()
  for (const attribute of attributes) {
    if (unread.size >= MOST_UNREAD || reader.reads(attribute)) continue
    const name = attribute.name.slice(0, LONGEST_NAME)
    unread.set(name, { name, like: reader.like(attribute.name) })
  }
  return [...unread.values()]
}

/** The memory of the last login. */
export class UnreadAttributes {
  readonly #clock: Clock
  #last: readonly UnreadAttribute[] = []
  #lastLogged: Milliseconds = Number.NEGATIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The attributes of the last login. */
  get last(): readonly UnreadAttribute[] {
    return this.#last
  }

  /** Takes those of a login. Answers the names for its line in the log, once a minute. */
  take(unread: readonly UnreadAttribute[]): readonly string[] | undefined {
    this.#last = unread
    const now = this.#clock.elapsed()
    if (unread.length === 0 || now - this.#lastLogged < INTERVAL) return undefined
    this.#lastLogged = now
    return unread.map(({ name }) => name)
  }
}

/** Names as text: `Groups (like groups), Shoe`. */
export function unreadText(unread: readonly UnreadAttribute[]): string {
  return unread
    .map(({ name, like }) => (like === undefined ? name : `${name} (like ${like})`))
    .join(', ')
}
