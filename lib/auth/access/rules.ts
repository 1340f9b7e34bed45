/**
 * Decides by the rules under `access` what a person may do: the first rule whose path and method match. Pure, and linear in the
 * length of what a client sends.
 *
 * # Facts
 * - No rule reads the query but for `_method`, and HEAD is judged as GET.
 * - Where any rule restricts, a path that servers read in different ways is refused whatever it begins with; so is one that an
 *   application could take for a path of another rule (path-rule.ts), unless that rule lets the person in as well.
 * - Frameworks take the method from a field (Rails, Laravel, Express, ASP.NET) or from `_method` in the query, of a GET as well
 *   (WordPress; `_HttpMethod` of Salesforce): then both methods have to be allowed. PHP takes a dot or a space in such a name for
 *   the underscore.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Session } from '../session/token.ts'
import { type AskedPath, askedPath, couldBeFor, isFor, type PathRule } from './path-rule.ts'

/** One member of `access`. */
export interface AccessRule {
  /** Its place in the list, from 1. */
  readonly number: number
  /** Its line in the file; undefined when it came from none. */
  readonly line: number | undefined
  readonly path: PathRule
  /** Undefined: all. */
  readonly methods: ReadonlySet<string> | undefined
  readonly allow: Allowed
  /** What the login has to be like; undefined: any. */
  readonly login: LoginNeeds | undefined
  /** What a person reads who is refused. */
  readonly message: string | undefined
}

/** Who is allowed: a word, or a list of descriptions of which one has to fit. */
export type Allowed = 'nobody' | 'anyone' | 'signed-in' | readonly Description[]

/** Values by the name of an attribute, `users` for the subject. Each attribute has to have one of its values. */
export type Description = ReadonlyMap<string, readonly string[]>

/** What a login has to be like. */
export interface LoginNeeds {
  /** The person has authenticated at the identity provider within this time; undefined: at any time. */
  readonly maxAge: Milliseconds | undefined
  /** One of these is the AuthnContext; none: any is. */
  readonly contexts: readonly string[]
}

/** The rules of an instance. */
export interface AccessRules {
  readonly rules: readonly AccessRule[]
  /** Whether anything is refused to a person who is signed in, or allowed to one who is not. */
  readonly restrict: boolean
  /** The methods that rules name. */
  readonly methods: ReadonlySet<string>
  /** By the first name of a folded path, the rules that could be for such paths, in their order. */
  readonly byFirstName: ReadonlyMap<string, readonly AccessRule[]>
  /** Those for paths that begin with none of these names. */
  readonly elsewhere: readonly AccessRule[]
}

/** What a request asks for. */
export interface AccessQuestion {
  readonly method: string
  /** As it is forwarded, without the query. */
  readonly path: string
  /** Methods that a field of the request names besides. */
  readonly alsoMethods: readonly string[]
}

/** Of a session, what rules look at. */
export type Person = Pick<Session, 'subject' | 'attributes' | 'authnInstant' | 'authnContext'>

/** `rule` is the one that decided; undefined when none is for the request. */
export type AccessVerdict =
  | { readonly verdict: 'allowed'; readonly rule: AccessRule }
  /** The person has to sign in first. */
  | { readonly verdict: 'login'; readonly rule: AccessRule }
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

/** What no login changes. */
export type AccessRefusal = Extract<AccessVerdict, { verdict: 'refused' | 'ambiguous' }>

/** The rules out of a list that has at least one. */
export function accessRules(rules: readonly AccessRule[]): AccessRules {
  const plain = ({ allow, login, methods }: AccessRule) =>
    allow === 'signed-in' && login === undefined && methods === undefined
  const all = rules.some(rule => plain(rule) && rule.path.written === '/')
  const names = new Set(rules.map(({ path }) => firstName(path.folded)))
  const of = (name: string) =>
    rules.filter(({ path }) => ['', name].includes(firstName(path.folded)))
  return {
    rules,
    restrict: !all || !rules.every(plain),
    methods: new Set(rules.flatMap(({ methods = [] }) => [...methods])),
    byFirstName: new Map([...names].map(name => [name, of(name)])),
    elsewhere: of(''),
  }
}

