/**
 * Settings: key, kind, default and text of the manual, stated once. A tree of settings reads a file into typed values; the
 * manual and the JSON Schema are made from it.
 *
 * # Facts
 * - A key is spelt in the file as its users know it, `cache_directory`; its value is named in camel case, `cacheDirectory`.
 * - A default is written as it would stand in the file, and is read and checked like it.
 * - Problems are logged, so they quote no value of a setting whose path has a word such as `token` in it.
 */
import { isRecord, type JsonObject } from '../json.ts'
import {
  type Check,
  describe,
  keyPath,
  nearestName,
  type Path,
  type ReadResult,
  type Remark,
} from './reading.ts'

/** Reads a part of a file. What is wrong goes to the problems; while there are any, no value counts. */
type Reader<T> = (
  found: unknown,
  path: Path,
  file: FileReading,
) => { readonly value: T } | undefined

/**
 * What people write who know other programs, and what it is here: the path of a setting, or a clause where there is none. The names
 * are in small letters, without what divides words: `cachedir` is also `cache_dir` and `CacheDir`.
 */
export type ForeignNames = Readonly<Record<string, string | { readonly says: string }>>

/** Several names that mean the same, with a space between them. */
export function namesOf(is: ForeignNames[string], all: string): ForeignNames {
  return Object.fromEntries(all.split(' ').map(name => [name, is]))
}

interface FileReading {
  readonly root: Settings<unknown>
  readonly foreign: ForeignNames
  readonly problems: Remark[]
}

/** What one value may be. */
export interface Kind<T> {
  /** Name in the manual: `duration`, `list of addresses`. */
  readonly name: string
  /** What else the manual says of the type: the range, the words allowed. */
  readonly range?: string
  /** JSON Schema of the text in the file. */
  readonly json: JsonObject
  readonly read: Reader<T>
}

/** A kind of value from a function that reads one and never throws. */
export function kind<T>(
  facts: Omit<Kind<T>, 'read'>,
  read: (found: unknown) => ReadResult<T>,
): Kind<T> {
  return {
    ...facts,
    read(found, path, file) {
      const outcome = read(found)
      return outcome.ok ? outcome : wrongAt(path, file, outcome.problem)
    },
  }
}

/** A list of a kind; every member is checked and reported by itself. */
export function listOf<T>(member: Kind<T>, names: string, most = 10_000): Kind<readonly T[]> {
  return {
    name: `list of ${names}`,
    ...(member.range === undefined ? {} : { range: member.range }),
    json: { type: 'array', items: member.json, maxItems: most },
    read: listReader(member.read, most, 'a list; write [a, b] or a line "- a" each'),
  }
}

/** A list of a kind; a single member may stand without the brackets. */
export function oneOrMore<T>(member: Kind<T>, names: string): Kind<readonly T[]> {
  const list = listOf(member, names)
  return {
    ...list,
    json: { anyOf: [member.json, list.json] },
    read: (found, ...at) => {
      const isOne = typeof found === 'string' || typeof found === 'number'
      return list.read(isOne ? [found] : found, ...at)
    },
  }
}

/** A mapping whose keys the author of the file chooses, with values of one kind. */
export function mapOf<T>(value: Kind<T>, what: string): Kind<ReadonlyMap<string, T>> {
  return {
    name: 'mapping',
    json: { type: 'object', additionalProperties: value.json },
    read(found, path, file) {
      if (!isRecord(found)) {
        return wrongAt(path, file, `found ${describe(found)}, expected ${what}`)
      }
      const read = new Map<string, T>()
      for (const [key, member] of Object.entries(found)) {
        const outcome = value.read(member, [...path, key], file)
        if (outcome !== undefined) read.set(key, outcome.value)
      }
      return { value: read }
    },
  }
}

