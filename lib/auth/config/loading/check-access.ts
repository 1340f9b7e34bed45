/**
 * Finds mistakes and dangers in the rules of access: between the rules, and between them and other settings. Pure.
 */
import { nearestName, type Remark, type Remarks, valueRemarks } from '../../../config/reading.ts'
import { coversRule, type PathRule, pathRule } from '../../access/path-rule.ts'
import { type AllowedUsers, matchesPattern } from '../../access/rules.ts'
import { type Claim, claimTable } from '../claims.ts'
import { ownClaims } from '../config.ts'
import type { AccessValues } from '../setting-access.ts'
import type { SettingValues } from '../settings.ts'

type Rule = SettingValues['access'][number] & {
  readonly place: PathRule
  readonly watched: boolean
}

/** Checks the rules at a place: those of access, or those for tokens of people. */
export function checkAccess(
  values: SettingValues,
  place: readonly string[] = ['access'],
  { access, accessEnforce }: AccessValues = values,
): Remarks {
  const { problems, warnings, wrong, warn } = valueRemarks(...place)
  const { saml } = values
  const rules = access.map(rule => {
    const watched = (rule.enforce ?? accessEnforce) === 'watch'
    return { ...rule, place: pathRule(rule.path), watched }
  })
  for (const [index, rule] of rules.entries()) {
    const at = (...more: Remark['path']) => [index, ...more]
    const { allow, login, methods } = rule
    if (methods?.length === 0) wrong(at('methods'), 'names no method; leave it out to mean all')
    if (typeof allow !== 'string') {
      for (const { path, ...more } of wrongWith(allow, values)) {
        problems.push({ ...more, path: [...place, ...at('allow', ...path)] })
      }
      for (const { path, text } of doubtful(allow, values)) warn(at('allow', ...path), text)
    }
    if (login?.maxAge !== undefined && login.maxAge <= saml.clockSkew) {
      const text = 'is not longer than saml.clockSkew, so a new login could be too old already'
      wrong(at('login', 'maxAge'), text)
    }
    if (login !== undefined && (allow === 'anyone' || allow === 'nobody')) {
      warn(at('login'), `has no effect: the rule allows ${allow}, so logins do not matter`)
    }
    if (rule.watched && allow === 'anyone') {
      const text =
        'lets in people without a login at once, which cannot be watched; write enforce: always if that is meant'
      wrong(at('allow'), text)
    }
    const isDecided = rules.some(other => !other.watched && decidesAll(other, rule))
    if (rule.watched && accessEnforce === 'always' && !isDecided) {
      const text = `lets no person through: without this rule none is for ${rule.path}; add one that says who may use it meanwhile, such as { path: ${rule.path}, allow: signed-in }`
      wrong(at('enforce'), text)
    }
    const before = hiddenBy(rule, rules)
    if (before !== undefined) {
      const text =
        rules[before]?.watched === rule.watched || rule.watched
          ? `is never reached: rule ${before + 1} decides about all its requests`
          : `does not stop people whom rule ${before + 1} allows: they pass at once, although it is only watched`
      warn(at(), `${text}; move it up`)
    }
    const below = before === undefined ? openBelow(rule, rules) : undefined
    if (below !== undefined) {
      const text = `is this one path: rule ${below + 1} lets in more people below ${rule.path}/; write ${rule.path}/ if that is meant as well`
      warn(at('path'), text)
    }
    const around = allow === 'anyone' ? restrictedAround(rule, rules) : undefined
    if (around !== undefined) {
      const text = `lets in people without a login below ${rules[around]?.path ?? ''}, which rule ${around + 1} restricts`
      warn(at('allow'), text)
    }
  }
  return { problems, warnings }
}

/** The remarks on descriptions that fit no person at all, or every person. */
function wrongWith(allow: Exclude<AllowedUsers, string>, values: SettingValues): readonly Remark[] {
  const known = ['users', ...attributeNames(ownClaims(values.identity))]
  if (allow.length === 0) {
    return [{ path: [], at: 'value', text: 'is an empty list; write nobody to let no person in' }]
  }
  return allow.flatMap((description, index): readonly Remark[] => {
    if (description.size === 0) {
      const text = 'describes no person; write signed-in if all who are signed in are meant'
      return [{ path: [index], at: 'value', text }]
    }
    return [...description].flatMap(([name, patterns]): readonly Remark[] => {
      const path = [index, name]
      if (patterns.length === 0) return [{ path, at: 'value', text: 'has no value' }]
      if (known.includes(name)) return []
      const mend = attributeMeant(name, ownClaims(values.identity), ['users'])
      return [{ path, at: 'key', text: `no attribute has this name; ${mend}` }]
    })
  })
}

