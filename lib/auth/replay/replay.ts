/**
 * Judges the requests of a log by another configuration, and reports which people it would newly refuse or let in. It does no
 * I/O.
 *
 * # Facts
 * - A line `signed in` has the groups of the person, and the other attributes that rules named then, where `log.groups` was on; the
 *   requests behind it are judged with them. A request may remain undecided when the login of its person, or one of the attributes, is not in the log.
 * - The log has no method that a field names, so that is not judged.
 * - When no login of the log had a value of a rule, the value may be misspelt, or its last person may have left.
 * - Lines in the journal have no time of their own. Without the time that the journal prints, the age of a login is unknown.
 */
import { isRecord, type JsonObject, parsedJson } from '../../json.ts'
import { type AccessRule, matchesPattern, type Person, placeOfRule } from '../access/rules.ts'
import type { Config } from '../config/config.ts'
import { tokenPasses, tryRequest } from '../gate/trial.ts'

/** A change for a person, and the rule that causes it. */
interface Change {
  readonly who: string
  readonly rule: string
  readonly because: string
  /** One of the requests. */
  readonly example: string
  count: number
}

type Kind = 'refused' | 'login' | 'let in' | 'undecided'

/** The number of different changes that are listed; further ones are only counted. */
const MOST_CHANGES = 10_000
/** People whose logins are remembered. */
const MOST_PEOPLE = 200_000

export class Replay {
  readonly #config: Config
  /** The newest login of each subject. */
  readonly #people = new Map<string, Person>()
  readonly #changes = new Map<Kind, Map<string, Change>>()
  /** Values of rules that no login has had so far. */
  #unseen: readonly RuleValue[]
  /** The attributes that were in the logins of the log. */
  readonly #told = new Set(['users'])
  #logins = 0
  /** Lines that were read, and requests that were judged. */
  lines = 0
  judged = 0

  constructor(config: Config) {
    this.#config = config
    this.#unseen = (config.access?.rules ?? []).flatMap(valuesOf)
  }

  /** Takes a line of the log, as it stands in a file or as the journal prints it. */
  take(line: string): void {
    this.lines += 1
    const at = line.indexOf('{')
    if (at === -1) return
    const found = parsedJson(line.slice(at))
    if (!isRecord(found)) return
    if (found['message'] === 'signed in') this.#signedIn(found)
    else if (found['message'] === 'request')
      this.#request(found, momentOf(found, line.slice(0, at)))
  }

