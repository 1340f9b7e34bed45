/**
 * Keeps commands that root runs from writing to a store of another user.
 */
import { stat } from 'node:fs/promises'
import { Failure, systemCode } from '../../errors.ts'

/**
 * Throws a Failure when root would write to a directory of another user: it would leave files that the user of the service can
 * neither read nor remove.
 */
export async function mustBeOwner(directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const uid = await ownerOf(directory)
  if (uid === 0) return
  throw new Failure(
    `The cache directory ${directory} belongs to the user ${uid}: run this command as that user, with sudo -u '#${uid}'.`,
    {
      code: 'not-the-owner',
      fault: 'internal',
      publicText: 'The cache directory belongs to another user.',
      facts: { directory, uid },
    },
  )
}

/** Root's, where there is no directory yet. */
async function ownerOf(directory: string): Promise<number> {
  try {
    return (await stat(directory)).uid
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return 0
    throw error
  }
}
