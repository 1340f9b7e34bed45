/**
 * Keeps commands from writing to a store of another user.
 */
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { Failure, valueUnlessMissing } from '../../errors.ts'

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
