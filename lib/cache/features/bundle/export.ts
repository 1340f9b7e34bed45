/**
 * Writes stored files as a bundle: all files, those of some archives, or those of some suites with the packages that their indexes name.
 */
import { createHash } from 'node:crypto'
import { explainError } from '../../../errors.ts'
import type { Entry } from '../../store/entry.ts'
import type { ReadableStore } from '../../store/store.ts'
import type { ChosenFiles } from '../feature.ts'
import { contentName, identityName, identityText, manifestLine, manifestName } from './format.ts'
import { blocksOf } from './indexed.ts'
import type { BundlePlace } from './series.ts'
import type { Sink } from './sink.ts'

interface ExportParts {
  readonly store: ReadableStore
  readonly sink: Sink
  readonly now: number
  /** The name and the version of the program that writes the bundle. */
  readonly by: string
  readonly chosen: (key: string) => boolean
  /** The place of the bundle in its series. Files that were stored before `since` are in an earlier one. */
  readonly place?: BundlePlace | undefined
  readonly since?: number | undefined
  readonly members?: ChosenFiles['members'] | undefined
  /** Called with the number of bytes that were read. */
  readonly onRead: (bytes: number) => void
}

/**
 * The most entries in a part of the manifest, and the bytes of contents before a part. An import that breaks off loses the contents
 * whose part has not come.
 */
const partEntries = 1000
const partBytes = 128 * 1024 * 1024

/** Writes all members. The caller then finishes the bundle. Rejects when it cannot be written. */
export async function exportBundle(parts: ExportParts) {
  const { store, sink, now, by, chosen, place, since = 0 } = parts
  const writeText = (name: string, text: string): Promise<void> => {
    const bytes = Buffer.from(text)
    return sink.member(name, bytes.length, [bytes])
  }
  await writeText(identityName, identityText(now, by, place))
  /** Stored files whose content cannot be read or is damaged. */
  const leftOut: { key: string; because: string }[] = []
  /** The problem with each written content, by its digest; undefined when there is none. */
  const written = new Map<string, string | undefined>()
  const named = new Set<string>()
  let lines: string[] = []
  // `bytes` counts each content once.
  let [part, bytes, waiting] = [1, 0, 0]
  const writePart = async (): Promise<void> => {
    await writeText(manifestName(part), lines.join(''))
    part += 1
    lines = []
    waiting = 0
  }
  for await (const { lastUsed: _, ...entry } of store.entries()) {
    const { key, digest, size } = entry
    // The store lists an entry twice that is replaced meanwhile.
    if (!chosen(key) || named.has(key) || entry.stored < since) continue
    if (!written.has(digest)) {
      if (lines.length > 0 && waiting + size > partBytes) await writePart()
      const problem = await writeContent(entry, parts)
      written.set(digest, problem)
      if (problem === undefined) {
        bytes += size
        waiting += size
      }
    }
    const because = written.get(digest)
    if (because !== undefined) {
      leftOut.push({ key, because })
      continue
    }
    named.add(key)
    lines.push(manifestLine(entry))
    if (lines.length === partEntries) await writePart()
  }
  if (lines.length > 0) await writePart()
  for (const { name, text } of parts.members ?? []) await writeText(name, text)
  return { files: named.size, bytes, leftOut }
}

/** Writes a content. Returns its problem; undefined when it is written and right. */
async function writeContent(
  entry: Entry,
  { store, sink, onRead }: ExportParts,
): Promise<string | undefined> {
  const content = await store.content(entry)
  if (content === undefined) {
    const examined = await store.examine(entry.digest, { size: entry.size, algorithms: [] })
    return examined.found === 'whole'
      ? 'its content cannot be read'
      : `its content cannot be read: ${examined.because}`
  }
  const hash = createHash('sha256')
  let problem = 'its content is damaged'
  const read = async function* () {
    try {
      for await (const block of blocksOf(content)) {
        hash.update(block)
        onRead(block.length)
        yield block
      }
    } catch (error) {
      problem = explainError(error)
    }
  }
  const name = contentName(entry.digest)
  await sink.member(name, entry.size, read())
  if (hash.digest('hex') === entry.digest) return undefined
  await sink.retract(name)
  return problem
}
