/**
 * Where checks are answered: an address, or a socket in the file system. Opens the listener there.
 *
 * # Facts
 * - The file of a socket stays when its process is killed. Connections to it are refused then, and nothing can listen there before the
 *   file is removed.
 * - Node makes the file by the umask of the process; who may write to it may connect (unix(7)).
 */
import { once } from 'node:events'
import { chmod, lstat, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { explainError, Failure, systemCode } from '../../errors.ts'
import { type ListenAddress, startListening } from '../../http/server/listen.ts'
import type { HttpServer } from '../../http/server/server.ts'

export type CheckAddress = ListenAddress | { readonly path: string }

/** Starts to listen, and says where. Throws a Failure that says why not. */
export async function listenForChecks(server: HttpServer, at: CheckAddress): Promise<CheckAddress> {
  const inUse = 'another process has it; every instance needs one of its own'
  if (!('path' in at)) return startListening(server, at, inUse)
  const { path } = at
  const failure = (why: string, cause?: unknown) =>
    new Failure(`cannot listen on unix:${path}: ${why}`, { code: 'LISTEN', cause })
  try {
    const there = await lstat(path).catch(() => undefined)
    if (there?.isSocket() === false) throw failure('a file that is no socket has this name')
    if (there !== undefined) {
      if (await isAnswering(path)) throw failure(inUse)
      await rm(path, { force: true })
    }
    await server.listenOnPath(path)
    await chmod(path, 0o666)
  } catch (error) {
    if (error instanceof Failure) throw error
    const reasons: Readonly<Record<string, string>> = {
      EADDRINUSE: inUse,
      // Node says so of a directory that does not exist as well.
      EACCES: 'its directory does not exist, or this user may not make a file in it',
    }
    throw failure(reasons[systemCode(error) ?? ''] ?? explainError(error), error)
  }
  return at
}

/** Whether a process listens on a socket in the file system: the kernel answers at once. */
async function isAnswering(path: string): Promise<boolean> {
  const socket = createConnection(path)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
