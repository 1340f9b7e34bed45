/**
 * The admin socket in a directory: the process that listens on it owns the directory or a file in it, and answers commands.
 *
 * # Facts
 * - Node has no flock. A file with a process number cannot tell a dead owner from a living one in another container, where numbers and
 *   start times mean something else.
 * - The kernel answers for a unix socket in the file system: it accepts a connection while the owner lives and refuses it afterwards, also
 *   after kill -9, and also between containers that share the directory.
 * - Users who may write to the socket's file may ask: its owner and root. When root makes the socket, it gets the owner of the directory.
 *
 * # Representation
 * Sockets `lock.1`, `lock.2`, … (or with another first part): the owner listens on the highest. A socket is bound under a name of its own
 * and then linked to the next number, which only one process can do. The highest is never removed. So a process that was suspended between
 * its search and its link finds a higher one when it searches again, and gives up.
 *
 * A connection carries one request and one reply, each a line of JSON. A reply names the owner. To a request other than null it adds
 * `answer`, or `because` with the reason of an error, or neither when the owner takes no commands.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { chmod, chown, type FileHandle, link, open, readdir, rm, stat } from 'node:fs/promises'
import { createConnection, createServer, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { type Clock, type Milliseconds, systemClock } from './async/clock.ts'
import type { Reload } from './daemon.ts'
import { explainError, Failure, systemCode } from './errors.ts'
import { isRecord, type JsonObject } from './json.ts'
import type { Logger } from './log/log.ts'
import { type ExitCode, exitCodes, print } from './program.ts'

/** Answers a request. The command that asked gets the message of an error that it throws. */
export type RequestHandler = (request: unknown) => Promise<unknown>

export interface AdminSocket {
  /** From now on answers requests of commands with `handle`; undefined answers none. */
  answer(handle: RequestHandler | undefined): void
  /** Gives the directory up. The file of the socket stays, and connections to it are refused. */
  release(): Promise<void>
}

/** The owned directory or file, and its name in messages. */
export interface Property {
  readonly directory: string
  /** First part of the names of its sockets. */
  readonly lock: string
  /** A name such as `cache directory /var/cache/cachesvc`. */
  readonly name: string
  /** The advice when the other process is to stay, such as `name another directory`. */
  readonly mend: string
}

/** First part of the names of the sockets of a whole directory. */
export const wholeDirectory = 'lock'

/** The time in which a living owner must answer that it is there. */
const presenceTime: Milliseconds = 1000
/** The time in which an answer must come: some requests read all entries, or wait for a reload. */
const answerTime: Milliseconds = 60_000
/** The most characters of a line, in both directions. */
const maxLine = 256 * 1024
const maxConnections = 16

/**
 * Makes this process the owner. Throws a Failure with code `directory-in-use` that names the process that owns it, or with
 * `lock-of-another-user` when that process may not be asked. On a file system without sockets or links it warns and continues.
 */
export async function takeOwnership(
  property: Property,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<AdminSocket> {
  const handle = await open(property.directory, 'r')
  const base = shortPath(property.directory, handle)
  const bound = join(base, `.lock-${randomBytes(8).toString('hex')}`)
  const sockets = new Set<Socket>()
  const owner = { pid: process.pid, host: hostname(), since: clock.now() }
  let handler: RequestHandler | undefined
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    void converse(socket, { clock, owner, handler })
  })
  server.maxConnections = maxConnections
  server.unref()
  const release = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>(resolve => server.close(() => resolve()))
    await handle.close()
  }
  try {
    server.listen({ path: bound, exclusive: true })
    await once(server, 'listening')
    // A later error of the listening socket does not change the owner of the directory.
    server.on('error', () => undefined)
    await restrict(bound, handle)
    await claim(base, bound, { property, clock })
  } catch (error) {
    if (!cannotHoldSockets(error)) {
      await release()
      throw error
    }
    log.warn(
      `the file system cannot hold a lock of the ${property.name}: see that no other process writes to it; commands cannot ask this one`,
      { directory: property.directory, because: explainError(error) },
    )
  } finally {
    await rm(bound, { force: true }).catch(() => undefined)
  }
  return {
    answer(handle) {
      handler = handle
    },
    release,
  }
}

/** Linux has this flag, for which Node has no name: the handle stands for the file itself and cannot read it. */
const O_PATH = 0o10000000

/**
 * Lets only the owner of the directory write to the socket. On Linux it changes the inode, because the owner of the directory can replace
 * the name by a link to another file, which root would then change.
 */
