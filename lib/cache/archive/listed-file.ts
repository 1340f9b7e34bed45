/**
 * Reads the files that indexes list, with their paths, sizes and digests: those of Packages and Sources from the pieces of an
 * unpacked index, one stanza in memory at a time; those of a Release file from its fields. Pure.
 */
import { type Stanza, stanzas } from './deb822.ts'

/**
 * The digests archives use, the strongest first: their digits in hex, the field of Release, Packages and by-hash directories, and
 * that of Sources. The names of fields are compared in any case.
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
  /** Relative, decoded, without `.`, `..` and empty segments. */
  readonly path: string
  readonly size: number
  /** Lower-case hex by algorithm, as far as an index gives them. */
  readonly digests: Readonly<Partial<Record<DigestAlgorithm, string>>>
}

/** The hex in lower case, when the text is a digest of this kind. */
function readDigest({ digits }: Digest, text: string): string | undefined {
  return text.length === digits && /^[0-9A-Fa-f]+$/.test(text) ? text.toLowerCase() : undefined
}

/** A count of bytes in decimal digits, which fits into the six bytes of a table. */
function readSize(text = ''): number | undefined {
  return /^\d{1,14}$/.test(text) ? Number(text) : undefined
}

/**
 * A relative path without its empty and `.` segments. Undefined for one that is absolute, climbs, is empty or has control
 * characters.
 */
export function readPath(text: string): string | undefined {
  if (text.length > longestPath) return undefined
  if (plain.test(text)) return text
  if (text.startsWith('/') || control.test(text)) return undefined
  const segments = text.split('/').filter(segment => segment !== '' && segment !== '.')
  return segments.length === 0 || segments.includes('..') ? undefined : segments.join('/')
}

/** Matches paths that need no further look, which nearly all are. */
const plain = /^[a-z0-9][\w+~:%-]*(?:[./][\w+~:%-]+)*$/

/** Longer than any file system takes. */
const longestPath = 4096

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const control = /[\u0000-\u001f\u007f]/

/** The two kinds of indexes of packages. */
export type PackageIndex = 'Packages' | 'Sources'

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

/** The path begins where the blanks end, so that there is one way to read a line, and no more than one is tried. */
const entry = /^([0-9A-Fa-f]+)[ \t]+(\d+)[ \t]+([^ \t].*)$/s

/**
 * The files of the lists Release and Sources fold into a field for each digest, in lines `digest size path`. The strongest list
 * decides about a file's size; a weaker list that differs is ignored, and so is the second of two lines of one list. A line that
 * is not of this form is left out.
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
