/**
 * The end of a connection, so that its client receives all that was written to it (RFC 9112 section 9.6).
 *
 * # Facts
 * - The kernel answers bytes that lie unread when a connection is closed, or that come later, with a reset, and drops what it still had
 *   to send. A client that sends a pipeline, or asks at the moment of the end, then loses the tail of a response, or sees an error.
 * - Node's server and ours end a connection by `destroySoon`, which closes it when the last byte is with the kernel.
 */
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** How long a client may take to end its side when all is written. */
const patience: Milliseconds = 2000

/**
 * Makes `destroySoon` end our side only, and close the connection when the client has ended its side too, at the latest after
 * `patience`. `begin` is called first: from then on what the client sends is to be read and dropped.
 */
export function lingerAtEnd(socket: Socket, clock: Clock, begin: () => void): void {
  let ending = false
  socket.destroySoon = () => {
    if (ending || socket.destroyed) return
    ending = true
    begin()
    let cancel = (): void => undefined
    const wait = (): void => {
      cancel = clock.after(patience, () => socket.destroy())
    }
    socket.once('close', () => cancel())
    if (socket.writableFinished) wait()
    else socket.once('finish', wait)
    if (!socket.writableEnded) socket.end()
  }
}
