/**
 * Is this directory fit to hold a cache? Layout version, directories, a trial of every step a commit takes, and the plain
 * sentence when one of them fails.
 */
import { randomBytes } from 'node:crypto'
import {
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { explainError, Failure, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { cacheDirectoryTag, type Layout, layoutVersion } from './layout.ts'

/** Creates what is missing of the layout. Throws what the file system throws. */
export async function createDirectories(layout: Layout): Promise<void> {
  for (const directory of [layout.entries, layout.blobs, layout.temporary]) {
    await mkdir(directory, { recursive: true })
  }
  await writeFile(layout.tag, cacheDirectoryTag, { flag: 'wx' }).catch(async error => {
    if (systemCode(error) === 'EEXIST') return
    if (!isFull(error)) throw error
    await rm(layout.tag, { force: true })
  })
}

/** Whether a disk has no room left: what it holds can still be read, and room may come. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(systemCode(error) ?? '')
}

/** Refuses a directory a newer layout lives in; says so when an older one does, which is then left alone. */
export async function checkVersion(layout: Layout, log: Logger): Promise<void> {
  const { directory } = layout
  const versions = (await readdir(directory)).flatMap(name => /^v(\d{1,6})$/.exec(name)?.[1] ?? [])
  for (const version of versions.map(Number)) {
    if (version > layoutVersion) {
      throw new Failure(
        `The cache directory ${directory} was written by a newer cachesvc (layout v${version}, this one knows v${layoutVersion}): run the newer one or name another directory.`,
        {
          code: 'directory-too-new',
          fault: 'internal',
          publicText: 'The cache directory belongs to a newer version.',
          facts: { directory, version },
        },
      )
    }
    if (version < layoutVersion) {
      log.warn('an older layout lies in the cache directory; it is not read and may be removed', {
        directory: join(directory, `v${version}`),
        version,
      })
    }
  }
}

/** Removes what earlier runs left in `tmp/`. Only for the owner of the directory, before it writes. Returns how many. */
export async function sweepTemporary(layout: Layout): Promise<number> {
  const names = await readdir(layout.temporary)
  for (const name of names) await rm(join(layout.temporary, name), { recursive: true, force: true })
  return names.length
}

/** Bytes of a trial: enough that a full disk shows. */
const trialBytes = 256 * 1024

/** Writes, flushes, renames, reads back and removes a file the way a commit does, and asks for the free space. */
export async function tryDisk(layout: Layout): Promise<void> {
  const content = randomBytes(trialBytes)
  const first = layout.temporaryFile()
  const second = layout.temporaryFile()
  try {
    const file = await open(first, 'wx')
    try {
      await file.writeFile(content)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(first, second)
    if (!content.equals(await readFile(second))) {
      throw new Error('what was read back is not what was written')
    }
    await statfs(layout.temporary)
  } finally {
    await rm(first, { force: true }).catch(() => undefined)
    await rm(second, { force: true }).catch(() => undefined)
  }
}

/** The Failure for a cache directory that cannot be used: what is wrong with it and how to mend it, in one sentence. */
export async function directoryFailure(directory: string, error: unknown): Promise<Failure> {
  if (error instanceof Failure) return error
  const { problem, mend } = diagnose(error, await ownerOf(directory))
  return new Failure(`The cache directory ${directory} ${problem}: ${mend}.`, {
    code: 'directory-unusable',
    fault: 'internal',
    publicText: 'The cache directory cannot be used.',
    facts: { directory, system: systemCode(error) },
    cause: error,
  })
}

const another = 'name another with cache_directory or --cache-dir'

function diagnose(error: unknown, owner: number | undefined): { problem: string; mend: string } {
  switch (systemCode(error)) {
    case 'ENOTDIR':
    case 'EEXIST':
      return {
        problem: 'is not a directory, or lies below something that is none',
        mend: `move that file away or ${another}`,
      }
    case 'EACCES':
    case 'EPERM': {
      const user = `user ${process.geteuid?.() ?? 'of this process'}`
      if (owner === undefined) {
        return {
          problem: `is not there, or out of reach, and ${user} may not create it`,
          mend: `create it and give it to that user with chown, or ${another}`,
        }
      }
      return {
        problem: `may not be read and written by ${user} (it belongs to user ${owner})`,
        mend: `give it and everything in it to that user with chown -R, or ${another}`,
      }
    }
    case 'EROFS':
      return {
        problem: 'lies on a read-only file system',
        mend: `mount it for writing or ${another}`,
      }
    case 'ENOSPC':
      return {
        problem: 'has no space left (bytes or inodes)',
        mend: `make room on its file system or ${another}`,
      }
    case 'EDQUOT':
      return {
        problem: 'is at the disk quota of its user',
        mend: `raise the quota or ${another}`,
      }
    case 'ENOENT':
      return {
        problem: 'is not there and cannot be created',
        mend: `create it or ${another}`,
      }
    default:
      return {
        problem: `does not pass the self-test (${explainError(error)})`,
        mend: `see to its disk or ${another}`,
      }
  }
}

async function ownerOf(directory: string): Promise<number | undefined> {
  return stat(directory).then(
    found => found.uid,
    () => undefined,
  )
}

/** The error of a full disk: no reason not to start, for what it holds can be served. Throws every other one. */
export async function trial(layout: Layout): Promise<unknown> {
  try {
    await tryDisk(layout)
    return undefined
  } catch (error) {
    if (isFull(error)) return error
    throw error
  }
}
