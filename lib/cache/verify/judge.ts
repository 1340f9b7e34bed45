/**
 * Judges stored files: whether they are what an index says about them, and whether a Release file is one and is signed.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import type { ListedFile } from '../archive/listed-file.ts'
import { parentOf } from '../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../archive/release.ts'
import type { KnownRelease } from '../archive/suite-layout.ts'
import type { HashAlgorithm } from '../store/disk/examine.ts'
import { type Signature, signerText } from '../suites/generation.ts'
import { distrustReason, type SuitePolicy } from '../suites/policy.ts'
import { checkSignature } from '../suites/signature.ts'
import type { HashedContents } from './hashing.ts'
import type { Inventory, StoredFile, StoredRelease } from './inventory.ts'
import type { Wrong } from './report.ts'

export type Verdict =
  | { readonly is: 'right' }
  /** `sentence` says what was expected and what was found. */
  | { readonly is: 'wrong'; readonly sentence: string }
  /** The index gives no digest that is strong enough. */
  | { readonly is: 'unchecked' }

/**
 * Compares a file with the strongest digest an index gives for it: SHA-512, when that of the content is `known`, else SHA-256.
 * MD5 and SHA-1 prove nothing any more.
 */
export function judge(
  file: StoredFile,
  listed: ListedFile,
  known?: ReadonlyMap<HashAlgorithm, string>,
): Verdict {
  const { sha512, sha256 } = listed.digests
  const own512 = known?.get('sha512')
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

/** A Release file, and what is known about its signature. */
export interface JudgedRelease extends KnownRelease {
  readonly file: StoredFile
  /** Undefined when signatures are not asked for. */
  readonly signature: Signature | undefined
  /** Why it does not count, in words. */
  readonly refused: string | undefined
}

interface Around {
  readonly contents: HashedContents
  readonly inventory: Inventory
  readonly policyOf: (at: string) => SuitePolicy | undefined
  readonly now: Milliseconds
}

type Read =
  | JudgedRelease
  /** It is no Release file, or its signature is of another one. */
  | (Pick<Wrong, 'because' | 'sentence'> & { readonly according?: StoredFile })
  | { readonly unread: string }

/** Reads a stored Release file and checks its signature, as adoption does. Never rejects for what the files contain. */
export async function readStoredRelease(
  { file, base }: StoredRelease,
  { contents, inventory, policyOf, now }: Around,
): Promise<Read> {
  const at = parentOf(file.key)
  const inPlace = file.key.endsWith('/InRelease')
  const signatures = inPlace ? [] : inventory.named(`${base}/Release.gpg`)
  const according = signatures.find(({ key }) => key === `${at}/Release.gpg`)
  try {
    const content = await whole(contents, file)
    const { release, because } = readRelease(content)
    if (release === undefined) return { because: 'release', sentence: because }
    const known = { file, base, inPlace, release }
    const policy = policyOf(at)
    if (policy === undefined) return { ...known, signature: undefined, refused: undefined }
    const detached = according && (await whole(contents, according))
    const { keyrings } = policy
    const signature = await checkSignature(content, detached, { keyrings, now })
    if (signature.is !== 'bad') {
      return { ...known, signature, refused: distrustReason(signature, policy) }
    }
    const by = signature.by === undefined ? '' : `, by ${signerText(signature)}`
    const sentence = `its signature is bad${by}`
    return { because: 'signature', sentence, ...(according && { according }) }
  } catch (error) {
    return { unread: explainError(error) }
  }
}

async function whole(contents: HashedContents, file: StoredFile): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  if (file.size > maxReleaseBytes) throw new Error('it is too long')
  for await (const chunk of contents.read(file)) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}
