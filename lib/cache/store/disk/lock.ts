/**
 * One writer for a cache directory.
 *
 * # Facts
 * - Node has no flock. A file with a process number in it cannot tell a dead owner from a living one in another container,
 *   where numbers and start times mean something else; a restarted container would refuse its own directory, or two pods of
 *   a rolling update would both write.
 * - A unix socket in the file system is answered by the kernel: connected, somebody lives; refused, nobody does. It holds
 *   across containers that share the directory, and needs no cleaning after kill -9.
 *
 * # Representation
 * Sockets `lock.1`, `lock.2`, …: the owner is who listens on the highest. A socket is bound under a name of its own and then
 * linked to the next number, which exactly one process can do. The highest is never removed, so a process that slept between
 * looking and linking finds a higher one when it looks again, and gives way.
 */
import { randomBytes } from 'node:crypto'
import { link, open, readdir, rm } from 'node:fs/promises'
import { createConnection, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { explainError, Failure, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'

export interface Lock {
  /** Lets the directory go; the socket's file stays behind, dead. */
  release(): Promise<void>
}

/** How long a living owner may take to say its name. */
const patience: Milliseconds = 1000

/**
 * Takes the directory for this process. Throws a Failure with code `directory-in-use` that names the process that has it. On a
 * file system without sockets or links it warns and goes on without.
 */
export async function lockDirectory(
  directory: string,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<Lock> {
  const handle = await open(directory, 'r')
  // Socket paths end at 107 bytes; by way of the open directory every one is short.
  const base = process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : directory
  const own = join(base, `.lock-${randomBytes(8).toString('hex')}`)
  const server = answering(clock.now())
  const release = async () => {
    await new Promise<void>(resolve => server.close(() => resolve()))
    await rm(own, { force: true }).catch(() => undefined)
    await handle.close()
  }
  try {
    await listen(server, own)
    await claim(base, own, directory, clock)
    return { release }
  } catch (error) {
    if (cannotHoldSockets(error)) {
      log.warn(
        'the file system of the cache directory cannot hold a lock: see that no other process writes to it',
        { directory, because: explainError(error) },
      )
      return { release }
    }
    await release()
    throw error
  } finally {
    await rm(own, { force: true }).catch(() => undefined)
  }
}

async function claim(base: string, own: string, directory: string, clock: Clock): Promise<void> {
  for (;;) {
    const held = await highest(base)
    if (held > 0) {
      const owner = await ask(lockName(base, held), clock)
      if (owner !== undefined) throw inUse(directory, owner)
    }
    const mine = held + 1
    if (!(await linked(own, lockName(base, mine)))) continue
    if ((await highest(base)) > mine) {
      await rm(lockName(base, mine), { force: true })
      continue
    }
    for (const older of await numbers(base)) {
      if (older < mine) await rm(lockName(base, older), { force: true })
    }
    return
  }
}

function lockName(base: string, number: number): string {
  return join(base, `lock.${number}`)
}

async function numbers(base: string): Promise<readonly number[]> {
  const names = await readdir(base)
  return names.flatMap(name => /^lock\.(\d{1,15})$/.exec(name)?.[1] ?? []).map(Number)
}

async function highest(base: string): Promise<number> {
  return Math.max(0, ...(await numbers(base)))
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (systemCode(error) === 'EEXIST') return false
    throw error
  }
}

/** A server that tells whoever connects which process this is. */
function answering(since: Milliseconds): Server {
  const answer = JSON.stringify({ pid: process.pid, host: hostname(), since })
  const server = createServer(socket => {
    socket.on('error', () => socket.destroy())
    socket.end(answer)
    socket.resume()
    socket.unref()
  })
  server.unref()
  return server
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, exclusive: true }, () => {
      server.off('error', reject)
      // A later error of the listening socket changes nothing about who owns the directory.
      server.on('error', () => undefined)
      resolve()
    })
  })
}

/** Who listens there, in words; undefined when nobody does. */
function ask(path: string, clock: Clock): Promise<string | undefined> {
  return new Promise(resolve => {
    let answer = ''
    const socket = createConnection({ path })
    const end = (owner: string | undefined) => {
      cancel()
      socket.destroy()
      resolve(owner)
    }
    const cancel = clock.after(patience, () => end('another process, which does not answer'))
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => {
      answer += text
      if (answer.length > 4096) end(describe(answer))
    })
    socket.on('end', () => end(describe(answer)))
    socket.on('error', error => {
      const code = systemCode(error)
      const nobody = code === 'ECONNREFUSED' || code === 'ENOENT'
      end(nobody ? undefined : `another process (${explainError(error)})`)
    })
  })
}

function describe(answer: string): string {
  const parts = /^\{"pid":(\d+),"host":"([^"\\]{1,255})","since":(\d{1,15})\}$/.exec(answer)
  if (parts === null) return 'another process'
  return `process ${parts[1]} on ${parts[2]}, running since ${new Date(Number(parts[3])).toISOString()}`
}

function inUse(directory: string, owner: string): Failure {
  return new Failure(
    `The cache directory ${directory} is in use by ${owner}: stop that process or name another directory.`,
    {
      code: 'directory-in-use',
      fault: 'internal',
      publicText: 'The cache directory is in use by another process.',
      facts: { directory, owner },
    },
  )
}

function cannotHoldSockets(error: unknown): boolean {
  return ['EOPNOTSUPP', 'ENOTSUP', 'EPERM', 'EINVAL', 'ENOSYS'].includes(systemCode(error) ?? '')
}
