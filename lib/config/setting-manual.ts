/**
 * A tree of settings as the blocks of a manual, and as the JSON Schema of its file.
 */
import type { JsonObject } from '../json.ts'
import { type Block, code, entry, heading, paragraph } from './manual.ts'
import { keyPath } from './reading.ts'
import { type ManualPage, manualPages, type SettingManual, type Settings } from './settings.ts'

/** What a service says of its settings besides what they say themselves. */
export interface SettingBlocksOptions {
  /** Pages that are left out. */
  readonly leaveOut?: (page: ManualPage) => boolean
  /** A sentence for the line of type and default. */
  readonly remark?: (path: readonly string[]) => string | undefined
}

/** Settings outside any group come first as they stand; each group is a section of its own. */
export function settingBlocks(
  settings: Settings<unknown>,
  options: SettingBlocksOptions = {},
): readonly Block[] {
  const top: Block[] = []
  const groups: Block[] = []
  let group: readonly string[] | undefined
  for (const page of manualPages(settings)) {
    if ('group' in page) group = page.path
    if (options.leaveOut?.(page) === true) continue
    const name = keyPath(page.path)
    if ('group' in page) groups.push(heading(name, 3), paragraph(page.group))
    else {
      const within = group?.every((step, index) => step === page.path[index]) ?? false
      const block = entry(name, ...settingEntry(page.path, page.setting, options))
      ;(within ? groups : top).push(block)
    }
  }
  return [...top, ...groups]
}

function settingEntry(
  path: readonly string[],
  setting: SettingManual,
  { remark }: SettingBlocksOptions,
): readonly Block[] {
  const { name, range, example } = setting
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}${range === undefined ? '' : `, ${range}`}`
  const fallback = setting.defaultText ?? defaultText(setting.default)
  const given = setting.required === true ? 'Required.' : `Default: ${fallback}.`
  const facts = [`${type}.`, given, remark?.(path)]
  return [
    paragraph(facts.filter(fact => fact !== undefined).join(' ')),
    ...setting.manual.map(paragraph),
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
