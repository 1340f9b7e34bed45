/**
 * Decides by the rules under `access` what a person may do: the first rule whose path and method match. Pure, and linear in the
 * length of what a client sends.
 *
 * # Facts
 * - No rule reads the query except `_method`, and HEAD is judged as GET.
 * - Where any rule restricts, a path that servers read in different ways is refused whatever it begins with; so is one that an
 *   application could take for a path of another rule (path-rule.ts), unless that rule lets the person in as well.
 * - Frameworks take the method from a field (Rails, Laravel, Express, ASP.NET) or from `_method` in the query, of a GET as well
 *   (WordPress; `_HttpMethod` of Salesforce): then both methods have to be allowed. PHP takes a dot or a space in such a name for
 *   the underscore.
 * - A person passes when the rules as written let them in, or the rules without the watched ones: a watched rule allows at once, and refuses
 *   no person. A request without a session passes by the rules as written alone.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import { ownText } from '../../recent.ts'
import { fitsPattern, type WildcardPattern, wildcardPattern } from '../../wildcards.ts'
import { isOverride } from './foreign-names.ts'
import {
  type AskedPath,
  askedPath,
  couldBeFor,
  isFor,
  type PathRule,
  pathRule,
} from './path-rule.ts'

/** One member of `access`. */
export interface AccessRule {
  /** The place of the rule in the list, from 1. */
  readonly number: number
  /** The line of the rule in the configuration file; undefined when the rule does not come from a file. */
  readonly line: number | undefined
  readonly path: PathRule
  /** The methods the rule is for; undefined when it is for all. */
  readonly methods: ReadonlySet<string> | undefined
  readonly allow: AllowedUsers
  /** The requirements for the login; undefined when any login will do. */
  readonly login: LoginNeeds | undefined
  /** The text for a person whom the rule refuses. */
  readonly message: string | undefined
  /** Whether what the rule refuses passes, for a person who is signed in and whom the other rules let in. */
  readonly watched: boolean
}

/** The people a rule allows: a word, or a list of descriptions one of which has to fit. */
export type AllowedUsers = 'nobody' | 'anyone' | 'signed-in' | readonly Description[]

/** Values by the name of an attribute, `users` for the subject. Each attribute has to have one of its values. */
export type Description = ReadonlyMap<string, readonly string[]>

/** The requirements of a rule for the login. */
export interface LoginNeeds {
  /** The person has authenticated at the identity provider within this time; undefined: at any time. */
  readonly maxAge: Milliseconds | undefined
  /** The AuthnContext has to be one of these; an empty list allows any. */
  readonly contexts: readonly string[]
}

export interface AccessRules {
  readonly rules: readonly AccessRule[]
  /** Whether anything is refused to a person who is signed in, or allowed to one who is not. */
  readonly restrict: boolean
  /** The methods that rules name. */
  readonly methods: ReadonlySet<string>
  /** By the first name of a folded path, the rules that could be for such paths, in their order. */
  readonly byFirstName: ReadonlyMap<string, readonly ReadyRule[]>
  /** The rules for paths that begin with none of these names. */
  readonly otherRules: readonly ReadyRule[]
  /** The rules of paths that were asked for before: the same few paths come most of the time. */
  readonly rulesByPath: Map<string, RulesOfPath>
  /** The rules without the watched ones; undefined when none is watched. */
  readonly enforced: AccessRules | undefined
}

/** A rule in the two forms it can have among the candidates of a path. They are made once, so that paths share them. */
interface ReadyRule {
  readonly rule: AccessRule
  readonly deciding: Candidate
  readonly mistakable: Candidate
}

interface Candidate {
  readonly rule: AccessRule
  /** Whether the rule is for the path. */
  readonly decides: boolean
  /** The descriptions of the rule; undefined when it has a word in their place. */
  readonly descriptions: ReadonlyArray<readonly Needed[]> | undefined
  readonly allowed: Decision
}

/** One of the patterns is to fit one of the values of an attribute. */
interface Needed {
  readonly name: string
  readonly patterns: readonly WildcardPattern[]
}

/** The rules that concern a path, for any person and any method. */
interface RulesOfPath {
  readonly ambiguous: boolean
  /** The rules for the path and the rules whose path an application could take it for, in the order of the list. */
  readonly candidates: readonly Candidate[]
}

/** The parts of a request that rules look at. */
interface AccessQuestion {
  readonly method: string
  /** The path as it is forwarded, without the query. */
  readonly path: string
  /** Further methods that fields of the request name. */
  readonly alsoMethods: readonly string[]
}

