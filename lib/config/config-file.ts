/**
 * A configuration file: YAML in, checked values out, every problem at once and each with the place it stands at.
 * Knows files and YAML 1.2; knows no service and no schema. What a file may say is told by the Check it is given.
 *
 * # Facts
 * - The file is trusted about as far as its author's typing: size, nesting and aliases are bounded, keys are unique, text
 *   is UTF-8, one document a file.
 * - `key:` with nothing behind it is the key not being there: people comment out the lines below it.
 */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  // biome-ignore lint/style/noRestrictedImports: the one importer
} from 'yaml'
import { systemCode } from '../errors.ts'

/** Something to tell the author of the file, at a place named by keys and list indexes. */
export interface Remark {
  readonly path: readonly (string | number)[]
  /** Whether the key or its value is what is remarked on. */
  readonly at: 'key' | 'value'
  readonly text: string
}

/** What a schema says of a whole file: the values, or what is wrong with them. */
export type Checked<T> =
  | { readonly ok: true; readonly value: T; readonly warnings: readonly Remark[] }
  | {
      readonly ok: false
      readonly problems: readonly Remark[]
      readonly warnings: readonly Remark[]
    }

export type Check<T> = (found: unknown) => Checked<T>

/** Problems and warnings are finished lines: `path:line:column: key.path: what is wrong and how to mend it`. */
export type Loaded<T> =
  | { readonly ok: true; readonly value: T; readonly warnings: readonly string[] }
  | {
      readonly ok: false
      readonly problems: readonly string[]
      readonly warnings: readonly string[]
    }

const LARGEST_FILE = 1024 * 1024
const MOST_ALIAS_NODES = 100

/** Reads and checks the file at `path`. A file that cannot be read is a problem like any other, never an exception. */
export async function loadConfigFile<T>(path: string, check: Check<T>): Promise<Loaded<T>> {
  let bytes: Buffer
  try {
    bytes = await readBounded(path)
  } catch (error) {
    return failed(`${path}: ${whyUnreadable(error)}`)
  }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return failed(`${path}: is not UTF-8 text; save it in that encoding`)
  }
  return decodeConfig(text, path, check)
}

/** Checks the text of a configuration file; `name` is what messages call it. */
export function decodeConfig<T>(text: string, name: string, check: Check<T>): Loaded<T> {
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    logLevel: 'error',
    prettyErrors: false,
    stringKeys: true,
    uniqueKeys: true,
  })
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `${name}:${Math.max(1, line)}:${Math.max(1, col)}`
  }

  const complaints = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  if (complaints.length > 0) {
    // A deeply nested file fails once a level; the first few lines say all there is to say.
    const said = complaints.slice(0, 5)
    return failed(...said.map(e => `${place(e.pos[0])}: ${yamlSentence(e.code, e.message)}`))
  }

  let found: unknown
  try {
    found = withoutEmpty(document.toJS({ maxAliasCount: MOST_ALIAS_NODES }))
  } catch (error) {
    const why = error instanceof ReferenceError ? error.message : 'it is nested too deeply'
    return failed(`${name}: cannot be read as YAML: ${why}`)
  }

  const checked = check(found ?? {})
  const line = (remark: Remark): string => {
    const where = place(offsetOf(document, remark))
    return remark.path.length === 0
      ? `${where}: ${remark.text}`
      : `${where}: ${keyPath(remark.path)}: ${remark.text}`
  }
  const inOrder = (remarks: readonly Remark[]): readonly string[] =>
    [...remarks].sort((a, b) => offsetOf(document, a) - offsetOf(document, b)).map(line)
  const warnings = inOrder(checked.warnings)
  return checked.ok
    ? { ok: true, value: checked.value, warnings }
    : { ok: false, problems: inOrder(checked.problems), warnings }
}

