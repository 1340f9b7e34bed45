/**
 * Checks that a directory can hold a cache: its layout version, its directories, and a trial of every step of a commit. What
 * fails is told in a plain sentence.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { explainError, Failure, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { cacheDirectoryTag, type Disk, type DiskFile, type Layout, layoutVersion } from './disk.ts'

/** Creates what is missing of the layout. Throws what the file system throws. */
export async function createDirectories(disk: Disk, layout: Layout): Promise<void> {
  for (const directory of [layout.blobs, layout.temporary]) await disk.makeDirectory(directory)
  if ((await disk.look(layout.tag)) !== undefined) return
  const tag = await disk.open(layout.tag, 'writing')
  try {
    await tag.put(Buffer.from(cacheDirectoryTag), 0)
  } catch (error) {
    if (!isFull(error)) throw error
    await disk.remove(layout.tag)
  } finally {
    tag.close()
  }
}

/** Whether a disk has no room left: what it holds can still be read, and room may come. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(systemCode(error) ?? '')
}

/** Refuses a directory a newer layout lives in; says so when an older one does, which is then left alone. */
export async function checkVersion(disk: Disk, layout: Layout, log: Logger): Promise<void> {
  const { directory } = layout
  for (const name of await disk.list(directory)) {
    const version = Number(/^v(\d{1,6})$/.exec(name)?.[1] ?? layoutVersion)
    if (version > layoutVersion) {
      throw new Failure(
        `The cache directory ${directory} was written by a newer cachesvc (layout v${version}, this one knows v${layoutVersion}): run the newer one or name another directory.`,
        {
          code: 'directory-too-new',
          lasting: true,
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

/** Bytes of a trial: enough that a full disk shows. */
const trialBytes = 256 * 1024

/** Writes, flushes, renames, reads back and removes a file the way a commit does, and asks for the free space. */
export async function tryDisk(disk: Disk, layout: Layout): Promise<void> {
  const content = randomBytes(trialBytes)
  const first = layout.temporaryFile()
  const second = layout.temporaryFile()
  let file: DiskFile | undefined
  try {
    file = await disk.open(first, 'creating')
    await file.put(content, 0)
    await file.sync()
    await disk.rename(first, second)
    if (!content.equals(await file.bytes(0, trialBytes))) {
      throw new Error('what was read back is not what was written')
    }
    await disk.space(layout.temporary)
  } finally {
    file?.close()
    await disk.remove(first).catch(() => undefined)
    await disk.remove(second).catch(() => undefined)
  }
}

/** The Failure for a cache directory that cannot be used: what is wrong with it and how to mend it, in one sentence. */
export async function directoryFailure(
  disk: Disk,
  directory: string,
  error: unknown,
  use: 'store' | 'read' = 'store',
): Promise<Failure> {
  if (error instanceof Failure) return error
  const owner = await disk.look(directory).catch(() => undefined)
  const [problem, mend] = diagnose(error, { directory, owner: owner?.uid, use })
  return new Failure(`The cache directory ${directory} ${problem}: ${mend}.`, {
    code: 'directory-unusable',
    facts: { directory, system: systemCode(error) },
    cause: error,
  })
}

/** How to let the unit of systemd write to a directory: what a person types. */
export function letServiceWrite(directory: string): string {
  return `run \`sudo install -d -o cachesvc -g cachesvc -m 0750 ${directory}\`, then \`sudo systemctl edit cachesvc\` with the lines \`[Service]\` and \`ReadWritePaths=${directory}\`, then \`sudo systemctl restart cachesvc\``
}

const another = 'name another with cache_directory or --cache-dir'

type Diagnosis = readonly [problem: string, mend: string]

const noDirectory: Diagnosis = [
  'is not a directory, or lies below something that is none',
  `move that file away or ${another}`,
]

const diagnoses: ReadonlyMap<string | undefined, Diagnosis> = new Map([
  ['ENOTDIR', noDirectory],
  ['EEXIST', noDirectory],
  ['ENOSPC', ['has no space left (bytes or inodes)', `make room on its file system or ${another}`]],
  ['EDQUOT', ['is at the disk quota of its user', `raise the quota or ${another}`]],
  ['ENOENT', ['is not there and cannot be created', `create it or ${another}`]],
])

function diagnose(
  error: unknown,
  {
    directory,
    owner,
    use,
  }: {
    readonly directory: string
    readonly owner: number | undefined
    readonly use: 'store' | 'read'
  },
): Diagnosis {
  const code = systemCode(error)
  // A unit with ProtectSystem=strict has most of the machine read-only.
  if (code === 'EROFS') {
    return [
      'lies on a read-only file system',
      `if systemd runs the service, ${letServiceWrite(directory)}; else mount it for writing or ${another}`,
    ]
  }
  const unknown = `does not pass the self-test (${explainError(error)})`
  if (code !== 'EACCES' && code !== 'EPERM') {
    return diagnoses.get(code) ?? [unknown, `see to its disk or ${another}`]
  }
  const user = `user ${process.geteuid?.() ?? 'of this process'}`
  if (owner === undefined) {
    return [
      `is not there, or out of reach, and ${user} may not create it`,
      `create it and give it to that user with chown, or ${another}`,
    ]
  }
  if (use === 'read') {
    return [
      `may not be read by ${user} (it belongs to user ${owner})`,
      `try it with sudo, or ${another}`,
    ]
  }
  return [
    `may not be read and written by ${user} (it belongs to user ${owner})`,
    `give it and everything in it to that user with chown -R, or ${another}`,
  ]
}
