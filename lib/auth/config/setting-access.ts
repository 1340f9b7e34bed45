/**
 * The settings under `access`, and the rules made of them.
 */

import { METHODS as known } from 'node:http'
import { mismatch, nearestName, type ReadResult, readResult } from '../../config/reading.ts'
import { duration, oneOf } from '../../config/setting-kinds.ts'
import {
  groupKind,
  type Kind,
  kind,
  listOf,
  listOfGroups,
  mapOf,
  oneOrMore,
  optionalSetting,
  requiredSetting,
  type ValuesOf,
  wordOr,
} from '../../config/settings.ts'
import { pathRule, pathRuleProblem } from '../access/path-rule.ts'
import {
  type AccessRules,
  type AllowedUsers,
  accessRules,
  type LoginNeeds,
} from '../access/rules.ts'
import { textKind } from './setting-kinds.ts'

const string = { type: 'string' }

/** The path of a rule, or of the scope of a token. */
export const rulePath = textKind(
  'path',
  'a path such as /admin/ (all below) or /metrics (this one)',
  pathRuleProblem,
)

/** The name of a method that a request can have (RFC 9110 section 9.1). The service answers any other with 501 or 405. */
export const method: Kind<string> = kind({ name: 'method', json: string }, found => {
  if (found !== 'HEAD') return readMethod(found)
  return mismatch(found, A_METHOD, 'HEAD goes with GET; write GET')
})

export function readMethod(found: unknown): ReadResult<string> {
  if (typeof found !== 'string') return mismatch(found, A_METHOD)
  if (METHODS.includes(found)) return readResult(found)
  const upper = found.toUpperCase()
  if (METHODS.includes(upper)) {
    return mismatch(found, A_METHOD, `methods are in upper case; write ${upper}`)
  }
  const near = nearestName(upper, METHODS)
  return mismatch(found, A_METHOD, near === undefined ? undefined : `did you mean ${near}?`)
}

const A_METHOD = 'a method such as GET or POST'

/** The service answers TRACE and CONNECT with 405 and asks no rule. */
const METHODS = known.filter(name => name !== 'TRACE' && name !== 'CONNECT')

/** A value of an attribute; `*` stands for any text. */
const pattern: Kind<string> = kind({ name: 'pattern', json: string }, found => {
  if (typeof found === 'string' && found !== '') return readResult(found)
  const isPlain = typeof found === 'number' || typeof found === 'boolean'
  return mismatch(found, 'a value', isPlain ? `put it between quotes: "${found}"` : undefined)
})

/** A context: the word `mfa`, or what the identity provider calls it. */
const context: Kind<readonly string[]> = kind({ name: 'context', json: string }, found => {
  if (found === 'mfa') return readResult<readonly string[]>(SECOND_FACTOR)
  const fits =
    typeof found === 'string' && /^[\x21-\x7e]{1,300}$/.test(found) && found.includes(':')
  return fits
    ? readResult<readonly string[]>([found])
    : mismatch(found, 'mfa, or the URI of an authentication context')
})

/** The contexts by which identity providers name a login with more than one factor: the REFEDS profile, and Microsoft's. */
const SECOND_FACTOR: readonly string[] = [
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
]

const needs = groupKind('group of `maxAge` and `context`', {
  maxAge: optionalSetting(duration('1m', '30d')).says(),
  context: optionalSetting(oneOrMore(context, 'contexts')).says(),
})

const login: Kind<LoginNeeds> = {
  ...needs,
  read(found, path, file) {
    const outcome = needs.read(found, path, file)
    if (outcome === undefined) return undefined
    const { maxAge, context: contexts = [] } = outcome.value
    return { value: { maxAge, contexts: contexts.flat() } }
  },
}

const words = ['nobody', 'anyone', 'signed-in'] as const

const allow: Kind<AllowedUsers> = wordOr(
  words,
  listOf(
    mapOf(oneOrMore(pattern, 'values'), 'attributes with values, such as groups: [ops, admins]'),
    'descriptions',
  ),
  'nobody, anyone, signed-in, or a list of whom, such as - groups: [ops, admins]',
)

/** Any single line. */
const message: Kind<string> = kind({ name: 'text', json: string }, found => {
  const isLine = typeof found === 'string' && /^[^\p{Cc}\p{Zl}\p{Zp}]{1,500}$/u.test(found)
  return isLine ? readResult(found) : mismatch(found, 'a line of text of at most 500 characters')
})

/** Whether what a rule refuses is refused. */
export const enforcement = oneOf('always', 'watch')

