/**
 * What a setting is: its kind, its default and its sentence in the manual, in one place. A tree of settings checks a file,
 * writes its own manual and describes itself to editors as JSON Schema. The only importer of zod.
 *
 * # Representation
 * zod walks the tree, finds unknown keys and types the outcome. What a single value may be is told by a Kind, whose reader
 * answers with the value or with a whole sentence: what was found, what is expected, how to mend it.
 */
// biome-ignore lint/style/noRestrictedImports: the one importer
import { z } from 'zod'
import { type Check, keyPath, nearest, type Remark } from './config-file.ts'
import type { Read } from './units.ts'

/** What one value may be. */
export interface Kind<T> {
  /** Name in the manual: `duration`, `list of addresses`. */
  readonly name: string
  /** What else the manual says about the type: the range, the words allowed. */
  readonly range?: string
  /** JSON Schema of the text in the file. */
  readonly json: Readonly<Record<string, unknown>>
  readonly schema: z.ZodType<T>
}

/** A setting's page in the manual. Sentences are plain text with `code` in back quotes, an array element a paragraph. */
export interface SettingManual {
  readonly kind: string
  readonly range: string | undefined
  /** As it would stand in the file; undefined when there is none. */
  readonly default: unknown
  /** Said instead of the default when that is not a fixed value. */
  readonly defaultText: string | undefined
  readonly manual: readonly string[]
  readonly example: string | undefined
}

export interface SettingOptions {
  readonly default?: unknown
  readonly defaultText?: string
  readonly manual: string | readonly string[]
  /** Lines of YAML, complete from the outermost key. */
  readonly example?: string
}

const manuals = z.registry<SettingManual>()
const groupManuals = z.registry<{ readonly manual: string }>()
const jsonShapes = z.registry<{ readonly json: Readonly<Record<string, unknown>> }>()

/** A kind of value from a reader; the reader never throws. */
export function kind<T>(
  facts: { readonly name: string; readonly range?: string; readonly json: Kind<T>['json'] },
  read: (found: unknown) => Read<T>,
): Kind<T> {
  const schema = z.unknown().transform((found, context): T => {
    const outcome = read(found)
    if (outcome.ok) return outcome.value
    context.addIssue({ code: 'custom', message: outcome.problem })
    return z.NEVER
  })
  jsonShapes.add(schema, { json: facts.json })
  return { ...facts, schema }
}

/** A list of a kind, every member checked and reported by itself. */
export function listOf<T>(member: Kind<T>, names: string, most = 10_000): Kind<T[]> {
  const schema = z.array(member.schema, {
    error: issue =>
      `found ${describe(issue.input)}, expected a list; write [a, b] or a line "- a" each`,
  })
  return {
    name: `list of ${names}`,
    ...(member.range === undefined ? {} : { range: member.range }),
    json: { type: 'array', items: member.json, maxItems: most },
    schema: schema.max(most, { error: `more than ${most} members` }),
  }
}

/** A setting with a default, which is read like a value from the file and has to be right. */
export function setting<T>(
  of: Kind<T>,
  options: SettingOptions & { readonly default: unknown },
): z.ZodType<T> {
  return withManual(of.schema.prefault(options.default as never), of, options)
}

/** A setting that may be left out and is then undefined. */
export function optional<T>(of: Kind<T>, options: SettingOptions): z.ZodType<T | undefined> {
  return withManual(of.schema.optional(), of, options)
}

/** Settings below one key. */
export function group<S extends z.ZodRawShape>(manual: string, settings: S) {
  const object = z
    .strictObject(settings, {
      error: issue =>
        issue.code === 'invalid_type'
          ? `found ${describe(issue.input)}, expected settings of the form "name: value", indented below this key`
          : undefined,
    })
    // The type system cannot see that every setting of ours has a default.
    .prefault({} as never)
  groupManuals.add(object, { manual })
  return object
}

/** A list of groups, such as `remap`. */
export function listOfGroups<S extends z.ZodRawShape>(
  settings: S,
  options: SettingOptions & { readonly kind: string },
) {
  const members = z
    .array(
      z.strictObject(settings, {
        error: issue =>
          issue.code === 'invalid_type'
            ? `found ${describe(issue.input)}, expected settings of the form "name: value"`
            : undefined,
      }),
      {
        error: issue =>
          `found ${describe(issue.input)}, expected a list of settings, each begun with "- "`,
      },
    )
    .prefault([])
  manuals.add(members, manualOf({ name: options.kind }, options))
  return members
}

/** A tree of settings: what `group` makes, or all of a file. */
export type Settings<T> = z.ZodType<T>

