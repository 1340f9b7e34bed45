/**
 * Reads the whole file of a content: finds out whether it exists and has the right length, and computes its digests.
 */
import { createHash } from 'node:crypto'
import { systemCode } from '../../../errors.ts'
import type { Disk } from './disk.ts'
import { diskProblem } from './health.ts'

export type HashAlgorithm = 'md5' | 'sha1' | 'sha256' | 'sha512'

export type ExaminedContent =
  | { readonly found: 'whole'; readonly digests: ReadonlyMap<HashAlgorithm, string> }
  /** The file is missing, is not a plain file, has another length, or has blocks that the disk has lost. */
  | { readonly found: 'broken'; readonly because: string }
  /** The file may be right, but this process cannot read it now. */
  | { readonly found: 'unknown'; readonly because: string }

export interface Examination {
  readonly size: number
  readonly algorithms: readonly HashAlgorithm[]
  /** Called after every piece, and awaited, so that the caller can slow the reading down. */
  readonly onRead?: (bytes: number) => Promise<void> | void
}

const pieceBytes = 1024 * 1024

/** Reads the file at `path` once, one operation at a time. Throws only what `onRead` throws. */
export async function examineFile(
  disk: Disk,
  path: string,
  { size, algorithms, onRead }: Examination,
): Promise<ExaminedContent> {
  const hashes = algorithms.map(name => ({ name, hash: createHash(name) }))
  const file = await disk.open(path, 'reading').catch(failed)
  if ('found' in file) return file
  try {
    const look = await file.look().catch(failed)
    if ('found' in look) return look
    if (!look.isFile()) return broken('it is not a plain file')
    if (look.size !== size) return broken(`it has ${look.size} bytes instead of ${size}`)
    for (let at = 0; at < size; ) {
      const piece = await file.bytes(at, Math.min(pieceBytes, size - at)).catch(failed)
      if ('found' in piece) return piece
      if (piece.length === 0) return broken(`it ends at byte ${at} of ${size}`)
      for (const { hash } of hashes) hash.update(piece)
      at += piece.length
      await onRead?.(piece.length)
    }
  } finally {
    file.close()
  }
  const digests = new Map(hashes.map(({ name, hash }) => [name, hash.digest('hex')]))
  return { found: 'whole', digests }
}

const lost: ReadonlyMap<string | undefined, string> = new Map([
  ['ENOENT', 'it is missing'],
  ['ELOOP', 'it is a link'],
  ['EIO', 'the disk can no longer read it'],
])

function failed(error: unknown): ExaminedContent {
  const because = lost.get(systemCode(error))
  return because === undefined ? { found: 'unknown', because: diskProblem(error) } : broken(because)
}

function broken(because: string): ExaminedContent {
  return { found: 'broken', because }
}