const rule = {
  path: requiredSetting(rulePath, 'name the path the rule is for, such as path: /admin/').says(
    'Path the rule is for, without the query. One that ends with `/` means all paths below, and the folder itself without the slash; any other means this one path, and so does any path after `= `: `= /` is the start page alone. It is compared exactly, with case, after decoding once, and without wildcards.',
  ),
  methods: optionalSetting(listOf(method, 'methods'), 'all').says(
    'Methods the rule is for, in upper case. HEAD goes with GET.',
  ),
  allow: requiredSetting(allow, 'say who may, such as allow: signed-in').says(
    '`signed-in` allows every signed-in person, `anyone` also allows visitors who are not signed in, and `nobody` refuses every person. A list of descriptions allows each person who matches one of them. A description has attributes of the session (`groups`, `department`, …; `users` is the name in `X-Authproxy-User`), each with one or more values; all attributes must match. Values are compared letter by letter; `*` means any text.',
  ),
  login: optionalSetting(login, 'any login').says(
    'What login the rule requires, as `{ maxAge: 15m, context: mfa }`, both or one of them. `maxAge`: how long ago the person may have authenticated at the identity provider; otherwise they must do so again (ForceAuthn). `context`: the authentication context that the identity provider must name, a URI or a list of them. `mfa` means `https://refeds.org/profile/mfa` and `http://schemas.microsoft.com/claims/multipleauthn`.',
    'The person comes back to the same page, with the form they were about to send.',
  ),
  message: optionalSetting(message).says(
    'A line on the page that a refused person sees. It is shown in the language in which you write it.',
  ),
}

export const access = listOfGroups(
  'list of rules',
  {
    ...rule,
    enforce: optionalSetting(enforcement, 'what `accessEnforce` says').says(
      'With `watch`, what this rule refuses is judged by the other rules instead, and counted and logged (`would`). Without a session nothing passes by it, so `allow: anyone` excludes it. A rule that is enforced must say who may use the path meanwhile.',
    ),
  },
  'access:\n  - path: /metrics/\n    allow: nobody\n  - path: /admin/\n    methods: [POST, PUT, PATCH, DELETE]\n    allow:\n      - groups: [ops, admins]\n        department: [IT, "Site *"]\n      - users: [root@example.org]\n    login: { maxAge: 15m, context: mfa }\n    message: Ask ops@example.org for the group "ops".\n  - path: /\n    allow: signed-in',
).says(
  'Who may do what: the first rule whose path and method match decides. When no rule matches, the request is refused. Without `access`, all who are signed in may do everything. A reload applies it. `docs/access-rules.md` has examples; `authproxy access` tries them out.',
  '`passthroughPaths` and `passthroughTokens` are judged before, and pass whatever the rules say.',
  'Where any rule restricts, a path that two servers could read differently is answered with 400; so is one that differs from the path of a stricter rule only by case, accents, a slash at its end or the like.',
)

/** Rules of the same form for the tokens of people. They are always enforced. */
export const tokenAccess = listOf(groupKind('rule', rule), 'rules')

export interface AccessValues {
  readonly access: ValuesOf<typeof access>
  readonly accessEnforce: 'always' | 'watch'
}

/** The rules for tokens in the form of those of `access`. */
export function tokenRules({
  tokens,
}: {
  readonly tokens: {
    readonly access: ReadonlyArray<Omit<AccessValues['access'][number], 'enforce'>> | undefined
  }
}): AccessValues {
  const { access = [] } = tokens
  return { access: access.map(rule => ({ ...rule, enforce: 'always' })), accessEnforce: 'always' }
}

/** The rules of a file; undefined when it has none. `lineOf` finds the line of each. */
export function accessOf(
  { access: values, accessEnforce: otherwise }: AccessValues,
  lineOf: (index: number) => number | undefined,
): AccessRules | undefined {
  if (values.length === 0) return undefined
  return accessRules(
    values.map(({ path, methods, enforce = otherwise, ...rule }, index) => ({
      ...rule,
      number: index + 1,
      line: lineOf(index),
      path: pathRule(path),
      methods: methods && new Set(methods),
      watched: enforce === 'watch',
    })),
    otherwise,
  )
}

/** The attributes that rules name, and `groups`. */
export function ruleAttributes(values: ValuesOf<typeof access>): readonly string[] {
  const named = values.flatMap(({ allow }) =>
    typeof allow === 'string' ? [] : allow.flatMap(description => [...description.keys()]),
  )
  return [...new Set(['groups', ...named])].filter(name => name !== 'users')
}
