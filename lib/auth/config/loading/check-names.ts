/**
 * Finds mistakes and doubtful choices in the names of the fields in which the backend reads the identity. Pure.
 */
import { nearestName, type Remarks, valueRemarks } from '../../../config/reading.ts'
import { fieldNames, isSameField, type NamedField, type NameSet } from '../field-names.ts'
import type { SettingValues } from '../settings.ts'
import { attributeNames } from './check-access.ts'

type Chosen = NameSet | NamedField

/** The remarks on `identity.names`. */
export function checkNames({ identity }: SettingValues): Remarks {
  const { names, attributes, only } = identity
  const own = attributes.map(({ name, list }) => ({ name, field: name, list, aliases: [] }))
  const known = ['user', ...attributeNames(own)]
  const { problems, warnings, wrong, warn } = valueRemarks('identity', 'names')
  if (names.length === 0) {
    wrong([], 'names nothing, so the application would not learn who asks')
  }
  for (const [index, chosen] of names.entries()) {
    const taken = fieldsOf(chosen).find(field => isTaken(field, names.slice(0, index)))
    if (taken !== undefined) {
      wrong([index], `${taken} is named before, or read as the same name; leave one`)
    }
    if (typeof chosen === 'string') continue
    if (chosen.from.length === 0) wrong([index, 'from'], 'names nothing')
    for (const name of chosen.from) {
      if (!known.includes(name)) {
        const near = nearestName(name, known)
        const mend =
          near === undefined
            ? 'identity.attributes names those of your own'
            : `did you mean ${near}?`
        wrong([index, 'from'], `no attribute is called ${name}; ${mend}`)
      } else if (name !== 'user' && only !== undefined && !only.includes(name)) {
        warn([index, 'from'], `${name} is in no session: identity.only leaves it out`)
      }
    }
    if (chosen.separator !== ',' && chosen.form !== undefined && chosen.form !== 'list') {
      warn([index, 'separator'], `has no effect: the form is ${chosen.form}`)
    }
  }
  if (names.length > 0 && !names.some(saysWho)) {
    warn([], 'name no header for the user: the application does not learn who asks')
  }
  return { problems, warnings }
}

function fieldsOf(chosen: Chosen): readonly string[] {
  if (typeof chosen !== 'string') return [chosen.field]
  return chosen === 'authproxy'
    ? ['X-Authproxy-User']
    : fieldNames([chosen]).others.map(({ field }) => field)
}

function isTaken(field: string, earlier: readonly Chosen[]): boolean {
  return earlier.flatMap(fieldsOf).some(other => isSameField(field, other))
}

function saysWho(chosen: Chosen): boolean {
  return typeof chosen === 'string' || chosen.from.includes('user')
}
