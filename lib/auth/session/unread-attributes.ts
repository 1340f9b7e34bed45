/**
 * Remembers which attributes of the last login nothing read, by name. An administrator who names them otherwise than we do, in other
 * capitals for instance, sees nothing of that otherwise: the user has no groups, and rules refuse. Values are never kept.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { SamlAttribute } from '../../saml/subject.ts'
import { readerOf } from '../config/claims.ts'
import type { Config } from '../config/config.ts'

/** An attribute that nothing reads. */
export interface UnreadAttribute {
  readonly name: string
  /** The canonical name under which it would be read with `identity.looseNames`; undefined when it is like none. */
  readonly like: string | undefined
}

/** The most names of one login, and the most characters of each. */
const MOST = 30
const LONGEST = 200

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
    if (unread.size >= MOST || reader.reads(attribute)) continue
    const name = attribute.name.slice(0, LONGEST)
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