/** One of a few words, or what another kind reads. */
export function wordOr<const W extends string, T>(
  words: readonly W[],
  of: Kind<T>,
  what: string,
): Kind<W | T> {
  return {
    name: `word or ${of.name}`,
    range: words.join(', '),
    json: { anyOf: [{ enum: words }, of.json] },
    read(found, path, file) {
      const word = words.find(each => each === found)
      if (word !== undefined) return { value: word }
      if (Array.isArray(found)) return of.read(found, path, file)
      const near = typeof found === 'string' ? nearestName(found, words) : undefined
      const mend = near === undefined ? '' : `; did you mean ${near}?`
      return wrongAt(path, file, `found ${describe(found)}, expected ${what}${mend}`)
    },
  }
}

/** A kind that empty text, as older files write it, leaves undefined. */
export function orNothing<T>(of: Kind<T>): Kind<T | undefined> {
  return {
    ...of,
    read: (found, ...at) => (found === '' ? { value: undefined } : of.read(found, ...at)),
  }
}

/** The page of a setting in the manual. In its texts, words between back quotes are literal. */
export interface SettingManual extends Pick<Kind<unknown>, 'name' | 'range' | 'json'> {
  readonly required?: true
  /** The default as it would stand in the file. */
  readonly default?: unknown
  /** Said instead of the default when that is not a fixed value. */
  readonly defaultText?: string | undefined
  /** Lines of YAML, complete from the outermost key. */
  readonly example?: string | undefined
  /**
   * Only a restart puts a change in force. The texts are places in the service's configuration: first the one that has the value, by
   * default that of the setting's own name, then those that are derived from it.
   */
  readonly restart?: readonly string[]
  /** What it has to do with other settings. */
  readonly relations?: readonly Relation[]
  /** Paragraphs. */
  readonly manual: readonly string[]
}

/** What one setting has to do with another, whose path is `other`. */
export type Relation =
  /** The setting is refused without the other; `mend` says what to write there. */
  | { readonly is: 'needs'; readonly other: string; readonly mend?: string | undefined }
  /** The two are refused together. */
  | { readonly is: 'excludes'; readonly other: string }
  /** A warning when the other is not set; with `where`, when it has not these members, and `unless` says what that means. */
  | {
      readonly is: 'no-effect-without'
      readonly other: string
      readonly where?: Readonly<Record<string, unknown>> | undefined
      readonly unless?: string | undefined
    }

/** A part of a tree of settings: a setting, a group of settings, or a list of groups. */
export interface Settings<T> {
  readonly page: { readonly setting: SettingManual } | { readonly group: string }
  /** What a group, or each group of a list, consists of. */
  readonly members?: Members
  readonly read: Reader<T>
}

type Members = Readonly<Record<string, Settings<unknown>>>

/** The values a tree of settings reads. */
export type ValuesOf<S> = S extends Settings<infer T> ? T : never

type GroupValues<M extends Members> = {
  readonly [K in keyof M & string as CamelCase<K>]: ValuesOf<M[K]>
}

type CamelCase<K extends string> = K extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : K

/** A setting whose text in the manual is still to be said, an argument for each paragraph. */
interface Unsaid<T> {
  readonly says: (...manual: readonly string[]) => Settings<T>
  /** Only a restart puts a change in force; `places` as `SettingManual.restart`. */
  readonly needsRestart: (...places: readonly string[]) => Unsaid<T>
  /** It is refused without the setting at this path; `mend` says what to write there. */
  readonly needs: (other: string, mend?: string) => Unsaid<T>
  /** It is refused together with the settings at these paths. */
  readonly excludes: (...others: readonly string[]) => Unsaid<T>
  /**
   * A warning without the setting at this path. `where` has members that the value of the other has to have; `unless` is a clause that says
   * what it means when the value has others.
   */
  readonly noEffectWithout: (
    other: string,
    where?: Readonly<Record<string, unknown>>,
    unless?: string,
  ) => Unsaid<T>
}

function unsaid<T>(
  facts: Omit<SettingManual, 'manual'>,
  of: Pick<Settings<T>, 'read' | 'members'>,
): Unsaid<T> {
  const related = (...relations: readonly Relation[]) =>
    unsaid({ ...facts, relations: [...(facts.relations ?? []), ...relations] }, of)
  return {
    says: (...manual) => ({ page: { setting: { ...facts, manual } }, ...of }),
    needsRestart: (...restart) => unsaid({ ...facts, restart }, of),
    needs: (other, mend) => related({ is: 'needs', other, mend }),
    excludes: (...others) => related(...others.map(other => ({ is: 'excludes', other }) as const)),
    noEffectWithout: (other, where, unless) =>
      related({ is: 'no-effect-without', other, where, unless }),
  }
}

