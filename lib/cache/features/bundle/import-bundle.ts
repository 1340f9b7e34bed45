/**
 * Imports a bundle into a store. In a tar archive the contents come first, so they are stored at once, and get their entries when the
 * manifest comes. In a directory the import opens each content when the manifest names it.
 */
import { createReadStream } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { explainError, Failure, valueUnlessMissing } from '../../../errors.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import type { CarriedRecords } from '../feature.ts'
import { entryUnreadable, type ImportCounts, type LeftOutFile, storeContent } from './adopt.ts'
import {
  contentName,
  digestNamed,
  identityName,
  identityProblem,
  isManifest,
  maxLineBytes,
  readManifestLine,
  recordNamed,
} from './format.ts'
import { type TarMember, tarMembers } from './tar.ts'

interface ImportParts {
  readonly store: Pick<Store, 'download' | 'read' | 'put'>
  /** The kinds of records that a bundle can carry. */
  readonly records: readonly CarriedRecords[]
  readonly dryRun: boolean
  /** Called with the identity. A sentence that it returns says why the bundle is not imported. */
  readonly onIdentity?: (text: string) => string | undefined
  readonly onRead: (bytes: number) => void
}

/** Imports a bundle. Throws a Failure when it is no bundle or cannot be read to its end; the entries that were imported until then stay. */
export async function importBundle(
  path: string,
  isDirectory: boolean,
  parts: ImportParts,
): Promise<ImportCounts> {
  const imported: ImportCounts = { files: 0, bytes: 0, known: 0, leftOut: [], records: [] }
  try {
    const bundle = new Bundle(parts, imported, isDirectory ? path : undefined)
    await bundle.read(
      isDirectory
        ? manifestBelow(path, parts.records, imported.leftOut)
        : tarMembers(createReadStream(path)),
    )
  } catch (error) {
    const because = error instanceof Error ? error.message : String(error)
    throw new Failure(`${path} cannot be imported: ${because}.`, {
      code: 'bundle-unreadable',
      cause: error,
      facts: { files: imported.files },
    })
  }
  return imported
}

class Bundle {
  readonly #parts: ImportParts
  readonly #imported: ImportCounts
  /** The directory that has the contents; undefined when they come before the entries. */
  readonly #directory: string | undefined
  /** The reason why a content is not in the store, by digest. */
  readonly #missing = new Map<string, Pick<LeftOutFile, 'reason' | 'because'>>()
  /** The contents that the bundle had and that were stored, or in a dry run would have been. */
  readonly #seen = new Set<string>()
  readonly #counted = new Set<string>()

  constructor(parts: ImportParts, imported: ImportCounts, directory: string | undefined) {
    this.#parts = parts
    this.#imported = imported
    this.#directory = directory
  }

  async read(members: AsyncIterable<TarMember>): Promise<void> {
    let identified = false
    for await (const { name, size, content } of members) {
      const digest = digestNamed(name)
      if (!identified) {
        if (name !== identityName) throw new Error('it does not begin as a bundle does')
        const identity = size > maxLineBytes ? '' : await text(content)
        const problem = identityProblem(identity) ?? this.#parts.onIdentity?.(identity)
        if (problem !== undefined) throw new Error(problem)
        identified = true
      } else if (digest !== undefined) await this.#content(digest, size, content)
      else if (isManifest(name)) {
        for await (const line of linesOf(content)) await this.#entry(line)
      } else await this.#record(name, content)
    }
    if (!identified) throw new Error('it is empty')
  }

