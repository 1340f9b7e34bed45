/**
 * A file as an index lists it: its path, its size and its digests. Pure.
 */
import { type Digest, type Digests, digests, readDigest } from './digest.ts'

export interface ListedFile {
  /** Relative, decoded, without `.`, `..` and empty segments. */
  readonly path: string
  /** Bytes. */
  readonly size: number
  readonly digests: Digests
}

/** A count of bytes in decimal digits. */
export function readSize(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/**
 * A relative path without its empty and `.` segments. Undefined for one that is absolute, climbs, is empty or has control
 * characters.
 */
export function readPath(text: string): string | undefined {
  if (plain.test(text)) return text
  if (text.startsWith('/') || text.length > longestPath || control.test(text)) return undefined
  const segments = text.split('/').filter(segment => segment !== '' && segment !== '.')
  return segments.length === 0 || segments.includes('..') ? undefined : segments.join('/')
}

/** Nearly every path there is. */
const plain = /^[a-z0-9][\w+~:%-]*(?:[./][\w+~:%-]+)*$/

/** Longer than any file system takes. */
const longestPath = 4096

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const control = /[\u0000-\u001f\u007f]/

/**
 * The files of the lists Release and Sources fold into a field for each digest. The strongest list decides about a file's size;
 * a weaker list that differs is ignored, and so is the second of two lines of one list.
 */
export function listedFiles(
  fieldOf: (digest: Digest) => string | undefined,
): ReadonlyMap<string, ListedFile> {
  const files = new Map<string, { path: string; size: number; digests: Record<string, string> }>()
  for (const digest of digests) {
    for (const { hex, size, path } of lines(digest, fieldOf(digest))) {
      const known = files.get(path)
      if (known === undefined) files.set(path, { path, size, digests: { [digest.algorithm]: hex } })
      else if (known.size === size) known.digests[digest.algorithm] ??= hex
    }
  }
  return files
}

/** Lines `digest size path`; a line that is not of this form is left out. */
function* lines(
  digest: Digest,
  value = '',
): Generator<{ readonly hex: string; readonly size: number; readonly path: string }> {
  for (const line of value.split('\n')) {
    const [, first = '', second, third = ''] =
      /^([0-9A-Fa-f]+)[ \t]+(\d+)[ \t]+(.+)$/.exec(line) ?? []
    const hex = readDigest(digest, first)
    const size = readSize(second)
    const path = readPath(third)
    if (hex !== undefined && size !== undefined && path !== undefined) yield { hex, size, path }
  }
}
