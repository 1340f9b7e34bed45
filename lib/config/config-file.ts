/**
 * Reads a configuration file in YAML 1.2, and tells every problem with its line and column. The only importer of yaml; the
 * Check it is given defines the settings.
 *
 * # Facts
 * - A mistake in the file must not use much time or memory: size, nesting and aliases are bounded, keys are unique, text is
 *   UTF-8, and a file is one document.
 * - `key:` without a value counts as absent: authors comment out the lines below it.
 */
import { isUtf8 } from 'node:buffer'
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml'
import { explainError, unreadableReason } from '../errors.ts'
import { readBounded } from '../files/bounded-file.ts'
import { isRecord, type JsonObject } from '../json.ts'
import { type Check, type CheckResult, type Path, type Remark, remarkText } from './reading.ts'

/** Problems and warnings are finished lines: `path:line:column: key.path: what is wrong and how to mend it`. */
export type LoadResult<T> = CheckResult<T, string>

const LARGEST_FILE = 1024 * 1024
const MOST_ALIAS_NODES = 100

/** Reads and checks the file at `path`. A file that cannot be read is a problem like any other, never an exception. */
export async function loadConfigFile<T>(path: string, check: Check<T>): Promise<LoadResult<T>> {
  let bytes: Buffer
  try {
    bytes = (await readBounded(path, LARGEST_FILE)).bytes
  } catch (error) {
    return failed(`${path}: ${unreadableReason(error)}`)
  }
  if (!isUtf8(bytes)) return failed(`${path}: is not UTF-8 text; save it in that encoding`)
  return decodeConfig(new TextDecoder().decode(bytes), path, check)
}

/**
 * The content of a file as far as it can be read, for the few values that are needed while the file has problems. The content
 * is not checked. It is empty when there is no file, or no mapping in it.
 */
export async function looseSettings(path: string): Promise<JsonObject> {
  try {
    const { bytes } = await readBounded(path, LARGEST_FILE)
    const document = parseDocument(bytes.toString(), { logLevel: 'error', stringKeys: true })
    const found: unknown = document.toJS({ maxAliasCount: MOST_ALIAS_NODES, reviver: withoutEmpty })
    return isRecord(found) ? found : {}
  } catch {
    return {}
  }
}

/** Checks the text of a configuration file; `name` is what messages call it. */
export function decodeConfig<T>(text: string, name: string, check: Check<T>): LoadResult<T> {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, {
    lineCounter,
    logLevel: 'error',
    prettyErrors: false,
    stringKeys: true,
    uniqueKeys: true,
  })
  const place = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset)
    return `${name}:${Math.max(1, line)}:${Math.max(1, col)}`
  }

  const errors = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  if (errors.length > 0) {
    // A mistake in the syntax causes further errors after it. A deeply nested file has one for each level.
    const mistake = errors.findIndex(({ code }) => !meaningful.has(code))
    const first = errors.slice(0, mistake < 0 ? 5 : mistake + 1)
    const told = first.map(error => yamlProblem(error, document, text))
    return failed(...told.map(({ at, problem }) => `${place(at)}: ${problem}`))
  }

  let found: unknown
  try {
    found = document.toJS({ maxAliasCount: MOST_ALIAS_NODES, reviver: withoutEmpty })
  } catch (error) {
    const alias = /alias.*: (.*)$/.exec(explainError(error))?.[1]
    if (alias !== undefined) {
      return failed(
        `${place(firstAlias(alias, document))}: a value that begins with * needs quotes`,
      )
    }
    return failed(`${name}: it is nested too deeply, or has too many aliases`)
  }

  const lineOf = (path: Path) =>
    Math.max(1, lineCounter.linePos(offsetOf(document, { path, at: 'key', text: '' })).line)
  const checked = check(found ?? {}, { lineOf, empty: emptyKeys(document) })
  const lines = (remarks: readonly Remark[]): readonly string[] =>
    remarks
      .map(remark => ({ remark, offset: offsetOf(document, remark) }))
      .sort((a, b) => a.offset - b.offset)
      .map(({ remark, offset }) => `${place(offset)}: ${remarkText(remark)}`)
  const warnings = lines(checked.warnings)
  return checked.ok
    ? { ...checked, warnings }
    : { ...checked, warnings, problems: lines(checked.problems) }
}

