/**
 * A tree of settings as the blocks of a manual: an entry for each setting, a section for each group.
 */
import { type Block, code, entry, heading, paragraph } from './manual.ts'
import { keyPath } from './reading.ts'
import { type ManualPage, manualPages, type SettingManual } from './settings.ts'

/** What a service says of its settings besides what they say themselves. */
export interface SettingBlocksOptions {
  /** Pages that are left out. */
  readonly leaveOut?: (page: ManualPage) => boolean
  /** A sentence for the line of type and default. */
  readonly remark?: (path: readonly string[]) => string | undefined
}

/** Settings outside any group come first as they stand; each group is a section of its own. */
export function settingBlocks(
  settings: Parameters<typeof manualPages>[0],
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
  const { kind, range, example } = setting
  const type = `${kind.charAt(0).toUpperCase()}${kind.slice(1)}${range === undefined ? '' : `, ${range}`}`
  const fallback = setting.defaultText ?? defaultText(setting.default)
  const given = setting.required ? 'Required.' : `Default: ${fallback}.`
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