  async #content(digest: string, size: number, content: AsyncIterable<Buffer>): Promise<void> {
    const { store, dryRun, onRead } = this.#parts
    const kept = dryRun || (await storeContent(store, { digest, size, onRead }, content))
    if (kept === true || kept.stored) {
      this.#seen.add(digest)
      return
    }
    const { reason, because } = kept
    this.#missing.set(digest, { reason, because })
  }

  /** Reads a record of a feature. A member of another kind is ignored. */
  async #record(member: string, content: AsyncIterable<Buffer>): Promise<void> {
    const { records, leftOut } = this.#imported
    const { directory, name = '' } = recordNamed(member) ?? {}
    const kind = this.#parts.records.find(one => one.directory === directory)
    if (kind === undefined) return
    const pieces: Buffer[] = []
    let bytes = 0
    for await (const piece of content) {
      bytes += piece.length
      if (bytes <= kind.mostBytes) pieces.push(piece)
    }
    const record =
      bytes > kind.mostBytes ? 'it is too large' : kind.read(name, Buffer.concat(pieces).toString())
    if (typeof record !== 'string') records.push(record)
    else leftOut.push({ name: member, reason: 'record', because: record })
  }

  /** Puts an entry into the store. Returns whether it was put, or in a dry run whether the bundle has its content. */
  async #put(entry: Entry): Promise<boolean> {
    const { store, dryRun } = this.#parts
    const { digest } = entry
    if (!dryRun && store.put(entry).stored) return true
    if (this.#directory !== undefined && !this.#missing.has(digest)) {
      const path = join(this.#directory, contentName(digest))
      const found = await lstat(path).catch(() => undefined)
      if (found?.isFile()) await this.#content(digest, found.size, read(path))
    }
    return this.#seen.has(digest) && (dryRun || store.put(entry).stored)
  }

  async #entry(line: string): Promise<void> {
    const imported = this.#imported
    const entry = readManifestLine(line)
    if (typeof entry === 'string') {
      imported.leftOut.push({ name: 'manifest', reason: 'unreadable', because: entry })
      return
    }
    const { key, digest, size } = entry
    const before = await this.#parts.store.read(key)
    if (before === 'unreadable') {
      imported.leftOut.push({ name: key, reason: 'not-stored', because: entryUnreadable })
      return
    }
    if (before !== undefined && isAsGood(before, entry)) {
      imported.known += 1
      return
    }
    if (!(await this.#put(entry))) {
      const absent = this.#seen.has(digest)
        ? ({ reason: 'not-stored', because: 'there is no room for it' } as const)
        : ({ reason: 'incomplete', because: 'the bundle lacks its content' } as const)
      imported.leftOut.push({ name: key, ...(this.#missing.get(digest) ?? absent) })
      return
    }
    imported.files += 1
    if (!this.#counted.has(digest)) imported.bytes += size
    this.#counted.add(digest)
  }
}

/** Whether the stored entry was confirmed later, or has the same content and was not confirmed earlier. */
function isAsGood(stored: Entry, { digest, validated }: Entry): boolean {
  return stored.validated > validated || (stored.digest === digest && stored.validated >= validated)
}

/** The bytes of a file, which is opened only when they are read. */
async function* read(path: string): AsyncGenerator<Buffer> {
  yield* createReadStream(path)
}

/** The identity and the manifest of a bundle in a directory. Parts that cannot be read are left out. */
async function* manifestBelow(
  directory: string,
  records: readonly CarriedRecords[],
  leftOut: LeftOutFile[],
): AsyncGenerator<TarMember> {
  const { bytes } = await readBounded(join(directory, identityName), maxLineBytes)
  yield { name: identityName, size: bytes.length, content: Readable.from([bytes]) }
  const names = (await readdir(join(directory, 'manifest'))).map(name => `manifest/${name}`)
  const readable = async function* (name: string): AsyncGenerator<Buffer> {
    const path = join(directory, name)
    try {
      if (!(await lstat(path)).isFile()) throw new Error('it is not a regular file')
      yield* read(path)
    } catch (error) {
      leftOut.push({ name, reason: 'unreadable', because: explainError(error) })
    }
  }
  const carried: string[] = []
  for (const { directory: kind } of records) {
    const found = (await valueUnlessMissing(readdir(join(directory, kind)))) ?? []
    carried.push(...found.map(name => `${kind}/${name}`).filter(name => recordNamed(name)))
  }
  for (const name of [...names.filter(isManifest).sort(), ...carried.sort()]) {
    yield { name, size: 0, content: readable(name) }
  }
}

/** The lines of a content, with one in memory at a time. Throws when a line is too long. */
async function* linesOf(content: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = Buffer.alloc(0)
  for await (const chunk of content) {
    rest = Buffer.concat([rest, chunk])
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield rest.toString('utf8', 0, end)
      rest = rest.subarray(end + 1)
    }
    if (rest.length > maxLineBytes) throw new Error('a line of the manifest is too long')
  }
  if (rest.length > 0) yield rest.toString('utf8')
}