async function restrict(bound: string, directory: FileHandle): Promise<void> {
  if (process.platform !== 'linux') return chmod(bound, 0o600)
  const socket = await open(bound, O_PATH | constants.O_NOFOLLOW)
  try {
    if (!(await socket.stat()).isSocket()) throw new Error(`${bound} was replaced by another file`)
    const itself = `/proc/self/fd/${socket.fd}`
    await chmod(itself, 0o600)
    if (process.geteuid?.() !== 0) return
    // After a run as root the user of the service must be able to ask whether that process has ended.
    const { uid, gid } = await directory.stat()
    await chown(itself, uid, gid).catch(() => undefined)
  } finally {
    await socket.close()
  }
}

/**
 * The answer of the owner of a directory or a file in it; undefined when no owner takes commands. Throws when it refuses or does not
 * answer.
 */
export async function askOwner(
  { directory, lock: first }: Pick<Property, 'directory' | 'lock'>,
  request: unknown,
  clock: Clock,
): Promise<{ readonly answer: unknown } | undefined> {
  let handle: FileHandle | undefined
  try {
    handle = await open(directory, 'r')
    const lock = join(shortPath(directory, handle), first)
    const path = `${lock}.${await highest(lock)}`
    const reply = await exchange(path, request, { clock, time: answerTime })
    if ('because' in reply) throw new Error(String(reply['because']))
    return 'answer' in reply ? { answer: reply['answer'] } : undefined
  } catch (error) {
    if (isUnowned(error)) return undefined
    throw error
  } finally {
    await handle?.close()
  }
}

/** A path to the directory that is short and lasts while its handle is open: socket paths end at 107 bytes. */
function shortPath(directory: string, { fd }: FileHandle): string {
  return process.platform === 'linux' ? `/proc/self/fd/${fd}` : directory
}

/** Makes the socket `bound` the highest, unless the highest has a living owner. */
async function claim(
  base: string,
  bound: string,
  { property, clock }: { readonly property: Property; readonly clock: Clock },
): Promise<void> {
  const lock = join(base, property.lock)
  for (;;) {
    const held = await highest(lock)
    const owner = held === 0 ? undefined : await ownerOf(`${lock}.${held}`, { property, clock })
    if (owner !== undefined) throw inUse(property, owner)
    const mine = held + 1
    try {
      await link(bound, `${lock}.${mine}`)
    } catch (error) {
      if (systemCode(error) === 'EEXIST') continue
      throw error
    }
    if ((await highest(lock)) > mine) {
      await rm(`${lock}.${mine}`, { force: true })
      continue
    }
    for (const older of await numbers(lock)) {
      if (older < mine) await rm(`${lock}.${older}`, { force: true })
    }
    return
  }
}

/** The numbers of the sockets whose paths begin with `lock` and a dot. */
async function numbers(lock: string): Promise<readonly number[]> {
  const first = `${basename(lock)}.`
  const names = (await readdir(dirname(lock))).filter(name => name.startsWith(first))
  return names.flatMap(name => /^\d{1,15}$/.exec(name.slice(first.length)) ?? []).map(Number)
}

async function highest(lock: string): Promise<number> {
  return Math.max(0, ...(await numbers(lock)))
}

/** The process that listens on `path`, in words; undefined when none does. */
async function ownerOf(
  path: string,
  { property, clock }: { readonly property: Property; readonly clock: Clock },
): Promise<string | undefined> {
  try {
    const { owner } = await exchange(path, null, { clock, time: presenceTime })
    if (!isRecord(owner)) return 'another process'
    const { pid, host, since } = owner
    return `process ${pid} on ${host}, running since ${new Date(Number(since)).toISOString()}`
  } catch (error) {
    if (systemCode(error) === 'EACCES') {
      const lock = await stat(path).catch(() => undefined)
      if (lock !== undefined) throw notToBeAsked(property, path, lock.uid)
      return undefined
    }
    return isUnowned(error) ? undefined : `another process (${explainError(error)})`
  }
}

function isUnowned(error: unknown): boolean {
  return ['ENOENT', 'ECONNREFUSED'].includes(systemCode(error) ?? '')
}

function inUse({ name, mend, directory }: Property, owner: string): Failure {
  return new Failure(`The ${name} is in use by ${owner}: stop that process or ${mend}.`, {
    code: 'directory-in-use',
    facts: { directory, owner },
  })
}

function notToBeAsked({ name, directory }: Property, path: string, uid: number): Failure {
  const file = join(directory, basename(path))
  const sentence = `The file ${file} belongs to user ${uid}, so this one (${process.geteuid?.()}) cannot ask whether a process has the ${name}: if none runs as user ${uid}, remove the file.`
  return new Failure(sentence, {
    code: 'lock-of-another-user',
    facts: { directory, uid },
  })
}