/** The parts of a session that rules look at. */
export interface Person {
  /** The value of X-Authproxy-User. */
  readonly subject: string
  /** The attributes by canonical name (config/claims.ts), without empty ones. The groups are the attribute `groups`. */
  readonly attributes: ReadonlyMap<string, readonly string[]>
  /**
   * The moment and the method of the person's authentication, when the identity provider names them (AuthnInstant,
   * AuthnContextClassRef).
   */
  readonly authnInstant?: Milliseconds | undefined
  readonly authnContext?: string | undefined
}

/** What the rules say. `would` is what they would say if none were watched, where that is worse for the client. */
export type AccessVerdict = Decision & { readonly would?: WatchedDecision | undefined }

/** What a watched rule would do to a request that passes, or is only led to a login. */
export type WatchedDecision = Extract<Decision, { verdict: 'refused' | 'ambiguous' | 'step-up' }>

/** `rule` is the one that decided; undefined when none is for the request. */
type Decision =
  | { readonly verdict: 'allowed'; readonly rule: AccessRule }
  /** The person has to sign in first. */
  | { readonly verdict: 'login'; readonly rule: AccessRule | undefined }
  /** The login is too old, or of another context. */
  | { readonly verdict: 'step-up'; readonly rule: AccessRule; readonly because: 'age' | 'context' }
  | {
      readonly verdict: 'refused'
      readonly rule: AccessRule | undefined
      readonly because: 'no-rule' | 'nobody' | 'not-among'
    }
  /** Servers read the path, or the method, in different ways. */
  | {
      readonly verdict: 'ambiguous'
      readonly rule: AccessRule | undefined
      readonly because: 'path' | 'spelling' | 'method'
    }

/** The verdicts that a new login does not change. */
export type AccessRefusal = Extract<AccessVerdict, { verdict: 'refused' | 'ambiguous' }>

/** The rules out of a list. With `otherwise: 'watch'`, also what no rule is for passes for a person who is signed in. */
export function accessRules(
  rules: readonly AccessRule[],
  otherwise: 'always' | 'watch' = 'always',
): AccessRules {
  const plain = ({ allow, login, methods }: AccessRule) =>
    allow === 'signed-in' && login === undefined && methods === undefined
  const all = rules.some(rule => plain(rule) && rule.path.written === '/')
  const names = new Set(rules.map(({ path }) => firstName(path.folded)))
  const ready = rules.map(readyRule)
  const of = (name: string) =>
    ready.filter(({ rule }) => ['', name].includes(firstName(rule.path.folded)))
  return {
    rules,
    restrict: !all || !rules.every(plain),
    methods: new Set(rules.flatMap(({ methods = [] }) => [...methods])),
    byFirstName: new Map([...names].map(name => [name, of(name)])),
    otherRules: of(''),
    rulesByPath: new Map(),
    enforced: enforcedOf(rules, otherwise),
  }
}

function enforcedOf(rules: readonly AccessRule[], otherwise: 'always' | 'watch') {
  if (otherwise === 'always' && !rules.some(({ watched }) => watched)) return undefined
  const rest = rules.filter(({ watched }) => !watched)
  if (otherwise === 'always') return accessRules(rest)
  // They are asked about people who are signed in, and a rule for visitors restricts nothing for these.
  const forPeople = rest.map(rule => {
    return rule.allow === 'anyone' ? ({ ...rule, allow: 'signed-in' } as const) : rule
  })
  return accessRules([...forPeople, ALL_SIGNED_IN])
}

/** Stands behind the enforced rules where all others are only watched. */
const ALL_SIGNED_IN: AccessRule = {
  number: 0,
  line: undefined,
  path: pathRule('/'),
  methods: undefined,
  allow: 'signed-in',
  login: undefined,
  message: undefined,
  watched: false,
}

function readyRule(rule: AccessRule): ReadyRule {
  const descriptions =
    typeof rule.allow === 'string'
      ? undefined
      : rule.allow.map(description =>
          [...description].map(([name, texts]) => ({ name, patterns: texts.map(wildcardPattern) })),
        )
  const common = { rule, descriptions, allowed: { verdict: 'allowed', rule } } as const
  return {
    rule,
    deciding: { ...common, decides: true },
    mistakable: { ...common, decides: false },
  }
}

/** The first name of a folded path; empty for that of the root. */
function firstName(folded: string): string {
  const end = folded.indexOf('/', 1)
  return folded.slice(1, end === -1 ? undefined : end)
}

