/**
 * Writes a tree of settings as a manual: Markdown for the repository, man(7) source for the terminal, and the JSON Schema of
 * its file. Pure.
 */

import { basename } from 'node:path'
import type { JsonObject } from '../json.ts'
import { jsonText } from '../json.ts'
import { keyPath } from './reading.ts'
import { relationSentences } from './relations.ts'
import { manualPages, type SettingManual, type Settings, schemaOf } from './settings.ts'

/** A part of a manual; a text is a paragraph. Words between back quotes are literal: names of settings, values, commands. */
export type Block =
  | string
  | { readonly kind: 'heading'; readonly level: 2 | 3; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'entry'; readonly term: string; readonly blocks: readonly Block[] }

export const heading = (text: string, level: 2 | 3 = 2): Block => ({ kind: 'heading', level, text })
export const code = (text: string): Block => ({ kind: 'code', text })
export const entry = (term: string, ...blocks: readonly Block[]): Block => ({
  kind: 'entry',
  term,
  blocks,
})

/** A file of settings, and the other parts of its manual. */
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
  /** The last parts of the man page, which the document does not have. */
  readonly end: readonly Block[]
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
    [document.path, markdown(document.title, [written, settingIndex(settings), ...blocks])],
    [`man/${name}.5`, manPage(name, summary, [...blocks, ...end])],
    [schema, jsonText(jsonSchema(settings, name))],
  ])
}

/** The settings by group as a Markdown list, each a link to its section. */
function settingIndex(settings: Settings<unknown>): string {
  const link = (name: string): string => `[\`${name}\`](#${anchorOf(name)})`
  const lines = new Map<string, string[]>()
  let group: readonly string[] | undefined
  for (const page of manualPages(settings)) {
    const name = keyPath(page.path)
    if ('group' in page) {
      group = page.path
      lines.set(name, [])
      continue
    }
    const within = group?.every((step, index) => step === page.path[index]) ?? false
    const under = within && group !== undefined ? keyPath(group) : ''
    lines.set(under, [...(lines.get(under) ?? []), link(name)])
  }
  const list = [...lines].map(([name, links]) => {
    const head = name === '' ? 'Without a group' : `[${name}](#${anchorOf(name)})`
    return `- ${[`${head}:`, links.join(', ')].join(' ')}`
  })
  return ['The settings by group:', '', ...list].join('\n')
}