/** The values a tree of settings reads. */
export type ValuesOf<S extends z.ZodType> = z.output<S>

/** Checks a whole file against a tree of settings, in the form `loadConfigFile` takes. */
export function checkSettings<T>(settings: Settings<T>): Check<T> {
  return found => {
    const outcome = settings.safeParse(found)
    if (outcome.success) return { ok: true, value: outcome.data, warnings: [] }
    const problems = outcome.error.issues.flatMap(issue => remarks(settings, issue))
    return { ok: false, problems, warnings: [] }
  }
}

/** Every setting and group of a tree in the order written, with its path. */
export type ManualPage =
  | { readonly path: readonly string[]; readonly setting: SettingManual }
  | { readonly path: readonly string[]; readonly group: string }

export function* manualPages(
  settings: z.ZodType,
  path: readonly string[] = [],
): Generator<ManualPage> {
  const own = manuals.get(settings)
  if (own !== undefined) yield { path, setting: own }
  const about = groupManuals.get(settings)
  if (about !== undefined && path.length > 0) yield { path, group: about.manual }
  for (const [name, inner] of Object.entries(shapeOf(settings) ?? {})) {
    yield* manualPages(
      inner,
      own === undefined ? [...path, name] : [...path.slice(0, -1), `${path.at(-1)}[]`, name],
    )
  }
}

/** The tree as JSON Schema (draft 2020-12), for editors that complete and check YAML. */
export function jsonSchema(
  settings: z.ZodType,
  about: { readonly title: string },
): Record<string, unknown> {
  const schema = z.toJSONSchema(settings, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const type = zodSchema as unknown as z.ZodType
      Object.assign(jsonSchema, jsonShapes.get(type)?.json)
      const manual = manuals.get(type)?.manual.join('\n\n') ?? groupManuals.get(type)?.manual
      if (manual !== undefined) jsonSchema.description = manual
    },
  })
  return { ...schema, ...about }
}

/** What was met in the file, for a message: `"8 parsecs"`, `a list`, `nothing`. */
export function describe(found: unknown): string {
  if (found === null || found === undefined) return 'nothing'
  if (Array.isArray(found)) return 'a list'
  switch (typeof found) {
    case 'string': {
      const short = found.length > 60 ? `${found.slice(0, 60)}…` : found
      return JSON.stringify(short)
    }
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(found)
    default:
      return 'a group of settings'
  }
}

function withManual<T>(
  schema: z.ZodType<T>,
  of: { readonly name: string; readonly range?: string },
  options: SettingOptions,
) {
  manuals.add(schema, manualOf(of, options))
  return schema
}

function manualOf(
  of: { readonly name: string; readonly range?: string },
  options: SettingOptions,
): SettingManual {
  return {
    kind: of.name,
    range: of.range,
    default: options.default,
    defaultText: options.defaultText,
    manual: typeof options.manual === 'string' ? [options.manual] : options.manual,
    example: options.example,
  }
}

function remarks(settings: z.ZodType, issue: z.core.$ZodIssue): Remark[] {
  const path = issue.path.map(step => (typeof step === 'number' ? step : String(step)))
  if (issue.code !== 'unrecognized_keys') return [{ path, at: 'value', text: issue.message }]
  return issue.keys.map(key => ({
    path: [...path, key],
    at: 'key',
    text: unknownKey(settings, path, key),
  }))
}

function unknownKey(settings: z.ZodType, path: Remark['path'], key: string): string {
  const here = shapeOf(path.reduce<z.ZodType | undefined>(stepInto, settings)) ?? {}
  const near = nearest(key, Object.keys(here))
  if (near !== undefined) return `no such setting; did you mean ${near}?`
  for (const page of manualPages(settings)) {
    if (page.path.at(-1) === key) return `no such setting here; did you mean ${keyPath(page.path)}?`
  }
  return 'no such setting; remove it, or see the manual for what there is'
}

function stepInto(settings: z.ZodType | undefined, step: string | number): z.ZodType | undefined {
  return typeof step === 'number' ? settings : shapeOf(settings)?.[step]
}

/** The members of a group or of the groups in a list, whatever is wrapped around them. */
function shapeOf(settings: z.ZodType | undefined): Readonly<Record<string, z.ZodType>> | undefined {
  if (settings instanceof z.ZodObject) return settings.shape
  if (settings instanceof z.ZodPrefault || settings instanceof z.ZodOptional) {
    return shapeOf(settings.unwrap() as z.ZodType)
  }
  return settings instanceof z.ZodArray ? shapeOf(settings.element as z.ZodType) : undefined
}