/** The offset that a remark points to: its value or key, or the nearest enclosing part of the file. */
function offsetOf(document: Document, remark: Remark): number {
  let node: unknown = document.contents
  let offset = startOf(node) ?? 0
  for (const [i, step] of remark.path.entries()) {
    const last = i === remark.path.length - 1
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === step)
      if (pair === undefined) return offset
      offset = startOf(pair.key) ?? offset
      node = pair.value
      if (last && remark.at === 'key') return offset
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step]
    } else return offset
    offset = startOf(node) ?? offset
  }
  return offset
}

function firstAlias(name: string, document: Document): number {
  let found = 0
  visit(document, {
    Alias(_, alias) {
      if (alias.source !== name) return undefined
      found = startOf(alias) ?? found
      return visit.BREAK
    },
  })
  return found
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined
}

/** Leaves out the keys of a mapping that have no value. */
function withoutEmpty(this: unknown, _: unknown, value: unknown): unknown {
  return value === null && !Array.isArray(this) ? undefined : value
}

/** Keys of mappings that have no value. */
function emptyKeys(document: Document): readonly Path[] {
  const found: Path[] = []
  visit(document, {
    Pair(_, pair, ancestors) {
      const { value } = pair
      if (value !== null && !(isScalar(value) && value.value === null)) return
      const nodes = [...ancestors, pair]
      found.push(
        nodes.flatMap((node, at): Path => {
          if (isPair(node)) return [isScalar(node.key) ? String(node.key.value) : '']
          return isSeq(node) ? [node.items.indexOf(nodes[at + 1])] : []
        }),
      )
    },
  })
  return found
}

/** Errors after which the rest of the file is still understood. */
const meaningful: ReadonlySet<string> = new Set([
  'DUPLICATE_KEY',
  'TAG_RESOLVE_FAILED',
  'RESOURCE_EXHAUSTION',
])

/**
 * The problem and its place. For a text or list that is never closed, the place is its beginning, because the parser notices
 * the mistake much later.
 */
function yamlProblem({ code, message, pos: [at] }: YAMLError, document: Document, text: string) {
  if (!/^(Missing closing|Flow (map|sequence) in block collection)/.test(message)) {
    return { at, problem: yamlSentence(code, message) }
  }
  const opened = openedBefore(at, document)
  const mark = text.charAt(opened)
  const end = mark === '[' ? ']' : mark === '{' ? '}' : mark
  const problem = `the ${mark} that begins here is not closed: a ${end} is missing, or the lines up to it are not indented`
  return { at: opened, problem }
}

/** The beginning of the innermost quoted text, list or mapping that reaches up to an offset. */
function openedBefore(at: number, document: Document): number {
  let found = at
  visit(document, {
    Node: (_, node) => {
      const [start = at, end = at] = node.range ?? []
      const opens = isCollection(node)
        ? node.flow === true
        : isScalar(node) && node.type?.startsWith('QUOTE') === true
      if (opens && start <= at && end >= at && (found === at || start > found)) found = start
    },
  })
  return found
}

function yamlSentence(code: string, message: string): string {
  return yamlSentences[code] ?? `not YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`
}

const notAKey = 'this is neither `key: value` nor part of the line above; is a colon missing?'

const yamlSentences: Readonly<Record<string, string>> = {
  TAG_RESOLVE_FAILED:
    'tags are not used here: remove it, or put a value that begins with ! in quotes',
  DUPLICATE_KEY: 'this key is written twice in the same mapping; remove one of them',
  TAB_AS_INDENT: 'a tab cannot indent YAML; use spaces',
  MULTIPLE_DOCS: 'a second document begins here; a configuration file is one document',
  RESOURCE_EXHAUSTION: 'this is nested too deeply',
  BAD_SCALAR_START: 'a value cannot begin with this character: put the value in quotes',
  BAD_DQ_ESCAPE:
    'a backslash in double quotes begins an escape, and this is not a valid escape: use single quotes',
  BAD_INDENT:
    'this line is not indented as the lines above; entries of one group begin in the same column',
  BLOCK_AS_IMPLICIT_KEY:
    'this line is not indented as the lines above, or a value with a colon and a space in it needs quotes',
  UNEXPECTED_TOKEN: 'this character is not expected here: put values that have it in quotes',
  MISSING_CHAR: notAKey,
  MULTILINE_IMPLICIT_KEY: notAKey,
}

function failed(...problems: readonly string[]): LoadResult<never> {
  return { ok: false, problems, warnings: [] }
}
