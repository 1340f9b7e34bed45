/**
 * Reads the files that Packages and Sources list. Pure: pieces of an unpacked index in, files out, one stanza in memory at a
 * time.
 */
import { type Stanza, stanzas } from './deb822.ts'
import {
  digests,
  type ListedFile,
  listedFiles,
  readDigest,
  readPath,
  readSize,
} from './listed-file.ts'
import type { PackageIndex } from './path.ts'

/** The files an index lists, with paths from the root of the archive. Stanzas that are damaged or list none are left out. */
export async function* indexedFiles(
  kind: PackageIndex,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ListedFile> {
  const { wanted, filesOf } = kinds[kind]
  for await (const { damaged, fields } of stanzas(chunks, { wanted })) {
    if (!damaged) yield* filesOf(fields)
  }
}

const kinds = {
  Packages: {
    wanted: ['Filename', 'Size', ...digests.map(({ field }) => field)],
    filesOf: packageOf,
  },
  Sources: {
    wanted: ['Directory', ...digests.map(({ sources }) => sources)],
    filesOf: sourceFilesOf,
  },
}

function* packageOf(fields: Stanza['fields']): Generator<ListedFile> {
  const path = readPath(fields.get('filename') ?? '')
  const size = readSize(fields.get('size'))
  if (path === undefined || size === undefined) return
  const found: Record<string, string> = {}
  for (const digest of digests) {
    const hex = readDigest(digest, fields.get(digest.field.toLowerCase()) ?? '')
    if (hex !== undefined) found[digest.algorithm] = hex
  }
  yield { path, size, digests: found }
}

function* sourceFilesOf(fields: Stanza['fields']): Generator<ListedFile> {
  const written = fields.get('directory') ?? ''
  // A flat repository may keep its sources beside the index.
  const directory = written === '.' || written === '' ? '' : readPath(written)
  if (directory === undefined) return
  for (const file of listedFiles(({ sources }) => fields.get(sources.toLowerCase())).values()) {
    yield directory === '' ? file : { ...file, path: `${directory}/${file.path}` }
  }
}
