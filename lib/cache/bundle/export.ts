/**
 * Writes stored files as a bundle: everything, some archives, or some suites with the packages their indexes name.
 */
import { createHash } from 'node:crypto'
import { iterate } from '../../bytes/source.ts'
import { explainError } from '../../errors.ts'
import type { Content } from '../../http/message/message.ts'
import type { Entry } from '../store/entry.ts'
import type { ReadableStore } from '../store/reading.ts'
import { contentName, identityName, identityText, manifestLine, manifestName } from './format.ts'
import type { Sink } from './sink.ts'

interface ExportParts {
  readonly store: ReadableStore
  readonly sink: Sink
  readonly now: number
  /** The program that writes it, and its version. */
  readonly by: string
  /** Whether a file, named by its key, goes into the bundle. */
  readonly chosen: (key: string) => boolean
  /** Told of the bytes that were read. */
  readonly onRead: (bytes: number) => void
}

interface Exported {
  readonly files: number
  /** Of all contents, each once. */
  readonly bytes: number
  /** Stored files whose content cannot be read or is damaged. */
  readonly leftOut: readonly { readonly key: string; readonly because: string }[]
}

/** Entries in a part of the manifest, and bytes of contents before one: an importing store keeps a content without a name for a minute. */
const partEntries = 1000
const partBytes = 128 * 1024 * 1024

/** Writes all members; the bundle is then to be finished. Rejects when it cannot be written. */
export async function exportBundle(parts: ExportParts): Promise<Exported> {
  const { store, sink, now, by, chosen } = parts
  const identity = Buffer.from(identityText(now, by))
  await sink.member(identityName, identity.length, pieces(identity))
  const leftOut: { key: string; because: string }[] = []
  /** By digest, what is wrong with a content; undefined for nothing. */
  const written = new Map<string, string | undefined>()
  const named = new Set<string>()
  let lines: string[] = []
  let part = 0
  let bytes = 0
  let waiting = 0
  const flush = async (): Promise<void> => {
    if (lines.length === 0) return
    part += 1
    const text = Buffer.from(lines.join(''))
    lines = []
    waiting = 0
    await sink.member(manifestName(part), text.length, pieces(text))
  }
  for await (const { lastUsed: _, ...entry } of store.entries()) {
    // An entry that is replaced meanwhile comes twice.
    if (!chosen(entry.key) || named.has(entry.key)) continue
    if (!written.has(entry.digest)) {
      const problem = await writeContent(entry, parts)
      written.set(entry.digest, problem)
      if (problem === undefined) {
        bytes += entry.size
        waiting += entry.size
      }
    }
    const because = written.get(entry.digest)
    if (because !== undefined) {
      leftOut.push({ key: entry.key, because })
      continue
    }
    named.add(entry.key)
    lines.push(manifestLine(entry))
    if (lines.length >= partEntries || waiting >= partBytes) await flush()
  }
  await flush()
  return { files: named.size, bytes, leftOut }
}

/** Answers what is wrong with the content; undefined when it is written and right. */
async function writeContent(
  entry: Entry,
  { store, sink, onRead }: ExportParts,
): Promise<string | undefined> {
  const content = await store.content(entry)
  if (content === undefined) return 'its content is not there'
  const hash = createHash('sha256')
  let problem: string | undefined
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
  return problem ?? 'its content is damaged'
}

async function* pieces(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

/** A content piece by piece; each is valid until the next is asked for. */
export async function* blocksOf(content: Content): AsyncGenerator<Buffer> {
  if (content.kind === 'bytes') yield content.bytes
  else if (content.kind === 'stream') yield* iterate(content.open())
}
