/**
 * Notices that files which other programs replace have changed, once they stand still.
 *
 * # Facts
 * - Programs that renew several files replace them one after the other, and some programs write a file in place. So changed
 *   files are read when they were the same in two looks in a row.
 */
import { stat } from 'node:fs/promises'
import { systemCode } from '../errors.ts'

/** A group of files. Another object than at the last look means that a start or a reload has read them since. */
interface ReadFiles {
  readonly of: object
  readonly paths: readonly string[]
}

/**
 * A function that looks at the files once and calls `readAgain` when they have changed and stood still. It never throws when `readAgain`
 * does not.
 */
export function settledLook(
  files: () => ReadFiles | undefined,
  readAgain: () => void,
): () => Promise<void> {
  /** The group that the next two variables describe. */
  let known: object | undefined
  let taken: string | undefined
  let seen: string | undefined
  return async () => {
    const now = files()
    const before = seen
    seen = await appearance(now?.paths ?? [])
    // A start or a reload has just read them, but they may have changed since.
    if (known !== now?.of) taken = undefined
    known = now?.of
    if (seen === taken || seen !== before || now === undefined) return
    taken = seen
    readAgain()
  }
}

async function appearance(paths: readonly string[]): Promise<string> {
  const parts = paths.map(async path => {
    try {
      const { ino, mtimeMs, size } = await stat(path)
      return `${ino} ${mtimeMs} ${size}`
    } catch (error) {
      return systemCode(error) ?? 'cannot be looked at'
    }
  })
  return (await Promise.all(parts)).join('; ')
}
