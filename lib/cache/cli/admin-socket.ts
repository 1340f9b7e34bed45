/**
 * The owner of a cache directory takes requests from commands that run beside it: a unix socket named `control`, one request
 * and one answer a connection, a line of JSON each. Whoever may write to the socket's file may ask: the owner's user and root.
 *
 * Only who holds the directory's lock may open it, so what lies there under that name is a dead owner's.
 */
import { chmod, open, rm } from 'node:fs/promises'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { explainError, systemCode } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'

/** Answers a request; what it throws is told to whoever asked. */
export type ControlHandler = (request: unknown) => Promise<unknown>

export interface Control {
  close(): Promise<void>
}

export interface ControlOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly handle: ControlHandler
}

const name = 'control'
/** Longest line, either way. */
const maxLine = 256 * 1024
/** How long a request, and its answer, may take to come. */
const patience: Milliseconds = 10_000
const maxConnections = 16

/**
 * Opens the socket of a directory this process owns. On a file system without sockets it warns and goes on without.
 */
export async function openControl(directory: string, options: ControlOptions): Promise<Control> {
  const { clock, log, handle } = options
  const place = await placeIn(directory)
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    void serve(socket, clock, handle)
  })
  server.maxConnections = maxConnections
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>(resolve => server.close(() => resolve()))
    await rm(place.path, { force: true }).catch(() => undefined)
    await place.close()
  }
  try {
    await rm(place.path, { force: true })
    await listen(server, place.path)
    await chmod(place.path, 0o600)
  } catch (error) {
    log.warn('commands cannot ask this process for anything: the socket cannot be opened', {
      path: join(directory, name),
      because: explainError(error),
    })
  }
  return { close }
}

/** What the owner answers; undefined when nobody owns the directory. Throws when it refuses or does not answer. */
export async function askOwner(
  directory: string,
  request: unknown,
  clock: Clock,
): Promise<{ readonly answer: unknown } | undefined> {
  let place: Place
  try {
    place = await placeIn(directory)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const line = await exchange(place.path, `${JSON.stringify(request)}\n`, clock)
    const reply: unknown = JSON.parse(line)
    if (typeof reply !== 'object' || reply === null) throw new Error('the owner answers nonsense')
    if ('answer' in reply) return { answer: reply.answer }
    throw new Error('because' in reply ? String(reply.because) : 'the owner answers nonsense')
  } catch (error) {
    if (['ENOENT', 'ECONNREFUSED'].includes(systemCode(error) ?? '')) return undefined
    throw error
  } finally {
    await place.close()
  }
}

interface Place {
  readonly path: string
  close(): Promise<void>
}

/** Socket paths end at 107 bytes; by way of the open directory every one is short. */
async function placeIn(directory: string): Promise<Place> {
  const handle = await open(directory, 'r')
  const base = process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : directory
  return { path: join(base, name), close: () => handle.close() }
}

async function serve(socket: Socket, clock: Clock, handle: ControlHandler): Promise<void> {
  socket.unref()
  socket.on('error', () => socket.destroy())
  const cancel = clock.after(patience, () => socket.destroy())
  let reply: object
  try {
    const request: unknown = JSON.parse(await lineFrom(socket))
    reply = { answer: await handle(request) }
  } catch (error) {
    reply = { because: explainError(error) }
  } finally {
    cancel()
  }
  socket.end(`${JSON.stringify(reply)}\n`)
}

function exchange(path: string, request: string, clock: Clock): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ path })
    const cancel = clock.after(patience, () => {
      socket.destroy(new Error('the process that owns the cache directory does not answer'))
    })
    socket.on('connect', () => socket.end(request))
    // Rejects with the error of the connection, too.
    lineFrom(socket)
      .then(resolve, reject)
      .finally(() => {
        cancel()
        socket.destroy()
      })
  })
}

/** The first line that comes. Rejects when the connection ends before it, fails, or brings too much. */
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
    socket.on('close', () => reject(new Error('the connection ended')))
    socket.on('end', () => reject(new Error('the connection ended')))
  })
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, exclusive: true }, () => {
      server.off('error', reject)
      server.on('error', () => undefined)
      server.unref()
      resolve()
    })
  })
}