/** Judges what a request asks for, of a person or, when undefined, of one who is not signed in. */
export function judgeAccess(
  access: AccessRules,
  wanted: AccessQuestion,
  { person, now }: { readonly person: Person | undefined; readonly now: Milliseconds },
): AccessVerdict {
  const written = judgeWritten(access, wanted, person, now)
  if (access.enforced === undefined || written.verdict === 'allowed') return written
  // The login of a person whom a watched rule may refuse is any login.
  if (written.verdict === 'login') {
    return written.rule?.watched ? { verdict: 'login', rule: undefined } : written
  }
  const enforced = judgeWritten(access.enforced, wanted, person, now)
  const isStepUp = written.verdict === 'step-up'
  if (enforced.verdict === 'refused' || enforced.verdict === 'ambiguous') {
    return isStepUp ? written : enforced
  }
  // Whatever the enforced rules say: no request without a session passes by them.
  if (person === undefined) return { verdict: 'login', rule: undefined, would: written }
  return isStepUp && enforced.verdict === 'step-up' ? enforced : { ...enforced, would: written }
}

function judgeWritten(
  access: AccessRules,
  wanted: AccessQuestion,
  person: Person | undefined,
  now: Milliseconds,
): Decision {
  const { ambiguous, candidates } = rulesOf(access, wanted.path)
  if (ambiguous) return { verdict: 'ambiguous', rule: undefined, because: 'path' }
  const verdict = verdictAmong(candidates, wanted.method, person, now)
  if (verdict.verdict !== 'allowed') return verdict
  for (const method of wanted.alsoMethods) {
    const other = verdictAmong(candidates, method, person, now)
    if (other.verdict === 'allowed') continue
    return { verdict: 'ambiguous', rule: other.rule, because: 'method' }
  }
  return verdict
}

/**
 * Whether a method of a path is open to no person at all: no rule is for it, one lets no person in, or an application could take
 * the path for one of those.
 */
export function isClosed(access: AccessRules, method: string, path: string): boolean {
  const { ambiguous, candidates } = rulesOf(access, path)
  if (ambiguous) return true
  for (const { rule, decides } of candidates) {
    if (!isForMethod(rule, method)) continue
    if (rule.allow === 'nobody') return true
    if (decides) return false
  }
  return true
}

/** The rules that concern a path. The table remembers them for paths of usual length, up to a fixed number of paths. */
function rulesOf(access: AccessRules, path: string): RulesOfPath {
  const { rulesByPath } = access
  const before = rulesByPath.get(path)
  if (before !== undefined) return before
  const found = findRules(access, askedPath(path))
  if (path.length > LONGEST_KNOWN) return found
  if (rulesByPath.size >= MOST_KNOWN) rulesByPath.clear()
  rulesByPath.set(ownText(path), found)
  return found
}

const MOST_KNOWN = 1000
const LONGEST_KNOWN = 200

function findRules({ byFirstName, otherRules, restrict }: AccessRules, path: AskedPath) {
  const candidates: Candidate[] = []
  if (restrict && path.ambiguous) return { ambiguous: true, candidates }
  for (const ready of byFirstName.get(firstName(path.folded)) ?? otherRules) {
    const decides = isFor(ready.rule.path, path)
    if (decides) candidates.push(ready.deciding)
    else if (couldBeFor(ready.rule.path, path)) candidates.push(ready.mistakable)
    if (decides && ready.rule.methods === undefined) break
  }
  return { ambiguous: false, candidates }
}

function isForMethod({ methods }: AccessRule, method: string): boolean {
  return methods === undefined || methods.has(method === 'HEAD' ? 'GET' : method)
}

/** What the first rule says that is for path and method, and those before it that an application could mean instead. */
function verdictAmong(
  candidates: readonly Candidate[],
  method: string,
  person: Person | undefined,
  now: Milliseconds,
): Decision {
  let stricter: AccessRule | undefined
  for (const candidate of candidates) {
    const { rule, decides } = candidate
    if (!isForMethod(rule, method)) continue
    const verdict = verdictOf(candidate, person, now)
    if (decides) {
      if (stricter === undefined || verdict.verdict !== 'allowed') return verdict
      return { verdict: 'ambiguous', rule: stricter, because: 'spelling' }
    }
    if (verdict.verdict !== 'allowed') stricter ??= rule
  }
  return { verdict: 'refused', rule: undefined, because: 'no-rule' }
}

function verdictOf(
  { rule, descriptions, allowed }: Candidate,
  person: Person | undefined,
  now: Milliseconds,
): Decision {
  const { allow, login } = rule
  if (allow === 'nobody') return { verdict: 'refused', rule, because: 'nobody' }
  if (allow === 'anyone') return allowed
  if (person === undefined) return { verdict: 'login', rule }
  if (descriptions !== undefined && !isAmong(descriptions, person)) {
    return { verdict: 'refused', rule, because: 'not-among' }
  }
  const because = login === undefined ? undefined : whyNotFulfilled(login, person, now)
  return because === undefined ? allowed : { verdict: 'step-up', rule, because }
}

