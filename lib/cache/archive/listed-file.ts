/**
 * Reads the files that indexes list, with their paths, sizes and digests. Packages and Sources are read in pieces, with one stanza in
 * memory at a time; a Release file is read from its fields. This file is pure.
 */
import { type Stanza, stanzas } from './deb822.ts'

/**
 * The digests that archives use, the strongest first: the number of hex digits, the name in Release, Packages and by-hash directories, and
 * the field in Sources. The names of fields are compared without their case.
 */
export const digests = [
  { algorithm: 'sha512', digits: 128, field: 'SHA512', sources: 'Checksums-Sha512' },
  { algorithm: 'sha256', digits: 64, field: 'SHA256', sources: 'Checksums-Sha256' },
  { algorithm: 'sha1', digits: 40, field: 'SHA1', sources: 'Checksums-Sha1' },
  { algorithm: 'md5', digits: 32, field: 'MD5Sum', sources: 'Files' },
] as const

type Digest = (typeof digests)[number]

export type DigestAlgorithm = Digest['algorithm']

export interface ListedFile {
  /** The relative decoded path, without `.`, `..` and empty segments. */
  readonly path: string
  readonly size: number
  /** The digests that the index gives, lower-case hex by algorithm. */
  readonly digests: Readonly<Partial<Record<DigestAlgorithm, string>>>
}

/** The digest in lower-case hex; undefined when the text is not a digest of this kind. */
function readDigest({ digits }: Digest, text: string): string | undefined {
  return text.length === digits && /^[0-9A-Fa-f]+$/.test(text) ? text.toLowerCase() : undefined
}

/** Reads a number of bytes in decimal digits that fits into the six bytes of a table; undefined for any other text. */
function readSize(text = ''): number | undefined {
  return /^\d{1,14}$/.test(text) ? Number(text) : undefined
}

/**
 * A relative path without its empty and `.` segments. Undefined for a path that is absolute, empty or too long, and for one that has `..`
 * or control characters.
 */
export function readPath(text: string): string | undefined {
  if (text.length > longestPath) return undefined
  if (plain.test(text)) return text
  if (text.startsWith('/') || control.test(text)) return undefined
  const segments = text.split('/').filter(segment => segment !== '' && segment !== '.')
  return segments.length === 0 || segments.includes('..') ? undefined : segments.join('/')
}

/** Matches paths that need no further check, as nearly all paths do. */
const plain = /^[a-z0-9][\w+~:%-]*(?:[./][\w+~:%-]+)*$/

/** The longest path. No file system takes a longer one. */
const longestPath = 4096

// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are refused
const control = /[\u0000-\u001f\u007f]/

/** The two kinds of indexes of packages. */
export type PackageIndex = 'Packages' | 'Sources'

/** The files that an index lists, with paths from the root of the archive. Damaged stanzas, and stanzas without a file, are left out. */
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
  // A flat repository may have its sources in the directory of the index.
  const directory = written === '.' || written === '' ? '' : readPath(written)
  if (directory === undefined) return
  for (const file of listedFiles(({ sources }) => fields.get(sources.toLowerCase())).values()) {
    yield directory === '' ? file : { ...file, path: `${directory}/${file.path}` }
  }
}

/** A line of a list. The path must not begin with a blank, so the expression matches a line in only one way and needs no backtracking. */
const entry = /^([0-9A-Fa-f]+)[ \t]+(\d+)[ \t]+([^ \t].*)$/s

/**
 * The files in the lists of Release and Sources. Each list is a folded field for one digest, with lines `digest size path`. The strongest
 * list decides the size of a file. A line of a weaker list with another size is ignored, and so is the second line of one list for the same
 * path. A line of another form is left out.
 */
export function listedFiles(
  fieldOf: (digest: Digest) => string | undefined,
): ReadonlyMap<string, ListedFile> {
  const files = new Map<string, { path: string; size: number; digests: Record<string, string> }>()
  for (const digest of digests) {
    for (const line of (fieldOf(digest) ?? '').split('\n')) {
      const [, first = '', second, third = ''] = entry.exec(line) ?? []
      const [hex, size, path] = [readDigest(digest, first), readSize(second), readPath(third)]
      if (hex === undefined || size === undefined || path === undefined) continue
      const known = files.get(path)
      if (known === undefined) files.set(path, { path, size, digests: { [digest.algorithm]: hex } })
      else if (known.size === size) known.digests[digest.algorithm] ??= hex
    }
  }
  return files
}
