/**
 * Writes small state to disk, whole or not at all: temporary name, exclusive create, write, fsync, rename, fsync of the
 * directory.
 */
import { randomBytes } from 'node:crypto'
import { link } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { systemCode } from '../errors.ts'
import { type Owner, ownerIn } from './directory-owner.ts'
import { type FileCalls, type OpenedFile, systemFiles } from './file-calls.ts'

interface AtomicWriteOptions {
  /** Permission bits of the new file; 0o644 when not given. */
  readonly mode?: number
  /** The user who is to own the new file, for a process that may give files away; the owner of the directory when not given. */
  readonly owner?: Owner | undefined
  /** False leaves flushing to the kernel: for files whose loss costs a refetch and nothing else. */
  readonly durable?: boolean
  /** Whether the file must not exist yet; then a file of another process makes it throw EEXIST. */
  readonly exclusive?: boolean
  readonly files?: FileCalls
}

/**
 * Replaces `path` with `content`. Readers see the old file or the new one, never a part. Throws what the file system throws;
 * the old file is then untouched and the temporary one gone. The pieces of the content are read one at a time, each after the
 * previous one is written.
 */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array | Iterable<string>,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const name = `.tmp-${randomBytes(8).toString('hex')}-${basename(path)}`
  const temporary = join(dirname(path), name)
  const { durable = true, files = systemFiles } = options
  const { owner = await ownerIn(dirname(path)) } = options
  try {
    await withFile(await files.open(temporary, 'wx', options.mode ?? 0o644), async file => {
      if (owner !== undefined) await file.chown(owner.uid, owner.gid)
      await file.writeFile(content)
      if (durable) await file.sync()
    })
    if (options.exclusive === true) await claim(temporary, path, files)
    else await files.rename(temporary, path)
  } catch (error) {
    await files.rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
  // The rename survives a power cut when the directory is flushed as well.
  if (durable) await withFile(await files.open(dirname(path), 'r'), directory => directory.sync())
}

/**
 * A link succeeds only when the name is free. On file systems without links, the later of two processes replaces the other's
 * file.
 */
async function claim(temporary: string, path: string, { rename, rm }: FileCalls): Promise<void> {
  try {
    await link(temporary, path)
  } catch (error) {
    if (!NO_LINKS.includes(systemCode(error) ?? '')) throw error
    return rename(temporary, path)
  }
  await rm(temporary, { force: true })
}

const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']

async function withFile(file: OpenedFile, act: (file: OpenedFile) => Promise<void>): Promise<void> {
  try {
    await act(file)
  } finally {
    await file.close()
  }
}