/** What stands at this place of a decoded file; undefined when nothing does. */
export function valueAt(tree: unknown, path: readonly string[]): unknown {
  let here = tree
  for (const step of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, step)) return undefined
    here = Object.getOwnPropertyDescriptor(here, step)?.value
  }
  return here
}

/** `remap[2].from`: how messages and manuals name a place in the file. */
export function keyPath(path: readonly (string | number)[]): string {
  return path
    .map((step, i) => (typeof step === 'number' ? `[${step}]` : i ? `.${step}` : step))
    .join('')
}

/** The known word nearest to what was typed, when it is near enough to be meant; undefined otherwise. */
export function nearest(typed: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(Math.min(typed.length, 40) / 3)) + 1
  for (const word of known) {
    const distance = editDistance(typed.slice(0, 64).toLowerCase(), word.toLowerCase())
    if (distance < bestDistance) {
      best = word
      bestDistance = distance
    }
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours between two short words (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(
        (previous[j] ?? 0) + 1,
        (current[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + (same ? 0 : 1),
      )
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (before[j - 2] ?? 0) + 1)
      }
      current.push(cost)
    }
    before = previous
    previous = current
  }
  return previous[b.length] ?? 0
}

/** Where a remark points: its value or key, or the nearest thing around it that stands in the file. */
function offsetOf(document: Document, remark: Remark): number {
  let node: unknown = document.contents
  let offset = startOf(node) ?? 0
  for (const [i, step] of remark.path.entries()) {
    const last = i === remark.path.length - 1
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find(
        ({ key }) => (isScalar(key) ? String(key.value) : undefined) === step,
      )
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

function startOf(node: unknown): number | undefined {
  return isNode(node) ? (node as Node).range?.[0] : undefined
}

/** The same tree less the keys that have no value. */
function withoutEmpty(found: unknown): unknown {
  if (Array.isArray(found)) return found.map(withoutEmpty)
  if (typeof found !== 'object' || found === null) return found
  const kept = Object.entries(found).filter(([, value]) => value !== null)
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutEmpty(value)]))
}

function yamlSentence(code: string, message: string): string {
  switch (code) {
    case 'DUPLICATE_KEY':
      return 'this key stands twice in the same mapping; remove one of them'
    case 'TAB_AS_INDENT':
      return 'a tab cannot indent YAML; use spaces'
    case 'MULTIPLE_DOCS':
      return 'a second document begins here; a configuration file is one document'
    case 'RESOURCE_EXHAUSTION':
      return 'this is nested too deeply'
    case 'TAG_RESOLVE_FAILED':
      return `${message}; tags are not used here, remove it`
    default:
      return `not YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`
  }
}

class Unreadable extends Error {}

async function readBounded(path: string): Promise<Buffer> {
  let file: FileHandle | undefined
  try {
    // O_NONBLOCK: opening a FIFO nobody writes to must not wait.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const facts = await file.stat()
    if (facts.isDirectory()) throw new Unreadable('is a directory, not a file')
    if (!facts.isFile()) throw new Unreadable('is not a regular file')
    // The size in `stat` is a hint only: what counts is how much there is to read.
    const bytes = Buffer.alloc(LARGEST_FILE + 1)
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length)
      if (bytesRead === 0) return bytes.subarray(0, length)
      length += bytesRead
    }
    throw new Unreadable(`is larger than ${LARGEST_FILE} bytes; that is no configuration file`)
  } finally {
    await file?.close()
  }
}

function whyUnreadable(error: unknown): string {
  if (error instanceof Unreadable) return error.message
  switch (systemCode(error)) {
    case 'ENOENT':
      return 'there is no such file'
    case 'EACCES':
    case 'EPERM':
      return 'may not be read by this user; check its owner and permissions'
    case 'ENOTDIR':
      return 'a part of this path is not a directory'
    default:
      return `cannot be read: ${error instanceof Error ? error.message : String(error)}`
  }
}

function failed(...problems: readonly string[]): Loaded<never> {
  return { ok: false, problems, warnings: [] }
}