/** Values that the settings under `identity` keep from every session. */
function doubtful(
  allow: Exclude<AllowedUsers, string>,
  { identity }: SettingValues,
): readonly Remark[] {
  const { only, groups, groupForm } = identity
  const remarks: Remark[] = []
  for (const [index, description] of allow.entries()) {
    for (const [name, patterns] of description) {
      const path = [index, name]
      if (name !== 'users' && only !== undefined && !only.includes(name)) {
        remarks.push({ path, at: 'value', text: 'is in no session: identity.only leaves it out' })
      }
      if (name !== 'groups') continue
      for (const pattern of patterns) {
        if (groupForm === 'name' && /^cn=/i.test(pattern)) {
          const text = `"${pattern}" is the name of no group: identity.groupForm keeps only the common name`
          remarks.push({ path, at: 'value', text })
        }
        if (groupForm === 'name' || groups.length === 0 || pattern.includes('*')) continue
        if (groups.some(kept => matchesPattern(pattern, kept))) continue
        const text = `"${pattern}" is in no session: identity.groups keeps no such group`
        remarks.push({ path, at: 'value', text })
      }
    }
  }
  return remarks
}

/** The names that attributes of a session can have, `own` being those of `identity.attributes`. */
export function attributeNames(own: readonly Claim[]): readonly string[] {
  return [...claimTable(own).map(({ name }) => name), 'domain', 'groupsOverage']
}

/**
 * The attribute that an unknown name may mean, as the end of a sentence; `more` are other words that are allowed in this place.
 */
export function attributeMeant(
  name: string,
  own: readonly Claim[],
  more: readonly string[] = [],
): string {
  const sent = claimTable(own).find(({ aliases }) => aliases.includes(name))
  if (sent !== undefined) return `what is sent by this name is called ${sent.name} here`
  return nearestAttribute(name, [...more, ...attributeNames(own)])
}

/** The one of these names that an unknown name may mean, as the end of a sentence. */
export function nearestAttribute(name: string, known: readonly string[]): string {
  const near = nearestName(name, known)
  return near === undefined
    ? 'identity.attributes names those of your own'
    : `did you mean ${near}?`
}

/**
 * The index of an earlier rule that decides on everything a rule is for. A watched one leaves to an enforced rule whom it refuses; that is
 * how a narrower rule is tried out, so it counts when it is for other paths as well, or allows more people.
 */
function hiddenBy(own: Rule, rules: readonly Rule[]): number | undefined {
  const found = rules.slice(0, rules.indexOf(own)).findIndex(other => {
    if (!decidesAll(other, own)) return false
    if (own.watched || !other.watched) return true
    return !coversRule(own.place, other.place) || width(other.allow) > width(own.allow)
  })
  return found === -1 ? undefined : found
}

/** Whether a rule decides on everything that another one is for. */
function decidesAll({ place, methods }: Rule, own: Rule): boolean {
  if (!coversRule(place, own.place)) return false
  return methods === undefined || (own.methods?.every(each => methods.includes(each)) ?? false)
}

/**
 * The index of the rule that decides below a path without a slash at its end, when that rule lets in more people. A path whose
 * last name has a dot is taken for a file, which has nothing below it.
 */
function openBelow(own: Rule, rules: readonly Rule[]): number | undefined {
  if (/^=|\/$|\.[^/]*$/.test(own.path)) return undefined
  const below = pathRule(`${own.path}/`)
  const decides = rules.findIndex(({ place, methods }) => {
    const both =
      methods === undefined || (own.methods?.some(each => methods.includes(each)) ?? true)
    return both && coversRule(place, below)
  })
  const other = rules[decides]
  if (other === undefined) return undefined
  const [wide, narrow] = [width(other.allow), width(own.allow)]
  const isYounger = wide === narrow && own.login !== undefined && other.login === undefined
  return wide > narrow || (isYounger && own.allow !== 'nobody') ? decides : undefined
}

/** A rank for the number of people a rule lets in, as far as rules can be compared. */
function width(allow: AllowedUsers): number {
  return ['nobody', 'some', 'signed-in', 'anyone'].indexOf(
    typeof allow === 'string' ? allow : 'some',
  )
}

/** The index of a rule for a folder around the path of a rule, which lets in some people alone. */
function restrictedAround(own: Rule, rules: readonly Rule[]): number | undefined {
  const found = rules.findIndex(other => {
    if (other === own || other.path === '/') return false
    return typeof other.allow !== 'string' && coversRule(other.place, own.place)
  })
  return found === -1 ? undefined : found
}