  report(): readonly string[] {
    const lines = [`${this.lines} lines, ${this.judged} requests judged`]
    const titles = {
      refused: 'newly refused',
      login: 'newly asked for a login, or for another one',
      'let in': 'newly let in',
      undecided: 'undecided: the log does not say what the rule asks for',
    } as const
    for (const [kind, title] of Object.entries(titles)) {
      const changes = [...(this.#changes.get(kind as Kind)?.values() ?? [])]
      lines.push('', `${title}: ${changes.reduce((sum, { count }) => sum + count, 0)} requests`)
      for (const { who, rule, because, example, count } of changes.sort(
        (a, b) => b.count - a.count,
      )) {
        lines.push(`  ${who}: ${count}, such as ${example} (${rule}; ${because})`)
      }
    }
    const missing = this.#missing()
    if (missing.length > 0) {
      lines.push(
        '',
        `no login of the log has ${missing.join(', ')}: set log.groups: true, and judge a log that is written from then on`,
      )
    }
    const unseen = this.unseen()
    if (unseen.length > 0) lines.push('', `in none of the ${this.#logins} logins of the log:`)
    for (const { rule, name, value } of unseen) {
      lines.push(`  ${name}: ${value} (${placeOfRule(rule)})`)
    }
    return lines
  }

  /** Attributes that rules ask for and that none of the logins in the log has. */
  #missing(): readonly string[] {
    const asked = (this.#config.access?.rules ?? []).flatMap(valuesOf).map(({ name }) => name)
    const missing = this.#logins === 0 ? [] : asked.filter(name => !this.#told.has(name))
    return [...new Set(missing)]
  }

  /** Values that rules ask for and no login had, of attributes that the log tells of; none when there is no login. */
  unseen(): readonly RuleValue[] {
    if (this.#logins === 0) return []
    return this.#unseen.filter(({ name }) => this.#told.has(name))
  }

  #signedIn(line: JsonObject): void {
    const { subject, attributes, authnInstant, authnContext } = line
    if (typeof subject !== 'string') return
    const known = new Map<string, readonly string[]>()
    for (const [name, values] of Object.entries(isRecord(attributes) ? attributes : {})) {
      if (!Array.isArray(values)) continue
      const texts = values.filter(value => typeof value === 'string')
      this.#told.add(name)
      // A list that the log has cut may have had any value.
      if (values.length >= LONGEST_LIST) this.#seen(name, undefined)
      else {
        this.#seen(name, texts)
        known.set(name, texts)
      }
    }
    this.#logins += 1
    this.#seen('users', [subject])
    if (this.#people.size >= MOST_PEOPLE) this.#people.clear()
    this.#people.set(subject, {
      subject,
      attributes: known,
      authnInstant: typeof authnInstant === 'string' ? Date.parse(authnInstant) : undefined,
      authnContext: typeof authnContext === 'string' ? authnContext : undefined,
    })
  }

  /** Notes the values of an attribute in a login; undefined means that the log does not have all of them. */
  #seen(name: string, values: readonly string[] | undefined): void {
    const isSeen = (wanted: RuleValue) =>
      wanted.name === name && (values?.some(value => matchesPattern(value, wanted.value)) ?? true)
    if (this.#unseen.some(isSeen)) this.#unseen = this.#unseen.filter(value => !isSeen(value))
  }

  #request(line: JsonObject, now: number): void {
    const { method, target, user, client } = line
    const before = wasLetIn(line)
    if (before === undefined || typeof method !== 'string' || typeof target !== 'string') return
    const path = pathOf(target)
    if (path === undefined) return
    this.judged += 1
    const about = { method, path, example: `${method} ${path}` }
    if (line['because'] === 'passthrough-token' || line['because'] === 'token-scope') {
      const name = String(line['passthrough'] ?? '')
      const now = tokenPasses(this.#config, name, { ...about, client: String(client ?? '') })
      if (now === before) return
      const changed = { who: `token ${name}`, rule: 'passthroughTokens', because: 'its scope' }
      return this.#note(now ? 'let in' : 'refused', { ...changed, ...about })
    }
    const who = typeof user === 'string' ? user : undefined
    // A person whose login is not in the log counts as one without attributes.
    const person =
      who === undefined
        ? undefined
        : (this.#people.get(who) ?? { subject: who, attributes: new Map() })
    const verdict = tryRequest(this.#config, { method, path, person, now })
    if (verdict.is === 'own') return
    const { access, because } = verdict
    const change = { who: who ?? '(not signed in)', rule: placeOfRule(access?.rule), because }
    if ((verdict.is === 'passes') === before) return
    if (!before) return this.#note('let in', { ...change, ...about })
    if (isUndecided(verdict, person, now)) return this.#note('undecided', { ...change, ...about })
    this.#note(verdict.is === 'login' ? 'login' : 'refused', { ...change, ...about })
  }

  #note(kind: Kind, { who, rule, because, example }: Omit<Change, 'count'>): void {
    const changes = this.#changes.get(kind) ?? new Map<string, Change>()
    this.#changes.set(kind, changes)
    const full = changes.size >= MOST_CHANGES
    const named = full ? { who: '(others)', rule: '', because: '' } : { who, rule, because }
    const key = JSON.stringify([named.who, named.rule, named.because])
    const known = changes.get(key)
    if (known === undefined) changes.set(key, { ...named, example, count: 1 })
    else known.count += 1
  }
}

/** A value that a rule asks for, of an attribute, or of `users`. */
interface RuleValue {
  readonly rule: AccessRule
  readonly name: string
  readonly value: string
}

function valuesOf(rule: AccessRule): readonly RuleValue[] {
  if (typeof rule.allow === 'string') return []
  return rule.allow.flatMap(description =>
    [...description].flatMap(([name, values]) => values.map(value => ({ rule, name, value }))),
  )
}

/** Members of a list that the log writes at most (log/redact.ts). */
const LONGEST_LIST = 100

/** Whether a request reached the backend, or was to; undefined where neither rules nor a login decided. */
function wasLetIn({ outcome, because, category, user }: JsonObject): boolean | undefined {
  switch (outcome) {
    case 'forwarded':
    case 'tunnelled':
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

/** The path in the target of a line; undefined when there is none. */
function pathOf(target: string): string | undefined {
  const from = target.startsWith('http') && target.includes('://') ? target.indexOf('://') + 3 : 0
  const slash = target.indexOf('/', from)
  return slash === -1 ? undefined : target.slice(slash).split('?', 1)[0]
}

/** Whether what the rule asks for is not in the log, so that a refusal says nothing. */
function isUndecided(
  { access }: ReturnType<typeof tryRequest>,
  person: Person | undefined,
  now: number,
): boolean {
  if (person === undefined || access === undefined) return false
  if (access.verdict === 'step-up') {
    const timeless = access.because === 'age' && Number.isNaN(now)
    return timeless || person.authnInstant === undefined
  }
  if (access.verdict !== 'refused' && access.verdict !== 'ambiguous') return false
  const allow = access.rule?.allow
  if (allow === undefined || typeof allow === 'string') return false
  const asked = allow.flatMap(description => [...description.keys()])
  return asked.some(name => name !== 'users' && !person.attributes.has(name))
}
