/**
 * Reads accepted connections into memory that all of them share. Node makes 64 KiB of memory for each read of a connection that it
 * accepts, even if five bytes come. For connections that a program opens there is the option `onread`; for those it accepts
 * there is none, so what Node accepted is moved to a socket that has it (docs/decisions/0035).
 *
 * # Facts
 * - A read is synchronous: what lies in the shared memory is understood or copied before another connection can be read.
 * - The memory is these sockets' own. Whoever answers a request may read another connection meanwhile, into other memory.
 */
import { Socket, type SocketConstructorOpts } from 'node:net'

/** What Node offers for a read as well. */
const sharedBytes = 64 * 1024

let shared: Buffer | undefined

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
  taker: ((bytes: Buffer) => void) | undefined

  constructor(handle: Handle) {
    shared ??= Buffer.allocUnsafeSlow(sharedBytes)
    const onread = { buffer: shared, callback: (count: number) => read(count) }
    const options = { handle, allowHalfOpen: true, onread }
    super(options as SocketConstructorOpts)
    const read = (count: number): boolean => this.#read(count)
  }

  #read(count: number): boolean {
    const bytes = (shared as Buffer).subarray(0, count)
    if (this.taker === undefined) return this.push(Buffer.from(bytes))
    this.taker(bytes)
    return true
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

/** Has `take` told of each read, and lets the bytes flow. When it returns it has understood or copied them. */
export function takeReads(socket: Socket, take: (bytes: Buffer) => void): void {
  if (!(socket instanceof AcceptedSocket)) return void socket.on('data', take)
  socket.taker = take
  socket.resume()
}

/** Leaves what is read from now on to the stream. */
export function leaveReads(socket: Socket, take: (bytes: Buffer) => void): void {
  if (socket instanceof AcceptedSocket) socket.taker = undefined
  else socket.off('data', take)
}
