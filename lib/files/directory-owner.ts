/**
 * Whose the files in a directory are to be. A process of root that leaves files of its own in the directory of a service leaves what the user
 * of that service can neither read nor remove.
 */
import { lchown, mkdir, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import { unlessMissing } from '../errors.ts'

export interface Owner {
  readonly uid: number
  readonly gid: number
}

/** The owner to whom this process gives what it makes in a directory; undefined when that is its own in any case. */
export async function ownerIn(directory: string): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined
  const found = await unlessMissing(stat(directory), ['ENOENT', 'ENOTDIR'])
  return found === undefined || found.uid === 0 ? undefined : { uid: found.uid, gid: found.gid }
}

/** Makes a directory and those above it that are missing. They get the owner of the one that was there. */
export async function makeDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true })
  if (first === undefined) return
  const owner = await ownerIn(dirname(first))
  if (owner === undefined) return
  for (const made of fromTo(first, path)) await lchown(made, owner.uid, owner.gid)
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

/** A user as a person knows them: by name where it is known without asking, else by number. */
export function userName(uid: number): string {
  if (uid === 0) return 'root'
  if (uid !== process.geteuid?.()) return `user ${uid}`
  return ownName() ?? `user ${uid}`
}

/** The name of the user of this process; undefined when the machine has none for it. */
export function ownName(): string | undefined {
  try {
    return userInfo().username
  } catch {
    return undefined
  }
}

/** What a person types to give everything in a directory of a service to the user of this process, or to its own user when that is root. */
export function ownersCommand(directory: string): string {
  const me = process.geteuid?.()
  const name = ownName() ?? me
  return me === 0
    ? `give all of it to the user of the service: chown -R USER: ${directory}`
    : `give all of it to ${name}: sudo chown -R ${name}: ${directory}`
}
