/**
 * A file as an index names it: where it is, how long, and what it hashes to. Pure.
 */
import type { DigestAlgorithm } from './path.ts'

export interface ListedFile {
  /** Relative, decoded, without `.`, `..` and empty segments. */
  readonly path: string
  /** Bytes. */
  readonly size: number
  /** Lower-case hex by algorithm. */
  readonly digests: Digests
}

export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>

/** Algorithms from the strongest to the weakest. */
export const algorithms = ['sha512', 'sha256', 'sha1', 'md5'] as const

const digits: Readonly<Record<DigestAlgorithm, number>> = {
  sha512: 128,
  sha256: 64,
  sha1: 40,
  md5: 32,
}

/** The digest in lower case, when the text is one of this algorithm. */
export function readDigest(algorithm: DigestAlgorithm, text: string): string | undefined {
  return text.length === digits[algorithm] && /^[0-9A-Fa-f]+$/.test(text)
    ? text.toLowerCase()
    : undefined
}

/** A count of bytes in decimal digits. */
export function readSize(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/**
 * A path that stays where it is: without empty and `.` segments. Undefined for one that is absolute, climbs, is empty or has
 * control characters.
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

/** Lines `digest size path` of one algorithm, as Release and Sources fold them. What is none is left out. */
export function* hashList(
  algorithm: DigestAlgorithm,
  value: string | undefined,
): Generator<{ readonly digest: string; readonly size: number; readonly path: string }> {
  for (const line of (value ?? '').split('\n')) {
    const [, first = '', second, third = ''] =
      /^([0-9A-Fa-f]+)[ \t]+(\d+)[ \t]+(.+)$/.exec(line) ?? []
    const digest = readDigest(algorithm, first)
    const size = readSize(second)
    const path = readPath(third)
    if (digest !== undefined && size !== undefined && path !== undefined)
      yield { digest, size, path }
  }
}

/**
 * Several lists about the same files as one. The strongest list decides about a file's size; a weaker one that differs is not
 * believed, nor is the second of two lines of one list.
 */
export function mergeLists(
  lists: ReadonlyArray<readonly [DigestAlgorithm, string | undefined]>,
): ReadonlyMap<string, ListedFile> {
  const files = new Map<string, { path: string; size: number; digests: Record<string, string> }>()
  for (const algorithm of algorithms) {
    const list = lists.find(([of]) => of === algorithm)
    for (const { digest, size, path } of hashList(algorithm, list?.[1])) {
      const known = files.get(path)
      if (known === undefined) files.set(path, { path, size, digests: { [algorithm]: digest } })
      else if (known.size === size) known.digests[algorithm] ??= digest
    }
  }
  return files
}
