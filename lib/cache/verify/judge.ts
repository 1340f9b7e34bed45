/**
 * Compares a stored file with what an index says about it. Pure.
 */
import type { ListedFile } from '../archive/listed-file.ts'
import type { StoredFile } from '../archive/suite-layout.ts'
import type { HashAlgorithm } from '../store/disk/examine.ts'

export type Verdict =
  | { readonly is: 'right' }
  /** `sentence` says what was expected and what was found. */
  | { readonly is: 'wrong'; readonly sentence: string }
  /** The index gives no digest that is strong enough. */
  | { readonly is: 'unchecked' }

/** What the content hashes to beyond the SHA-256 it is stored under, as far as it is known. */
type KnownDigests = ReadonlyMap<HashAlgorithm, string>

/**
 * Compares a file with the strongest digest an index gives for it: SHA-512, when that of the content is known, else SHA-256.
 * MD5 and SHA-1 prove nothing any more.
 */
export function judge(
  file: StoredFile,
  listed: ListedFile,
  known: KnownDigests = new Map(),
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

/** Whether an index gives SHA-512 alone, so that the content has to be read. */
export function needsSha512({ digests }: ListedFile): boolean {
  return digests.sha512 !== undefined && digests.sha256 === undefined
}