/** The first name of a folded path; empty for that of the root. */
function firstName(folded: string): string {
  const end = folded.indexOf('/', 1)
  return folded.slice(1, end === -1 ? undefined : end)
}

/** Judges what a request asks for, of a person or, when undefined, of one who is not signed in. */
export function judge(
  access: AccessRules,
  wanted: AccessQuestion,
  { person, now }: { readonly person: Person | undefined; readonly now: Milliseconds },
): AccessVerdict {
  const path = askedPath(wanted.path)
  if (access.restrict && path.ambiguous) {
    return { verdict: 'ambiguous', rule: undefined, because: 'path' }
  }
  const of = (method: string) => {
    const { decisive, mistakable } = rulesFor(access, method, path)
    const verdict = verdictOf(decisive, person, now)
    if (verdict.verdict !== 'allowed') return verdict
    const other = mistakable.find(rule => verdictOf(rule, person, now).verdict !== 'allowed')
    if (other === undefined) return verdict
    return { verdict: 'ambiguous', rule: other, because: 'spelling' } as const
  }
  const verdict = of(wanted.method)
  if (verdict.verdict !== 'allowed') return verdict
  for (const method of wanted.alsoMethods) {
    const other = of(method)
    if (other.verdict === 'allowed') continue
    return { verdict: 'ambiguous', rule: other.rule, because: 'method' }
  }
  return verdict
}

/**
 * Whether a method of a path is open to no person at all: no rule is for it, one lets nobody in, or an application could take the
 * path for such a one.
 */
export function isClosed(access: AccessRules, method: string, path: string): boolean {
  const asked = askedPath(path)
  if (access.restrict && asked.ambiguous) return true
  const { decisive, mistakable } = rulesFor(access, method, asked)
  return [decisive, ...mistakable].some(rule => rule === undefined || rule.allow === 'nobody')
}

/** The rule that decides, and those before it that an application could take the path to be meant by. */
function rulesFor(access: AccessRules, method: string, path: AskedPath) {
  const as = method === 'HEAD' ? 'GET' : method
  const mistakable: AccessRule[] = []
  for (const rule of access.byFirstName.get(firstName(path.folded)) ?? access.elsewhere) {
    if (rule.methods !== undefined && !rule.methods.has(as)) continue
    if (isFor(rule.path, path)) return { decisive: rule, mistakable }
    if (couldBeFor(rule.path, path)) mistakable.push(rule)
  }
  return { decisive: undefined, mistakable }
}

/** What one rule says. */
function verdictOf(
  rule: AccessRule | undefined,
  person: Person | undefined,
  now: Milliseconds,
): AccessVerdict {
  if (rule === undefined) return { verdict: 'refused', rule, because: 'no-rule' }
  const { allow, login } = rule
  if (allow === 'nobody') return { verdict: 'refused', rule, because: 'nobody' }
  if (allow === 'anyone') return { verdict: 'allowed', rule }
  if (person === undefined) return { verdict: 'login', rule }
  if (allow !== 'signed-in' && !allow.some(each => describes(each, person))) {
    return { verdict: 'refused', rule, because: 'not-among' }
  }
  const because = login === undefined ? undefined : whyNotFulfilled(login, person, now)
  return because === undefined
    ? { verdict: 'allowed', rule }
    : { verdict: 'step-up', rule, because }
}

/** Whether a person has one of the values of each attribute. A description without attributes describes no person. */
function describes(description: Description, { subject, attributes }: Person): boolean {
  for (const [name, patterns] of description) {
    const values = name === 'users' ? [subject] : (attributes.get(name) ?? [])
    if (!values.some(value => patterns.some(pattern => fits(value, pattern)))) return false
  }
  return description.size > 0
}

