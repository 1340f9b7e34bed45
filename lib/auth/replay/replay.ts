/**
 * Judges the requests of a log by another configuration, and reports which people it would newly refuse or let in. It does no
 * I/O.
 *
 * # Facts
 * - Requests are judged with the attributes of the login before them. A request may remain undecided when the login of its person, or
 *   one of the attributes, is not in the log.
 * - All rules are judged as enforced, also those that are only watched.
 * - When no login of the log had a value of a rule, the value may be misspelt, or its last person may have left.
 */
import { type AccessRule, matchesPattern, type Person, placeOfRule } from '../access/rules.ts'
import type { Config } from '../config/config.ts'
import { tokenPasses, tryRequest, withoutWatching } from '../gate/trial.ts'
import { type LoggedLogin, type LoggedRequest, LogReader } from './log-reader.ts'

/** A change for a person, and the rule that causes it. */
interface Change {
  readonly who: string
  readonly rule: string
  readonly because: string
  /** One of the requests. */
  readonly example: string
  count: number
}

type Kind = 'refused' | 'login' | 'let in' | 'undecided' | 'watched'

/** The number of different changes that are listed; further ones are only counted. */
const MOST_CHANGES = 10_000

export class Replay {
  readonly #config: Config
  readonly #log = new LogReader()
  readonly #changes = new Map<Kind, Map<string, Change>>()
  /** Values of rules that no login has had so far. */
  #unseen: readonly RuleValue[]
  /** Requests that were judged. */
  judged = 0

  constructor(config: Config) {
    this.#config = withoutWatching(config)
    this.#unseen = (config.access?.rules ?? []).flatMap(valuesOf)
  }

  /** Takes a line of the log, as it stands in a file or as the journal prints it. */
  take(line: string): void {
    const found = this.#log.read(line)
    if (found === undefined) return
    if ('login' in found) this.#signedIn(found)
    else this.#request(found)
  }

  report(): readonly string[] {
    const lines = [`${this.#log.lines} lines, ${this.judged} requests judged`]
    const titles = {
      refused: 'newly refused',
      login: 'newly asked for a login, or for another one',
      'let in': 'newly let in',
      undecided: 'undecided: the log does not say what the rule asks for',
      watched: 'passed, or led to a login, because rules were only watched',
    } as const
    for (const [kind, title] of Object.entries(titles)) {
      const changes = [...(this.#changes.get(kind as Kind)?.values() ?? [])]
      if (kind === 'watched' && changes.length === 0) continue
      lines.push('', `${title}: ${changes.reduce((sum, { count }) => sum + count, 0)} requests`)
      for (const { who, rule, because, example, count } of changes.sort(
        (a, b) => b.count - a.count,
      )) {
        lines.push(`  ${who}: ${count}, such as ${example} (${rule}; ${because})`)
      }
    }
    const asked = (this.#config.access?.rules ?? []).flatMap(valuesOf).map(({ name }) => name)
    const missing = this.#log.missing(asked)
    if (missing !== undefined) lines.push('', missing)
    const unseen = this.unseen()
    if (unseen.length > 0) lines.push('', `in none of the ${this.#log.logins} logins of the log:`)
    for (const { rule, name, value } of unseen) {
      lines.push(`  ${name}: ${value} (${placeOfRule(rule)})`)
    }
    return lines
  }

  /** Values that rules ask for and no login had, of attributes that the log tells of; none when there is no login. */
  unseen(): readonly RuleValue[] {
    if (this.#log.logins === 0) return []
    return this.#unseen.filter(({ name }) => this.#log.told.has(name))
  }

  #signedIn({ login, cut }: LoggedLogin): void {
    this.#seen('users', [login.subject])
    for (const [name, values] of login.attributes) this.#seen(name, values)
    // A list that the log has cut may have had any value.
    for (const name of cut) this.#seen(name, undefined)
  }

  /** Notes the values of an attribute in a login; undefined means that the log does not have all of them. */
  #seen(name: string, values: readonly string[] | undefined): void {
    const isSeen = (wanted: RuleValue) =>
      wanted.name === name && (values?.some(value => matchesPattern(value, wanted.value)) ?? true)
    if (this.#unseen.some(isSeen)) this.#unseen = this.#unseen.filter(value => !isSeen(value))
  }

  #request({ who, person: known, isLetIn: before, now, line, ...asked }: LoggedRequest): void {
    this.judged += 1
    const about = { ...asked, example: `${asked.method} ${asked.path}` }
    const { would, rule, why } = line
    if (would !== undefined) {
      const place = rule === undefined ? 'no rule' : `rule ${String(rule)}`
      const because = `${String(would)}: ${String(why)}`
      this.#note('watched', { who: who ?? '(not signed in)', rule: place, because, ...about })
    }
    if (line['because'] === 'passthrough-token' || line['because'] === 'token-scope') {
      const name = String(line['passthrough'] ?? '')
      const now = tokenPasses(this.#config, name, {
        ...about,
        client: String(line['client'] ?? ''),
      })
      if (now === before) return
      const changed = { who: `token ${name}`, rule: 'passthroughTokens', because: 'its scope' }
      return this.#note(now ? 'let in' : 'refused', { ...changed, ...about })
    }
    // A person whose login is not in the log counts as one without attributes.
    const person =
      who === undefined ? undefined : (known ?? { subject: who, attributes: new Map() })
    const verdict = tryRequest(this.#config, { ...asked, person, now })
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
