/**
 * What settings need, exclude, or have no effect without: said beside each setting, and from there checked and printed in the manual. Pure.
 *
 * A setting counts as set when the file has it with another value than its default, `false`, and an empty list; one that excludes another
 * counts as soon as the file has it. One that has no effect without another needs nothing while that other is not set.
 */
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../json.ts'
import { type Path, type Remarks, valueRemarks } from './reading.ts'
import { camelCase, manualPages, type Relation, type Settings, valueAt } from './settings.ts'

/** What the relations of all settings say of a file: `found` as it was decoded, and the values that were read of it. */
export function checkRelations(
  settings: Settings<unknown>,
  found: unknown,
  values: unknown,
): Remarks {
  const collected = valueRemarks()
  const { wrong, warn } = collected
  const isSet = (path: readonly string[]) => {
    const value = valueAt(values, path.map(camelCase))
    const isNothing = value === undefined || value === false
    return !isNothing && !(Array.isArray(value) && value.length === 0)
  }
  for (const page of manualPages(settings)) {
    if (!('setting' in page) || page.path.some(step => step.endsWith('[]'))) continue
    const written = valueAt(found, page.path)
    const { relations = [], default: standard } = page.setting
    const counts = isSet(page.path) && !isDeepStrictEqual(written ?? standard, standard)
    const isWithoutEffect = relations.some(
      relation =>
        relation.is === 'no-effect-without' &&
        relation.where === undefined &&
        !isSet(relation.other.split('.')),
    )
    for (const relation of relations) {
      const { is, other } = relation
      const path: Path = page.path
      const at = other.split('.')
      if (is === 'excludes') {
        const both = written !== undefined && valueAt(found, at) !== undefined
        if (both) wrong(path, `not together with ${other}; leave one`)
      } else if (is === 'needs') {
        const { mend } = relation
        const text = `also needs ${other}${mend === undefined ? '' : `: ${mend}`}`
        if (counts && !isWithoutEffect && !isSet(at)) wrong(path, text)
      } else if (counts) {
        const { where, unless } = relation
        const value = valueAt(values, at.map(camelCase))
        if (where === undefined && !isSet(at)) warn(path, `has no effect without ${other}`)
        if (where !== undefined && value !== undefined && !hasMembers(value, where)) {
          warn(path, `has no effect: ${unless}`)
        }
      }
    }
  }
  return collected
}

/** The sentences of the manual. */
export function relationSentences(relations: readonly Relation[] = []): readonly string[] {
  const others = (is: Relation['is']) =>
    relations.flatMap(relation =>
      relation.is === is && !('where' in relation && relation.where !== undefined)
        ? [`\`${relation.other}\``]
        : [],
    )
  const [needs, excludes, without] = [
    others('needs').join(' and '),
    others('excludes').join(' or '),
    others('no-effect-without').join(' and '),
  ]
  const unless = relations.flatMap(relation => ('unless' in relation ? [relation.unless] : []))
  return [
    ...(needs === '' ? [] : [`Needs ${needs}.`]),
    ...(excludes === '' ? [] : [`Not together with ${excludes}.`]),
    ...(without === '' ? [] : [`Has no effect without ${without}.`]),
    ...unless.flatMap(text => (text === undefined ? [] : [`Has no effect where ${text}.`])),
  ]
}

function hasMembers(value: unknown, members: Readonly<Record<string, unknown>>): boolean {
  return (
    isRecord(value) && Object.entries(members).every(([name, wanted]) => value[name] === wanted)
  )
}