/** A setting with a default, which is written as it would stand in the file. */
export function setting<T>(of: Kind<T>, standard: unknown, example?: string): Unsaid<T> {
  const { read, ...facts } = of
  const own: Reader<T> = (found = standard, ...at) => read(found, ...at)
  return unsaid({ ...facts, default: standard, example }, { read: own })
}

/** A setting that may be left out and is then undefined; `defaultText` says what that means. */
export function optionalSetting<T>(
  of: Kind<T>,
  defaultText?: string,
  example?: string,
): Unsaid<T | undefined> {
  const { read, ...facts } = of
  const own: Reader<T | undefined> = (found, ...at) =>
    found === undefined ? { value: undefined } : read(found, ...at)
  return unsaid({ ...facts, defaultText, example }, { read: own })
}

/** A setting that every file has; `missing` tells what to write where it is not there. */
export function requiredSetting<T>(of: Kind<T>, missing: string, example?: string): Unsaid<T> {
  const { read, ...facts } = of
  const own: Reader<T> = (found, path, file) => {
    if (found !== undefined) return read(found, path, file)
    file.problems.push({ path, at: 'absent', text: missing })
    return undefined
  }
  return unsaid({ ...facts, required: true, example }, { read: own })
}

/** Settings below one key. */
export function group<M extends Members>(manual: string, members: M): Settings<GroupValues<M>> {
  const read = groupReader(members, BELOW)
  return {
    page: { group: manual },
    members,
    read: (found = {}, ...at) => read(found, ...at),
  }
}

/** A group as the value of a setting, whose manual tells of the members. */
export function groupKind<M extends Members>(name: string, members: M): Kind<GroupValues<M>> {
  return { name, json: objectSchema(members), read: groupReader(members, BELOW) }
}

const BELOW = ', indented below this key'

/** A list of groups, such as `remap`. */
export function listOfGroups<M extends Members>(
  name: string,
  members: M,
  example?: string,
): Unsaid<readonly GroupValues<M>[]> {
  const what = 'a list of settings, each begun with "- "'
  const list = listReader(groupReader(members, ''), Number.POSITIVE_INFINITY, what)
  const facts = { name, json: { type: 'array' }, default: [], example }
  return unsaid(facts, { members, read: (found = [], ...at) => list(found, ...at) })
}

/** Checks a whole file against a tree of settings, in the form `loadConfigFile` takes. */
export function checkSettings<T>(settings: Settings<T>, foreign: ForeignNames = {}): Check<T> {
  return found => {
    const problems: Remark[] = []
    const outcome = settings.read(found, [], { root: settings, foreign, problems })
    return outcome === undefined || problems.length > 0
      ? { ok: false, problems, warnings: [] }
      : { ok: true, value: outcome.value, warnings: [] }
  }
}

/** What stands at this place of a decoded file; undefined when nothing does. */
export function valueAt(tree: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (here, step) => (isRecord(here) && Object.hasOwn(here, step) ? here[step] : undefined),
    tree,
  )
}

type ManualPage = { readonly path: readonly string[] } & Settings<unknown>['page']

/** Every setting and group of a tree in the order written, with its path; `remap[]` is each group of a list. */
export function* manualPages(
  { page, members = {} }: Settings<unknown>,
  path: readonly string[] = [],
): Generator<ManualPage> {
  if (path.length > 0) yield { path, ...page }
  const below = 'group' in page ? path : [...path.slice(0, -1), `${path.at(-1)}[]`]
  for (const [name, member] of Object.entries(members)) yield* manualPages(member, [...below, name])
}

/** A tree as JSON Schema. Members that are undefined are not written. */
export function schemaOf({ page, members }: Settings<unknown>): JsonObject {
  const object = members && objectSchema(members)
  if ('group' in page) return { ...object, description: page.group || undefined }
  const { json, manual, default: fallback } = page.setting
  const items = object && { items: object }
  return { ...json, ...items, default: fallback, description: manual.join('\n\n') || undefined }
}

