/**
 * Whether the cache directory can be used: its layout version, its owner and a trial of every step of a commit before the store opens, and
 * whether its disk takes writes while the store is open. Each failure becomes a plain sentence for the operator.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Milliseconds } from '../../../async/clock.ts'
import { explainError, Failure, systemCode, valueUnlessMissing } from '../../../errors.ts'
import type { StoreEvents } from '../events.ts'
import {
  cacheDirectoryTag,
  type Disk,
  type DiskFile,
  DiskHung,
  type Layout,
  layoutVersion,
  type Surroundings,
} from './disk.ts'

/** Whether the store takes writes. Reading goes on as long as the disk answers. */
export type Health =
  | { readonly writable: true }
  | {
      readonly writable: false
      readonly because: string
      /** Whether the file system or the quota has no room. A full file system can still have free bytes, too few for the file that did not fit. */
      readonly full?: boolean
    }

const trialInterval: Milliseconds = 15_000

interface HealthParts extends Surroundings {
  readonly events: Pick<StoreEvents, 'tell'>
}

/** Remembers that the disk takes no writes after one has failed or hung, until a trial succeeds. */
export class DiskHealth {
  readonly #parts: HealthParts
  #because: string | undefined
  #full = false
  #cancel: (() => void) | undefined
  #closed = false

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  get state(): Health {
    return this.#because === undefined
      ? { writable: true }
      : { writable: false, because: this.#because, full: this.#full }
  }

  /** Notes that the disk failed during `doing`. Answers the reason in words. */
  failed(error: unknown, doing: string): string {
    const because = `${doing}: ${diskProblem(error)}`
    if (this.#because === undefined) {
      this.#parts.log.warn('the disk fails; serving without it', {
        because,
        system: systemCode(error),
      })
    }
    this.#because = because
    this.#full = isFull(error)
    if (!this.#closed)
      this.#cancel ??= this.#parts.clock.after(trialInterval, () => void this.#try())
    return because
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  async #try(): Promise<void> {
    const { disk, layout, log, events } = this.#parts
    try {
      await tryDisk(disk, layout)
      this.#cancel = undefined
      this.#because = undefined
      log.info('the disk takes writes again')
      events.tell('recovered', undefined)
    } catch (error) {
      this.#cancel = undefined
      this.failed(error, 'trial')
    }
  }
}

/** The problem of the disk in words, for an error of the file system. */
export function diskProblem(error: unknown): string {
  if (error instanceof DiskHung) return 'the disk does not answer'
  return inWords.get(systemCode(error)) ?? explainError(error)
}

const inWords: ReadonlyMap<string | undefined, string> = new Map([
  ['ENOSPC', 'no space left on the file system'],
  ['EDQUOT', 'the disk quota is used up'],
  ['EROFS', 'the file system is read-only'],
  ['EIO', 'the disk reports an input/output error'],
  ['EACCES', 'permission denied'],
  ['EPERM', 'permission denied'],
])

/** Creates the missing directories and the tag of the layout. Throws what the file system throws, except for a tag on a full disk. */
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

/** Removes what an earlier process has left half-written, and answers how many files. Only the owner may call it, before it writes. */
export async function emptyTemporary(disk: Disk, layout: Layout): Promise<number> {
  const names = await disk.names(layout.temporary)
  for (const name of names) await disk.removeTree(join(layout.temporary, name))
  return names.length
}

/** Whether the error says that the disk or the quota is full. Stored files can still be read then. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(systemCode(error) ?? '')
}

/** Throws a Failure when the directory has a newer layout. */
export async function checkVersion(disk: Disk, layout: Layout): Promise<void> {
  const { directory } = layout
  for (const name of await disk.names(directory)) {
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
  }
}

/** Bytes that a trial writes: enough to notice a full disk. */
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

/** The Failure for a cache directory that cannot be used. Its message says in one sentence what is wrong and how to mend it. */
export async function directoryFailure(
  disk: Disk,
  directory: string,
  error: unknown,
  use: 'store' | 'read' = 'store',
): Promise<Failure> {
  if (error instanceof Failure) return error
  const owner = await disk.look(directory).catch(() => undefined)
  const [problem, mend] = diagnose(error, directory, owner?.uid, use)
  return new Failure(`The cache directory ${directory} ${problem}: ${mend}.`, {
    code: 'directory-unusable',
    facts: { directory, system: systemCode(error) },
    cause: error,
  })
}

/** The commands with which an operator lets the systemd unit write to a directory. */
export function letServiceWrite(directory: string): string {
  return `run \`sudo install -d -o cachesvc -g cachesvc -m 0750 ${directory}\`, then \`sudo systemctl edit cachesvc\` with the lines \`[Service]\` and \`ReadWritePaths=${directory}\`, then \`sudo systemctl restart cachesvc\``
}

const another = 'name another with cache_directory or --cache-dir'

type Diagnosis = readonly [problem: string, mend: string]

const noDirectory: Diagnosis = [
  'is not a directory, or is below something that is not a directory',
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
  directory: string,
  owner: number | undefined,
  use: 'store' | 'read',
): Diagnosis {
  const code = systemCode(error)
  // A unit with ProtectSystem=strict sees most of the file system as read-only.
  if (code === 'EROFS') {
    return [
      'is on a read-only file system',
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

/**
 * Throws a Failure when the directory belongs to another user and the caller is root or may not write there. Root would leave files that
 * the user of the service can neither read nor remove. The message must not advise another user to take the directory.
 */
export async function mustBeOwner(directory: string): Promise<void> {
  // There may be no directory yet.
  const uid = (await valueUnlessMissing(stat(directory)))?.uid
  const user = process.getuid?.()
  if (uid === undefined || user === undefined || uid === user) return
  if (user !== 0 && (await isWritable(directory))) return
  throw new Failure(
    `The cache directory ${directory} belongs to the user ${uid}: run this command as that user, with sudo -u '#${uid}'.`,
    { code: 'not-the-owner', facts: { directory, uid } },
  )
}

function isWritable(directory: string): Promise<boolean> {
  return access(directory, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
}
