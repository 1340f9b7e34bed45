/**
 * Reads the files that Packages and Sources list. Pure: pieces of an unpacked index in, files out, one stanza in memory at a
 * time.
 */
import { type Stanza, stanzas } from './deb822.ts'
import { digests, readDigest } from './digest.ts'
import { type ListedFile, listedFiles, readPath, readSize } from './listed-file.ts'

/** Which of the two an index is. */
export type PackageIndex = 'Packages' | 'Sources'

/** The files an index lists, with paths from the root of the archive. Stanzas that are damaged or list none are left out. */
export async function* indexedFiles(
  kind: PackageIndex,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ListedFile> {
  const { wanted, filesOf } = kinds[kind]
  for await (const stanza of stanzas(chunks, { wanted })) {
    if (!stanza.damaged) yield* filesOf(stanza.fields)
  }
}

type FieldsOf = Stanza['fields']

const kinds = {
  Packages: {
    wanted: ['Filename', 'Size', ...digests.map(({ packages }) => packages)],
    filesOf: packageOf,
  },
  Sources: {
    wanted: ['Directory', ...digests.map(({ sources }) => sources)],
    filesOf: sourceFilesOf,
  },
}

function* packageOf(fields: FieldsOf): Generator<ListedFile> {
  const path = readPath(fields.get('filename') ?? '')
  const size = readSize(fields.get('size'))
  if (path === undefined || size === undefined) return
  const found: Record<string, string> = {}
  for (const digest of digests) {
    const hex = readDigest(digest, fields.get(digest.packages.toLowerCase()) ?? '')
    if (hex !== undefined) found[digest.algorithm] = hex
  }
  yield { path, size, digests: found }
}

function* sourceFilesOf(fields: FieldsOf): Generator<ListedFile> {
  const written = fields.get('directory') ?? ''
  // A flat repository may keep its sources beside the index.
  const directory = written === '.' || written === '' ? '' : readPath(written)
  if (directory === undefined) return
  for (const file of listedFiles(({ sources }) => fields.get(sources.toLowerCase())).values()) {
    yield directory === '' ? file : { ...file, path: `${directory}/${file.path}` }
  }
}