/** Whether a value is the text of a pattern, in which `*` stands for any text, none included. */
export function fits(value: string, pattern: string): boolean {
  if (!pattern.includes('*')) return value === pattern
  const [first = '', ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return value === pattern
  if (!value.startsWith(first) || !value.endsWith(last)) return false
  const end = value.length - last.length
  let at = first.length
  for (const part of others) {
    const found = value.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= end
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

/** What is asked for by a request with these fields. */
export function wantedBy(
  { method, fields }: { readonly method: string; readonly fields: Fields },
  { path, query }: { readonly path: string; readonly query?: string | undefined },
  { methods }: AccessRules,
): AccessQuestion {
  if (methods.size === 0) return { method, path, alsoMethods: NONE }
  const named = namedMethods(fields, query)
  if (named.size === 0) return { method, path, alsoMethods: NONE }
  // Whichever of so many an application takes: each that a rule names, and one that none does.
  const alsoMethods = named.size > MOST_NAMED ? [...methods, 'OTHER'] : [...named]
  return { method, path, alsoMethods }
}

const NONE: readonly string[] = []
const MOST_NAMED = 10

/** The methods that fields and query of a request name besides that of its first line. */
export function namedMethods(fields: Fields, query: string | undefined): ReadonlySet<string> {
  const named = new Set(methodsInQuery(query))
  const { flat } = fields
  for (let i = 0; i < flat.length; i += 2) {
    if (!isOverride(flat[i] ?? '')) continue
    for (const word of (flat[i + 1] ?? '').toUpperCase().match(/[A-Z]+/g) ?? []) named.add(word)
  }
  return named
}

/** Whether frameworks take the method from a field of this name. Its first and last letter tell almost all others, for less. */
function isOverride(name: string): boolean {
  const { length } = name
  const first = name.charCodeAt(0) | CASE
  const last = name.charCodeAt(length - 1) | CASE
  if (length > LONGEST_OVERRIDE || !BEGINNINGS.includes(first) || !ENDS.includes(last)) return false
  return OVERRIDE.test(name)
}

/** The bit by which a capital letter differs from a small one. */
const CASE = 0x20
const codes = (letters: string) => [...letters].map(letter => letter.charCodeAt(0))
const BEGINNINGS = codes('xhm')
const ENDS = codes('de')

function methodsInQuery(query = ''): readonly string[] {
  // Most have neither the word nor a character of it escaped.
  if (!/method|%/i.test(query)) return NONE
  return query.split(/[&;]/).flatMap(pair => {
    const [name = '', value = ''] = pair.replaceAll('+', ' ').split(/=(.*)/s, 2).map(unescaped)
    return IN_QUERY.test(name) ? (value.toUpperCase().match(/[A-Z]+/g) ?? []) : []
  })
}

/** `_method` and `_HttpMethod`, and the names of the fields. A bare `method` is an argument like any other. */
const IN_QUERY =
  /^(?:[^a-z0-9]+(?:http)?method|(?:x[^a-z0-9])?(?:http[^a-z0-9])?method[^a-z0-9]?override|x[^a-z0-9]http[^a-z0-9]method)$/i

/** Escapes of ASCII as what they stand for; the names of methods have no others. */
function unescaped(text: string): string {
  return text.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** Names of fields that frameworks take the method from, in whatever spelling. */
const OVERRIDE = /^(?:x[^a-z0-9])?(?:http[^a-z0-9])?method(?:[^a-z0-9]?override)?$/i
const LONGEST_OVERRIDE = 'X-HTTP-Method-Override'.length

/** The rules in words, for a person who is refused: `groups: ops or admins; department: IT`. One text for each description. */
export function neededText(allow: Allowed): readonly string[] {
  if (typeof allow === 'string') return []
  return allow.map(description =>
    [...description].map(([name, values]) => `${name}: ${values.join(', ')}`).join('; '),
  )
}

/** Where a rule stands, for people: `rule 3, line 17`. */
export function placeOfRule(rule: AccessRule | undefined): string {
  if (rule === undefined) return 'no rule'
  return rule.line === undefined ? `rule ${rule.number}` : `rule ${rule.number}, line ${rule.line}`
}
