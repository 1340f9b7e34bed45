/**
 * Reads the log of an instance for what judges it: who has signed in, and which requests passed or were refused. It does no I/O.
 *
 * # Facts
 * - A line `signed in` has the groups of the person, and the other attributes that rules named then, where `log.groups` was on.
 * - The log has no method that a field names, so that is not judged.
 * - Lines in the journal have no time of their own. Without the time that the journal prints, the age of a login is unknown.
 * - A line `check` is about a request that an edge has asked about.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { isRecord, type JsonObject, parsedJson } from '../../json.ts'
import type { Place } from '../access/own-origin.ts'
import type { Person } from '../access/rules.ts'

export interface LoggedRequest extends Place {
  readonly method: string
  /** The user; undefined for a request without a session. */
  readonly who: string | undefined
  /** The person as of the newest login in the log; undefined when the log has none. */
  readonly person: Person | undefined
  /** Whether it reached the backend, or was to. */
  readonly isLetIn: boolean
  /** NaN when the log does not say it. */
  readonly now: Milliseconds
  readonly line: JsonObject
}

export interface LoggedLogin {
  readonly login: Person
  /** The attributes of which the log has not all values. */
  readonly cut: readonly string[]
}

/** People whose logins are remembered. */
const MOST_PEOPLE = 200_000

/** Members of a list that the log writes at most (log/redact.ts). */
const LONGEST_LIST = 100

export class LogReader {
  /** The newest login of each subject. */
  readonly #people = new Map<string, Person>()
  /** The attributes that were in the logins of the log. */
  readonly told = new Set(['users'])
  logins = 0
  lines = 0

  /** Reads a line, as it stands in a file or as the journal prints it; undefined for one that says nothing of this. */
  read(line: string): LoggedLogin | LoggedRequest | undefined {
    this.lines += 1
    const at = line.indexOf('{')
    if (at === -1) return undefined
    const found = parsedJson(line.slice(at))
    if (!isRecord(found)) return undefined
    const { message } = found
    if (message === 'signed in') return this.#signedIn(found)
    const isAsked = message === 'request' || message === 'check'
    return isAsked ? this.#request(found, momentOf(found, line.slice(0, at))) : undefined
  }

  /** The sentence that says which attributes no login of the log has; undefined when none of these is missing. */
  missing(names: readonly string[]): string | undefined {
    const missing = this.logins === 0 ? [] : names.filter(name => !this.told.has(name))
    return missing.length === 0
      ? undefined
      : `no login of the log has ${[...new Set(missing)].join(', ')}: set log.groups: true, and judge a log that is written from then on`
  }

  #signedIn(line: JsonObject): LoggedLogin | undefined {
    const { subject, attributes, authnInstant, authnContext } = line
    if (typeof subject !== 'string') return undefined
    const known = new Map<string, readonly string[]>()
    const cut: string[] = []
    for (const [name, values] of Object.entries(isRecord(attributes) ? attributes : {})) {
      if (!Array.isArray(values)) continue
      const texts = values.filter(value => typeof value === 'string')
      this.told.add(name)
      if (values.length >= LONGEST_LIST) cut.push(name)
      else known.set(name, texts)
    }
    this.logins += 1
    if (this.#people.size >= MOST_PEOPLE) this.#people.clear()
    const login = {
      subject,
      attributes: known,
      authnInstant: typeof authnInstant === 'string' ? Date.parse(authnInstant) : undefined,
      authnContext: typeof authnContext === 'string' ? authnContext : undefined,
    }
    this.#people.set(subject, login)
    return { login, cut }
  }

  #request(line: JsonObject, now: Milliseconds): LoggedRequest | undefined {
    const { method, target, user } = line
    const isLetIn = wasLetIn(line)
    if (isLetIn === undefined || typeof method !== 'string' || typeof target !== 'string') {
      return undefined
    }
    const place = placeIn(target)
    if (place === undefined) return undefined
    const who = typeof user === 'string' ? user : undefined
    const person = who === undefined ? undefined : this.#people.get(who)
    return { method, ...place, who, person, isLetIn, now, line }
  }
}

/** Whether a request reached the backend, or was to; undefined where neither rules nor a login decided. */
function wasLetIn({ outcome, because, category, user }: JsonObject): boolean | undefined {
  switch (outcome) {
    case 'forwarded':
    case 'tunnelled':
    case 'allowed':
      // A preflight is judged by no session.
      return because === 'preflight' ? undefined : true
    case 'failed':
      return category === 'PROXY-ERROR' && user !== undefined ? true : undefined
    case 'refused':
      return because === 'access' ? false : undefined
    case 'login':
      return false
    case 'unauthenticated':
      return /^token-(?!scope)/.test(String(because)) ? undefined : false
    default:
      return undefined
  }
}

/** The moment of a line: its own, or that which the journal prints before it (`-o short-iso`); NaN when neither says it. */
function momentOf({ time }: JsonObject, before: string): number {
  return Date.parse(typeof time === 'string' ? time : (before.split(' ', 1)[0] ?? ''))
}

/** Path and query in the target of a line; undefined when there is no path. */
function placeIn(target: string): Place | undefined {
  const [before = '', query] = target.split(/\?(.*)/s, 2)
  const from = /^https?:\/\//.exec(before)?.[0].length ?? 0
  const slash = before.indexOf('/', from)
  return slash === -1 ? undefined : { path: before.slice(slash), query }
}