/** Whether a person has one of the values of each attribute of a description. One without attributes describes no person. */
function isAmong(descriptions: ReadonlyArray<readonly Needed[]>, person: Person): boolean {
  return descriptions.some(
    needs => needs.length > 0 && needs.every(needed => hasOneOf(needed, person)),
  )
}

function hasOneOf({ name, patterns }: Needed, { subject, attributes }: Person): boolean {
  if (name === 'users') return isOneOf(subject, patterns)
  return attributes.get(name)?.some(value => isOneOf(value, patterns)) ?? false
}

function isOneOf(value: string, patterns: readonly WildcardPattern[]): boolean {
  return patterns.some(pattern => fitsPattern(value, pattern))
}

/** Whether a value is the text of a pattern, in which `*` stands for any text, none included. */
export function matchesPattern(value: string, pattern: string): boolean {
  return fitsPattern(value, wildcardPattern(pattern))
}

/** Why a login is not like a rule needs it; undefined when it is. What the identity provider did not say counts as unfulfilled. */
export function whyNotFulfilled(
  { maxAge, contexts }: LoginNeeds,
  { authnInstant, authnContext }: Pick<Person, 'authnInstant' | 'authnContext'>,
  now: Milliseconds,
): 'age' | 'context' | undefined {
  if (maxAge !== undefined && !(now - (authnInstant ?? Number.NEGATIVE_INFINITY) < maxAge)) {
    return 'age'
  }
  const other = contexts.length > 0 && !contexts.includes(authnContext ?? '')
  return other ? 'context' : undefined
}

/** The methods and the path that a request with these fields asks for. */
export function wantedBy(
  { method, fields }: { readonly method: string; readonly fields: Fields },
  { path, query }: { readonly path: string; readonly query?: string | undefined },
  { methods }: AccessRules,
): AccessQuestion {
  if (methods.size === 0) return { method, path, alsoMethods: NONE }
  const named = namedMethods(fields, query)
  if (named.length === 0) return { method, path, alsoMethods: NONE }
  // When a request names too many methods, all that rules name are judged, and one that no rule names.
  const alsoMethods = named.length > MOST_NAMED ? [...methods, 'OTHER'] : named
  return { method, path, alsoMethods }
}

const NONE: readonly string[] = []
const MOST_NAMED = 10

/** The methods that fields and query of a request name apart from that of its first line, each once. */
export function namedMethods(fields: Fields, query: string | undefined): readonly string[] {
  let named = query === undefined ? undefined : methodsInQuery(query)
  const { flat } = fields
  for (let i = 0; i < flat.length; i += 2) {
    if (!isOverride(flat[i] ?? '')) continue
    named ??= []
    for (const word of wordsOf(flat[i + 1] ?? '')) named.push(word)
  }
  return named === undefined ? NONE : [...new Set(named)]
}

function methodsInQuery(query: string): string[] | undefined {
  // Most queries have neither the word nor an escaped character, so they need no parsing.
  if (!/method|%/i.test(query)) return undefined
  return query.split(/[&;]/).flatMap(pair => {
    const [name = '', value = ''] = pair.replaceAll('+', ' ').split(/=(.*)/s, 2).map(unescaped)
    return IN_QUERY.test(name) ? wordsOf(value) : []
  })
}

function wordsOf(value: string): readonly string[] {
  return value.toUpperCase().match(/[A-Z]+/g) ?? []
}

/** `_method` and `_HttpMethod`, and the names of the fields. A bare `method` is an argument like any other. */
const IN_QUERY =
  /^(?:[^a-z0-9]+(?:http)?method|(?:x[^a-z0-9])?(?:http[^a-z0-9])?method[^a-z0-9]?override|x[^a-z0-9]http[^a-z0-9]method)$/i

/** The text with its escapes of ASCII decoded. The names of methods need no others. */
function unescaped(text: string): string {
  return text.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** The values that would have let a person in, for the page of a refusal: `ops, admins; IT`. One text for each description. */
export function neededValues(allow: AllowedUsers): readonly string[] {
  if (typeof allow === 'string') return []
  return allow.map(description =>
    [...description.values()].map(values => values.join(', ')).join('; '),
  )
}

/** The rules in words, for administrators and programs: `groups: ops, admins; department: IT`. One text for each description. */
export function neededText(allow: AllowedUsers): readonly string[] {
  if (typeof allow === 'string') return []
  return allow.map(description =>
    [...description].map(([name, values]) => `${name}: ${values.join(', ')}`).join('; '),
  )
}

/** Where a rule stands, for people: `rule 3, line 17`. */
export function placeOfRule(rule: AccessRule | undefined): string {
  if (rule === undefined) return 'no rule'
  if (rule === ALL_SIGNED_IN) return 'accessEnforce: watch'
  return rule.line === undefined ? `rule ${rule.number}` : `rule ${rule.number}, line ${rule.line}`
}
