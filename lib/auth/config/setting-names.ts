/**
 * The setting that names the identity fields of the backend.
 */
import { mismatch, readResult } from '../../config/reading.ts'
import { oneOf, text } from '../../config/setting-kinds.ts'
import {
  group,
  type Kind,
  kind,
  listOf,
  oneOrMore,
  optionalSetting,
  requiredSetting,
  setting,
} from '../../config/settings.ts'
import { fieldNameProblem, type NamedField, type NameSet, nameSets } from './field-names.ts'

const fieldName: Kind<string> = kind({ name: 'header name', json: { type: 'string' } }, found => {
  const what = 'the name of a header, such as X-Remote-User'
  if (typeof found !== 'string') return mismatch(found, what)
  const problem = fieldNameProblem(found)
  return problem === undefined ? readResult(found) : mismatch(found, what, problem)
})

/** The separators that a list in one field may have. */
const separators = [',', ';', '|', ':', ' '] as const

const ownName = group('', {
  field: requiredSetting(fieldName, 'name the header, such as field: X-Remote-User').says(),
  from: requiredSetting(
    oneOrMore(text, 'names'),
    'say what it carries: user, or the name of an attribute such as groups',
  ).says(),
  form: optionalSetting(oneOf('list', 'json', 'first')).says(),
  separator: setting(oneOf(...separators), ',').says(),
})

const word = oneOf(...nameSets)

const member: Kind<NameSet | NamedField> = {
  name: 'word or header',
  range: nameSets.join(', '),
  json: {
    anyOf: [
      word.json,
      {
        type: 'object',
        properties: {
          field: fieldName.json,
          from: oneOrMore(text, '').json,
          form: { enum: ['list', 'json', 'first'] },
          separator: { enum: separators },
        },
        required: ['field', 'from'],
        additionalProperties: false,
      },
    ],
  },
  read: (found, ...at) =>
    typeof found === 'object' && found !== null && !Array.isArray(found)
      ? ownName.read(found, ...at)
      : word.read(found, ...at),
}

const many = listOf(member, 'names', 100)

/** Names of sets, fields of the operator's own, or both. A single member needs no brackets. */
export const chosenNames: Kind<ReadonlyArray<NameSet | NamedField>> = {
  ...many,
  json: { anyOf: [member.json, many.json] },
  read: (found, ...at) => many.read(Array.isArray(found) ? found : [found], ...at),
}
