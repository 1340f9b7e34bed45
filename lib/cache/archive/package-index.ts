/**
 * Packages and Sources: the files of a pool that an index names. Pure: pieces of an unpacked index in, files out, one stanza
 * in memory at a time.
 */
import { type Stanza, stanzas } from './deb822.ts'
import { type ListedFile, mergeLists, readDigest, readPath, readSize } from './listed-file.ts'

/** Which of the two an index is. */
export type PackageIndex = 'Packages' | 'Sources'

/** The files an index names, with paths from the root of the archive. Stanzas that are damaged or name none are left out. */
export async function* indexedFiles(
  kind: PackageIndex,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ListedFile> {
  const { wanted, filesOf } = kinds[kind]
  for await (const stanza of stanzas(chunks, { wanted })) {
    if (stanza.damaged) continue
    for (const file of filesOf(stanza.fields)) yield file
  }
}

type FieldsOf = Stanza['fields']

const kinds: Readonly<
  Record<
    PackageIndex,
    { wanted: readonly string[]; filesOf: (fields: FieldsOf) => Iterable<ListedFile> }
  >
> = {
  Packages: {
    wanted: ['Filename', 'Size', 'SHA512', 'SHA256', 'SHA1', 'MD5sum'],
    filesOf: packageOf,
  },
  Sources: {
    wanted: ['Directory', 'Checksums-Sha512', 'Checksums-Sha256', 'Checksums-Sha1', 'Files'],
    filesOf: sourceFilesOf,
  },
}

function packageOf(fields: FieldsOf): readonly ListedFile[] {
  const path = readPath(fields.get('filename') ?? '')
  const size = readSize(fields.get('size'))
  if (path === undefined || size === undefined) return []
  const digests: Record<string, string> = {}
  for (const [algorithm, name] of packageDigests) {
    const digest = readDigest(algorithm, fields.get(name) ?? '')
    if (digest !== undefined) digests[algorithm] = digest
  }
  return [{ path, size, digests }]
}

const packageDigests = [
  ['sha512', 'sha512'],
  ['sha256', 'sha256'],
  ['sha1', 'sha1'],
  ['md5', 'md5sum'],
] as const

function* sourceFilesOf(fields: FieldsOf): Generator<ListedFile> {
  const written = fields.get('directory')
  // A flat repository may keep its sources beside the index.
  const directory =
    written === undefined || written === '.' || written === '' ? '' : readPath(written)
  if (directory === undefined) return
  const files = mergeLists([
    ['sha512', fields.get('checksums-sha512')],
    ['sha256', fields.get('checksums-sha256')],
    ['sha1', fields.get('checksums-sha1')],
    ['md5', fields.get('files')],
  ])
  for (const file of files.values()) {
    yield directory === '' ? file : { ...file, path: `${directory}/${file.path}` }
  }
}