function objectSchema(members: Members): JsonObject {
  const entries = Object.entries(members)
  const required = entries.filter(([, member]) => isRequired(member)).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, member]) => [name, schemaOf(member)])),
    required: required.length > 0 ? required : undefined,
    additionalProperties: false,
  }
}

/** Whether a group is required because one of its members is. */
function isRequired({ page, members = {} }: Settings<unknown>): boolean {
  return 'setting' in page
    ? page.setting.required === true
    : Object.values(members).some(isRequired)
}

function listReader<T>(read: Reader<T>, most: number, what: string): Reader<readonly T[]> {
  return (found, path, file) => {
    if (!Array.isArray(found))
      return wrongAt(path, file, `found ${describe(found)}, expected ${what}`)
    if (found.length > most) return wrongAt(path, file, `more than ${most} members`)
    const outcomes = found.map((member, index) => read(member, [...path, index], file))
    return { value: outcomes.flatMap(outcome => (outcome === undefined ? [] : [outcome.value])) }
  }
}

function groupReader<M extends Members>(members: M, where: string): Reader<GroupValues<M>> {
  return (found, path, file) => {
    if (!isRecord(found)) {
      const what = `settings of the form "name: value"${where}`
      return wrongAt(path, file, `found ${describe(found)}, expected ${what}`)
    }
    for (const key of Object.keys(found)) {
      if (Object.hasOwn(members, key)) continue
      const known = Object.keys(members)
      if (holdsSecret(path) && nearestName(key, known) === undefined) {
        wrongAt(path, file, `has an unknown key; the known ones are ${known.join(', ')}`)
        continue
      }
      const text = unknownKey(key, known, file)
      file.problems.push({ path: [...path, key], at: 'key', text })
    }
    const values: Record<string, unknown> = {}
    for (const [key, member] of Object.entries(members)) {
      const outcome = member.read(valueAt(found, [key]), [...path, key], file)
      values[camelCase(key)] = outcome?.value
    }
    // Every member was read under the name GroupValues gives it; one that is wrong has left a problem, which is looked at first.
    return { value: values as GroupValues<M> }
  }
}

function wrongAt(path: Path, { problems }: FileReading, text: string): undefined {
  const told = holdsSecret(path) ? text.replace(FOUND_VALUE, 'found a value') : text
  problems.push({ path, at: 'value', text: told })
  return undefined
}

/** Whether a secret stands here, or might by mistake: no message quotes what was found. */
function holdsSecret(path: Path): boolean {
  return path.some(step => /token|secret|password/i.test(String(step)))
}

/** Text or a number at the beginning of a sentence of `expected`. */
const FOUND_VALUE = /^found (?:"(?:[^"\\]|\\.)*"|-?[\d.]+(?:e\S+)?(?=,))/

/** The name of a value in the code: `cacheDirectory` for `cache_directory`. */
export function camelCase(key: string): string {
  return key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

function unknownKey(
  key: string,
  here: readonly string[],
  { root, foreign }: Pick<FileReading, 'root' | 'foreign'>,
): string {
  const brought = lettersOf(key)
  const same = here.find(one => lettersOf(one) === brought)
  if (same !== undefined) return `no such setting; did you mean ${same}?`
  const known = Object.hasOwn(foreign, brought) ? foreign[brought] : undefined
  if (typeof known === 'object') return `no such setting; ${known.says}`
  if (known !== undefined) return `no such setting; did you mean ${known}?`
  const near = nearestName(key, here)
  if (near !== undefined) return `no such setting; did you mean ${near}?`
  const elsewhere = [...manualPages(root)].find(({ path }) => path.at(-1) === key)
  return elsewhere === undefined
    ? 'no such setting; remove it, or see the manual for what there is'
    : `no such setting here; did you mean ${keyPath(elsewhere.path)}?`
}

/** A key without what divides its words: `cachedir` for `Cache-Dir`. */
function lettersOf(key: string): string {
  return key.toLowerCase().replace(/[^a-z0-9]/g, '')
}
