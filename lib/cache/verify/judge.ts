/**
 * Is a stored file what somebody says it is? Pure.
 */
import type { ListedFile } from '../archive/listed-file.ts'
import type { HashAlgorithm } from '../store/disk/examine.ts'
import type { StoredFile } from './inventory.ts'

export type Verdict =
  | { readonly is: 'right' }
  /** `sentence` says what was expected and what was found. */
  | { readonly is: 'wrong'; readonly sentence: string }
  /** Nothing it could be held against is strong enough. */
  | { readonly is: 'unchecked' }

/** What the content hashes to beyond the SHA-256 it is stored under, as far as it is known. */
export type KnownDigests = ReadonlyMap<HashAlgorithm, string>

const nothing: KnownDigests = new Map()

/**
 * Holds a file against the strongest digest an index gives for it: SHA-512, when it is known what the content hashes to, else
 * SHA-256. MD5 and SHA-1 prove nothing any more.
 */
export function judge(
  file: StoredFile,
  listed: ListedFile,
  known: KnownDigests = nothing,
): Verdict {
  const { sha512, sha256 } = listed.digests
  const own512 = known.get('sha512')
  const [algorithm, expected, found] =
    sha512 !== undefined && own512 !== undefined
      ? (['SHA-512', sha512, own512] as const)
      : (['SHA-256', sha256, file.digest] as const)
  if (expected === undefined) return { is: 'unchecked' }
  if (file.size !== listed.size) {
    const sentence = `it has ${file.size} bytes and should have ${listed.size}`
    return { is: 'wrong', sentence }
  }
  if (expected === found) return { is: 'right' }
  return { is: 'wrong', sentence: `its ${algorithm} is ${found} and should be ${expected}` }
}

/** Whether only reading the content can tell what it hashes to. */
export function needsSha512({ digests }: ListedFile): boolean {
  return digests.sha512 !== undefined && digests.sha256 === undefined
}
