/**
 * Reads accepted connections into memory that all of them share. Node makes 64 KiB of memory for each read of a connection that it
 * accepts, even if five bytes come. For connections that a program opens there is the option `onread`; for those it accepts
 * there is none, so what Node accepted is moved to a socket that has it (docs/decisions/0035).
 *
 * # Facts
 * - A read is synchronous: what lies in the shared memory is understood or copied before another connection can be read.
 * - The memory is these sockets' own: the handler of a request may have a connection to an origin give what it kept (`Transport.resume`),
 *   which writes to the memory of those connections before the next request is understood.
 */
import { Socket, type SocketConstructorOpts } from 'node:net'

/** Bytes of the memory, and how many of them a read may bring as a rule: what Node offers for one as well. */
const sharedBytes = 256 * 1024
const usualBytes = 64 * 1024

let memory: { readonly all: Buffer; readonly usual: Buffer } | undefined

function shared() {
  if (memory === undefined) {
    const all = Buffer.allocUnsafeSlow(sharedBytes)
    memory = { all, usual: all.subarray(0, usualBytes) }
  }
  return memory
}

/**
 * Understands or copies the bytes of a read before it returns. True: many more are to come, and the next read may bring as many as
 * there is memory for.
 */
export type Taker = (bytes: Buffer) => boolean

/** What Node keeps of a socket and does not document. */
interface Inside {
  _handle: Handle | null
  /** The server that counts the connection until it has closed. */
  _server: object | null
}

interface Handle {
  reading: boolean
  readStop(): void
  useUserBuffer?(memory: Buffer): void
}

class AcceptedSocket extends Socket {
  /** Who is given the bytes of a read; without one they are copied into the stream. */
  taker: Taker | undefined

  constructor(handle: Handle) {
    const { all, usual } = shared()
    let next = usual
    const onread = {
      // Asked for before the first read, and after each for the next.
      buffer: () => next,
      callback: (count: number) => {
        const bytes = all.subarray(0, count)
        const { taker } = this
        next = taker?.(bytes) ? all : usual
        return taker !== undefined || this.push(Buffer.from(bytes))
      },
    }
    super({ handle, allowHalfOpen: true, onread } as SocketConstructorOpts)
  }
}

/** Moves a connection that was accepted this moment to a socket that reads into the shared memory; others stay as they are. */
export function sharingReads(accepted: Socket): Socket {
  const inside = accepted as unknown as Inside
  const { _handle: handle, _server } = inside
  if (typeof handle?.useUserBuffer !== 'function') return accepted
  handle.readStop()
  handle.reading = false
  const socket = new AcceptedSocket(handle)
  Object.assign(socket, { _server })
  inside._handle = null
  inside._server = null
  return socket
}

/** Has `take` told of each read, and lets the bytes flow. */
export function takeReads(socket: Socket, take: Taker): void {
  if (socket instanceof AcceptedSocket) socket.taker = take
  else socket.on('data', take)
  socket.resume()
}

/** Leaves what is read from now on to the stream. */
export function leaveReads(socket: Socket, take: Taker): void {
  if (socket instanceof AcceptedSocket) socket.taker = undefined
  else socket.off('data', take)
}
