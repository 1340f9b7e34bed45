/**
 * A look at every byte of a blob: is it there, as long as it should be, and what does it hash to?
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { explainError, systemCode } from '../../../errors.ts'

export type HashAlgorithm = 'md5' | 'sha1' | 'sha256' | 'sha512'

export type Examined =
  | { readonly found: 'whole'; readonly digests: ReadonlyMap<HashAlgorithm, string> }
  /** Not there, not a plain file, of another length, or of blocks the disk has lost. */
  | { readonly found: 'broken'; readonly because: string }
  /** It may be well: this process cannot look. */
  | { readonly found: 'unknown'; readonly because: string }

export interface Examination {
  readonly size: number
  readonly algorithms: readonly HashAlgorithm[]
  /** Told of every piece that was read, and waited for: how the reading is slowed down. */
  readonly onRead: (bytes: number) => Promise<void> | void
}

/** Reads the file at `path` once. Throws only what `onRead` throws. */
export async function examineFile(path: string, examination: Examination): Promise<Examined> {
  let file: FileHandle | undefined
  try {
    // Without O_NONBLOCK a pipe of that name would hold a thread for ever.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    return failed(error)
  }
  try {
    return await read(file, examination)
  } finally {
    await file.close().catch(() => undefined)
  }
}

const pieceBytes = 1024 * 1024

async function read(
  file: FileHandle,
  { size, algorithms, onRead }: Examination,
): Promise<Examined> {
  const hashes = algorithms.map(name => ({ name, hash: createHash(name) }))
  const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(size, pieceBytes)))
  try {
    const found = await file.stat()
    if (!found.isFile()) return { found: 'broken', because: 'it is not a plain file' }
    if (found.size !== size) {
      return { found: 'broken', because: `it has ${found.size} bytes instead of ${size}` }
    }
  } catch (error) {
    return failed(error)
  }
  for (let at = 0; at < size; ) {
    let bytesRead: number
    try {
      ;({ bytesRead } = await file.read(buffer, 0, buffer.length, at))
    } catch (error) {
      return failed(error)
    }
    if (bytesRead === 0) return { found: 'broken', because: `it ends at byte ${at} of ${size}` }
    for (const { hash } of hashes) hash.update(buffer.subarray(0, bytesRead))
    at += bytesRead
    await onRead(bytesRead)
  }
  return {
    found: 'whole',
    digests: new Map(hashes.map(({ name, hash }) => [name, hash.digest('hex')])),
  }
}

function failed(error: unknown): Examined {
  const code = systemCode(error)
  if (code === 'ENOENT') return { found: 'broken', because: 'it is missing' }
  if (code === 'ELOOP') return { found: 'broken', because: 'it is a link' }
  if (code === 'EIO') return { found: 'broken', because: 'the disk cannot read it any more' }
  return { found: 'unknown', because: explainError(error) }
}