function cannotHoldSockets(error: unknown): boolean {
  return ['EOPNOTSUPP', 'ENOTSUP', 'EPERM', 'EINVAL', 'ENOSYS'].includes(systemCode(error) ?? '')
}

/** The owner's side of a connection. */
async function converse(
  socket: Socket,
  { clock, owner, handler }: { clock: Clock; owner: object; handler: RequestHandler | undefined },
): Promise<void> {
  socket.unref()
  socket.on('error', () => socket.destroy())
  const cancel = clock.after(answerTime, () => socket.destroy())
  let reply: object = {}
  try {
    const request: unknown = JSON.parse(await lineFrom(socket))
    if (request !== null && handler !== undefined) reply = { answer: await handler(request) }
  } catch (error) {
    reply = { because: explainError(error) }
  } finally {
    cancel()
  }
  socket.end(`${JSON.stringify({ owner, ...reply })}\n`)
}

/** A command's side of a connection. Returns the reply to its request. */
async function exchange(
  path: string,
  request: unknown,
  { clock, time }: { readonly clock: Clock; readonly time: Milliseconds },
): Promise<JsonObject> {
  const socket = createConnection({ path })
  const cancel = clock.after(time, () => {
    socket.destroy(new Error('the process that owns the directory does not answer'))
  })
  socket.on('connect', () => socket.end(`${JSON.stringify(request)}\n`))
  try {
    const reply: unknown = JSON.parse(await lineFrom(socket))
    if (isRecord(reply)) return reply
    throw new Error('the process that owns the directory answers nonsense')
  } finally {
    cancel()
    socket.destroy()
  }
}

/** The first line that arrives. Rejects when the connection ends first, fails, or brings too many characters. */
function lineFrom(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (more: string) => {
      text += more
      const end = text.indexOf('\n')
      if (end >= 0) resolve(text.slice(0, end))
      else if (text.length > maxLine) reject(new Error('the line is too long'))
    })
    socket.on('error', reject)
    for (const event of ['end', 'close']) {
      socket.on(event, () => reject(new Error('the connection ended')))
    }
  })
}

/**
 * The output and the exit code of a command. The running service chooses both, so that a command need not understand the figures of another
 * version.
 */
export interface CommandAnswer {
  readonly out: string
  /** Lines for standard error. */
  readonly complaints: readonly string[]
  readonly code: ExitCode
}

export function outputAnswer(out: string, code: ExitCode = exitCodes.success): CommandAnswer {
  return { out, complaints: [], code }
}

export function complaintAnswer(code: ExitCode, ...complaints: readonly string[]): CommandAnswer {
  return { out: '', complaints, code }
}

/** Reloads and describes the result. A reload without problems adds `remarks`. */
export async function reloadAnswer(
  reload: Reload,
  remarks: () => readonly string[],
): Promise<CommandAnswer> {
  const problems = await reload()
  return problems.length === 0
    ? { ...outputAnswer('reloaded: the new configuration is in force\n'), complaints: remarks() }
    : complaintAnswer(
        exitCodes.configuration,
        ...problems,
        'not reloaded: the running configuration stays in force',
      )
}

/**
 * Asks the service that owns the place, prints its answer and returns its exit code. Returns `forbidden` when this user may not ask, and
 * undefined when no service runs.
 */
export async function printAnswer(
  place: Pick<Property, 'directory' | 'lock'>,
  request: object,
  complain: (sentence: string) => Promise<void>,
): Promise<ExitCode | 'forbidden' | undefined> {
  let reply: Awaited<ReturnType<typeof askOwner>>
  try {
    reply = await askOwner(place, request, systemClock)
  } catch (error) {
    // Only the owner of the socket and root may use it.
    if (['EACCES', 'EPERM'].includes(systemCode(error) ?? '')) return 'forbidden'
    throw error
  }
  if (reply === undefined) return undefined
  const { out, complaints, code } = isRecord(reply.answer) ? reply.answer : {}
  const known = Object.values(exitCodes).find(one => one === code)
  // A service of another version may answer in another shape.
  if (typeof out !== 'string' || !Array.isArray(complaints) || known === undefined) {
    throw serviceNotAsked('The running service is of another version: restart it.')
  }
  if (out !== '') await print(out)
  for (const sentence of complaints) await complain(String(sentence))
  return known
}

export function serviceNotAsked(sentence: string): Failure {
  return new Failure(sentence, { code: 'service-not-asked' })
}
