/**
 * Decides the owner of new files in a directory. The user of a service could neither read nor remove files that a process of
 * root leaves in its directory.
 */
import { constants, lchown, mkdir, open, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import { attempt, valueUnlessMissing } from '../errors.ts'

export interface Owner {
  readonly uid: number
  readonly gid: number
}

/** The owner to whom this process gives the files it makes in a directory; undefined when that is its own user. */
export async function ownerIn(directory: string): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined
  const found = await valueUnlessMissing(stat(directory), ['ENOENT', 'ENOTDIR'])
  return found === undefined || found.uid === 0 ? undefined : { uid: found.uid, gid: found.gid }
}

/** Makes a directory and the missing ones above it. They get the owner of the nearest existing one. */
export async function makeDirectory(path: string, mode = 0o777): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode })
  if (first === undefined) return
  const owner = await ownerIn(dirname(first))
  if (owner === undefined) return
  for (const made of fromTo(first, path)) await lchown(made, owner.uid, owner.gid)
}

/** Appends to a file. One that is not there is made, with this mode and the owner of its directory. A link is not followed. */
export async function appendOwned(path: string, text: string, mode: number): Promise<void> {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, mode)
  try {
    const owner = (await file.stat()).size === 0 ? await ownerIn(dirname(path)) : undefined
    if (owner !== undefined) await file.chown(owner.uid, owner.gid)
    await file.appendFile(text)
  } finally {
    await file.close()
  }
}

/** The directories from `first`, which lies above, down to `path`. */
export function fromTo(first: string, path: string): readonly string[] {
  const all = [path]
  for (let at = path; at !== first && at.length > first.length; ) {
    at = dirname(at)
    all.unshift(at)
  }
  return all
}

/** The name of a user for messages, where it is known without asking the system; else the number. */
export function userName(uid: number): string {
  if (uid === 0) return 'root'
  if (uid !== process.geteuid?.()) return `user ${uid}`
  return ownName() ?? `user ${uid}`
}

/** The name of the user of this process; undefined when the machine has none for it. */
export function ownName(): string | undefined {
  return attempt(() => userInfo().username)
}

/**
 * The command that gives everything in a directory of a service to the user of this process; for root, to the user of the
 * service.
 */
export function ownersCommand(directory: string): string {
  const me = process.geteuid?.()
  const name = ownName() ?? me
  return me === 0
    ? `give all of it to the user of the service: chown -R USER: ${directory}`
    : `give all of it to ${name}: sudo chown -R ${name}: ${directory}`
}
