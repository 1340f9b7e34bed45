/**
 * Asks the running service on behalf of a command.
 */
import { printAnswer, serviceNotAsked, wholeDirectory } from '../../../admin-socket.ts'
import type { ExitCode } from '../../../program.ts'
import { printComplaint } from './terminal.ts'

/** Asks the service that owns the cache directory, prints its answer, and returns its exit code. */
export async function askService(directory: string, request: object): Promise<ExitCode> {
  const code = await printAnswer({ directory, lock: wholeDirectory }, request, printComplaint)
  if (code === 'forbidden') {
    throw serviceNotAsked(
      `The service of ${directory} answers only its own user and root: try it with sudo.`,
    )
  }
  if (code !== undefined) return code
  throw serviceNotAsked(
    `No cachesvc runs with the cache directory ${directory}: start it, or name its directory with --cache-dir.`,
  )
}
