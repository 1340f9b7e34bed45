/**
 * Reads a stored Release file and checks its signature, as adoption does.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import { parentOf } from '../archive/path.ts'
import { maxReleaseBytes, readRelease } from '../archive/release.ts'
import type { KnownRelease, StoredFile, StoredRelease } from '../archive/suite-layout.ts'
import type { Signature } from '../suites/generation.ts'
import { distrusted, type Policy } from '../suites/policy.ts'
import { checkSignature } from '../suites/signature.ts'
import type { HashedContents } from './hashing.ts'
import type { Inventory } from './inventory.ts'
import type { Wrong } from './report.ts'

/** A Release file, and what is known about its signature. */
export interface JudgedRelease extends KnownRelease {
  /** Undefined when signatures are not asked for. */
  readonly signature: Signature | undefined
  /** Why it does not count, in words. */
  readonly refused: string | undefined
}

/** What there is around it. */
interface Around {
  readonly contents: HashedContents
  readonly inventory: Inventory
  readonly policyOf: (at: string) => Policy | undefined
  readonly now: Milliseconds
}

type Read =
  | JudgedRelease
  /** It is no Release file, or its signature is of another one. */
  | (Pick<Wrong, 'because' | 'sentence'> & { readonly according?: StoredFile })
  | { readonly unread: string }

/** Never rejects for what the files contain. */
export async function readStoredRelease(one: StoredRelease, around: Around): Promise<Read> {
  const { file, base } = one
  const { contents, inventory, policyOf, now } = around
  const at = parentOf(file.key)
  const inPlace = file.key.endsWith('/InRelease')
  const key = `${at}/Release.gpg`
  const according = inventory.named(`${base}/Release.gpg`).find(found => found.key === key)
  try {
    const content = await whole(contents, file)
    const { release, because } = readRelease(content)
    if (release === undefined) return { because: 'release', sentence: because }
    const policy = policyOf(at)
    if (policy === undefined)
      return { file, base, release, signature: undefined, refused: undefined }
    const detached =
      inPlace || according === undefined ? undefined : await whole(contents, according)
    const { keyrings } = policy
    const signature = await checkSignature(content, detached, { keyrings, now })
    const refused = distrusted(signature, policy)
    if (signature.is !== 'bad') return { file, base, release, signature, refused }
    const by = signature.by === undefined ? '' : `, by the key ${signature.by}`
    const sentence = `its signature is bad${by}`
    return { because: 'signature', sentence, ...(!inPlace && according && { according }) }
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
