/**
 * A tree of settings as the blocks of a manual, and as the JSON Schema of its file.
 */
import type { JsonObject } from '../json.ts'
import { type Block, code, entry, heading, manPage, markdown } from './manual.ts'
import { keyPath } from './reading.ts'
import { type ManualPage, manualPages, type SettingManual, type Settings } from './settings.ts'

/** A file of settings, and what its manual says besides the settings. */
export interface SettingFile {
  /** `cachesvc.yaml` */
  readonly name: string
  readonly settings: Settings<unknown>
  /** The source of the settings, by its path in the repository. */
  readonly source: string
  readonly document: { readonly path: string; readonly title: string }
  readonly summary: string
  readonly introduction: readonly Block[]
  readonly example: readonly Block[]
  /** What follows in the man page alone. */
  readonly end: readonly Block[]
  /** Pages that are left out. */
  readonly leaveOut?: (page: ManualPage) => boolean
  /** A sentence for the line of type and default. */
  readonly remark?: (path: readonly string[]) => string | undefined
}

/** The document, the man page and the JSON Schema of a file of settings, by their paths in the repository. */
export function manualFiles(file: SettingFile): ReadonlyMap<string, string> {
  const { name, settings, source, document, summary, introduction, example, end } = file
  const written = `<!-- Written by \`npm run manual\` from ${source}: change that, not this file. -->`
  const blocks = [...introduction, heading('Settings'), ...settingBlocks(file), ...example]
  const schema = `packaging/${name.replace('.yaml', '.schema.json')}`
  return new Map([
    [document.path, markdown(document.title, [written, ...blocks])],
    [`man/${name}.5`, manPage(name, summary, [...blocks, ...end])],
    [schema, `${JSON.stringify(jsonSchema(settings, name), null, 2)}\n`],
  ])
}

/** Settings outside any group come first as they stand; each group is a section of its own. */
function settingBlocks({ settings, leaveOut, remark }: SettingFile): readonly Block[] {
  const top: Block[] = []
  const groups: Block[] = []
  let group: readonly string[] | undefined
  for (const page of manualPages(settings)) {
    if ('group' in page) group = page.path
    if (leaveOut?.(page) === true) continue
    const name = keyPath(page.path)
    if ('group' in page) groups.push(heading(name, 3), page.group)
    else {
      const within = group?.every((step, index) => step === page.path[index]) ?? false
      const block = entry(name, ...settingEntry(page.setting, remark?.(page.path)))
      ;(within ? groups : top).push(block)
    }
  }
  return [...top, ...groups]
}

function settingEntry(setting: SettingManual, remark: string | undefined): readonly Block[] {
  const { name, range, example } = setting
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}${range === undefined ? '' : `, ${range}`}`
  const fallback = setting.defaultText ?? defaultText(setting.default)
  const given = setting.required === true ? 'Required.' : `Default: ${fallback}.`
  const facts = [`${type}.`, given, remark]
  return [
    facts.filter(fact => fact !== undefined).join(' '),
    ...setting.manual,
    ...(example === undefined ? [] : [code(example)]),
  ]
}

/** The default as it would be written; nothing at all is called so. */
function defaultText(value: unknown): string {
  if (value === '' || value === undefined) return 'none'
  if (!Array.isArray(value)) return `\`${value}\``
  return value.length === 0 ? 'none' : value.map(member => `\`${member}\``).join(', ')
}

/** The tree as JSON Schema (draft 2020-12), for editors that complete and check YAML. */
export function jsonSchema(settings: Settings<unknown>, title: string): JsonObject {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...schemaOf(settings), title }
}

function schemaOf({ page, members }: Settings<unknown>): JsonObject {
  const object = members === undefined ? {} : objectSchema(members)
  if ('group' in page) {
    return { ...object, ...(page.group === '' ? {} : { description: page.group }) }
  }
  const { json, manual, default: fallback } = page.setting
  return {
    ...json,
    ...(members === undefined ? {} : { items: object }),
    ...(fallback === undefined ? {} : { default: fallback }),
    description: manual.join('\n\n'),
  }
}

function objectSchema(members: NonNullable<Settings<unknown>['members']>): JsonObject {
  const entries = Object.entries(members)
  const required = entries.filter(([, member]) => isRequired(member)).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, member]) => [name, schemaOf(member)])),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  }
}

/** A group is required for the sake of a member. */
function isRequired({ page, members = {} }: Settings<unknown>): boolean {
  return 'setting' in page
    ? page.setting.required === true
    : Object.values(members).some(isRequired)
}