/** The anchor of a heading, as GitHub makes it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}

/** Settings outside any group come first, and each group is a section of its own. */
function settingBlocks({ settings, remark }: SettingFile): readonly Block[] {
  const top: Block[] = []
  const groups: Block[] = []
  let group: readonly string[] | undefined
  for (const page of manualPages(settings)) {
    if ('group' in page) group = page.path
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
  const change = `A change needs a ${setting.restart === undefined ? 'reload' : 'restart'}.`
  const parts = [`${type}.`, given, change, ...relationSentences(setting.relations), remark]
  const facts = parts.filter(part => part !== undefined).join(' ')
  return [facts, ...setting.manual, ...(example === undefined ? [] : [code(example)])]
}

/** The default in the form a file would have; a missing or empty default is `none`. */
function defaultText(value: unknown): string {
  if (value === '' || value === undefined) return 'none'
  if (!Array.isArray(value)) return `\`${value}\``
  return value.length === 0 ? 'none' : value.map(member => `\`${member}\``).join(', ')
}

/** The tree as JSON Schema (draft 2020-12), for editors that complete and check YAML. */
export function jsonSchema(settings: Settings<unknown>, title: string): JsonObject {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', ...schemaOf(settings), title }
}

/** The blocks as Markdown. An entry is a heading one level below the heading above it. */
export function markdown(title: string, blocks: readonly Block[]): string {
  let level = 1
  const written = blocks.map(block => {
    if (typeof block !== 'string' && block.kind === 'heading') level = block.level
    return markdownBlock(block, level)
  })
  return `# ${title}\n\n${written.join('\n\n')}\n`
}

function markdownBlock(block: Block, level: number): string {
  if (typeof block === 'string') return block
  switch (block.kind) {
    case 'heading':
      return `${'#'.repeat(block.level)} ${block.text}`
    case 'code':
      return `\`\`\`yaml\n${block.text}\n\`\`\``
    case 'entry':
      return [
        `${'#'.repeat(level + 1)} \`${block.term}\``,
        ...block.blocks.map(inner => markdownBlock(inner, level + 1)),
      ].join('\n\n')
  }
}

/** The date in the head of every man page, which is that of their last complete revision. */
const edition = '2026-11-22'

/** The page of a service's configuration file, `SERVICE.yaml`, as man(7) source, clean under `groff -man -ww`. */
export function manPage(name: string, summary: string, blocks: readonly Block[]): string {
  const head = [
    '.\\" Written from the settings of the program: change them, not this file.',
    `.TH ${name.toUpperCase()} 5 "${edition}" "${basename(name, '.yaml')}" "File formats"`,
    // A setting broken at a hyphen cannot be copied.
    '.nh',
    '.SH NAME',
    `${roffText(name)} \\- ${roffText(summary)}`,
  ]
  const body = blocks.map(roffBlock).join('\n')
  // A heading begins a paragraph by itself.
  return `${[...head, body.replaceAll(/^(\.S[HS] .*)\n\.PP$/gm, '$1')].join('\n')}\n`
}

function roffBlock(block: Block): string {
  if (typeof block === 'string') return `.PP\n${roffText(block)}`
  switch (block.kind) {
    case 'heading':
      return block.level === 2 ? `.SH ${block.text.toUpperCase()}` : `.SS ${roffText(block.text)}`
    case 'code':
      return `.PP\n.RS 4\n.nf\n${roffLines(block.text)}\n.fi\n.RE`
    case 'entry':
      return `.TP\n.B ${roffLiteral(block.term)}\n${block.blocks.map(roffInEntry).join('\n')}`
  }
}

/** Inside an entry a paragraph keeps the indentation. The first one needs no request. */
function roffInEntry(block: Block, index: number): string {
  if (typeof block === 'string') return `${index === 0 ? '' : '.IP\n'}${roffText(block)}`
  if (block.kind === 'code') return `.IP\n.nf\n${roffLines(block.text)}\n.fi`
  return roffBlock(block)
}

/** Writes running text. Each sentence begins a line, as man(7) asks, lines are short, and literal words are bold. */
function roffText(text: string): string {
  return text
    .split('`')
    .map((part, i) => (i % 2 === 1 ? `\\fB${roffLiteral(part)}\\fR` : roffEscape(part)))
    .join('')
    .split(/(?<=[.?]) (?=[A-Z`\\])/)
    .flatMap(sentence => sentence.match(/.{1,78}(?:\s|$)|\S+/g) ?? [])
    .map(line => protectLine(line.trimEnd()))
    .join('\n')
}

function roffLines(text: string): string {
  return text.split('\n').map(roffLiteral).map(protectLine).join('\n')
}

function roffEscape(text: string): string {
  return text.replace(/\\/g, '\\e').replace(/’/g, '\\(cq').replace(/…/g, '...')
}

/** Escapes text that readers copy, so that its hyphens and quotes stay as they are. */
function roffLiteral(text: string): string {
  return text
    .replace(/\\/g, '\\e')
    .replace(/-/g, '\\-')
    .replace(/'/g, '\\(aq')
    .replace(/"/g, '\\(dq')
    .replace(/~/g, '\\(ti')
    .replace(/\^/g, '\\(ha')
    .replace(/`/g, '\\(ga')
    .replace(/…/g, '...')
}

/** A line that begins with a full stop or an apostrophe would be a request. */
function protectLine(line: string): string {
  return /^[.']/.test(line) ? `\\&${line}` : line
}
