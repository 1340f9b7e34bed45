/**
 * Two connections joined, byte for byte, until both sides have ended (RFC 9110 section 9.3.6). `join` knows neither CONNECT
 * nor WebSocket: who joins has said what had to be said before. `openTunnel` answers CONNECT and joins.
 *
 * Each side's end is passed on while the other direction goes on (half-close). A side that does not take what it is sent
 * stops the other from sending. Silence in both directions ends the tunnel, and so does an error or the signal; then both
 * connections are destroyed.
 */
import type { Duplex } from 'node:stream'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** Why a tunnel ended: both sides were done, nobody spoke, a connection broke, or we were told to stop. */
export type TunnelEnd = 'ended' | 'idle' | 'client-broke' | 'far-broke' | 'aborted'

export interface TunnelOptions {
  readonly client: Duplex
  /** Bytes the client sent before the tunnel stood; they go first. */
  readonly head?: Buffer
  readonly far: Duplex
  /** Bytes the far side sent before the tunnel stood. */
  readonly farHead?: Buffer
  /** The longest time without a byte in either direction. */
  readonly idle: Milliseconds
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Told of bytes as they are passed on: `up` from the client to the far side, `down` back. */
  readonly onBytes?: (direction: 'up' | 'down', count: number) => void
}

export interface TunnelReport {
  /** Bytes passed from the client to the far side. */
  readonly up: number
  /** Bytes passed from the far side to the client. */
  readonly down: number
  readonly because: TunnelEnd
}

/** Joins two connections and settles when the tunnel is over and both are closed or closing; never throws. */
export function join(options: TunnelOptions): Promise<TunnelReport> {
  const { client, far, clock, idle, signal } = options
  const counts = { up: 0, down: 0 }
  return new Promise(resolve => {
    let over = false
    let openDirections = 2
    const finish = (because: TunnelEnd) => {
      if (over) return
      over = true
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
      if (because !== 'ended') {
        client.destroy()
        far.destroy()
      }
      resolve({ ...counts, because })
    }
    const onAbort = () => finish('aborted')

    // One timer for many bytes: it looks at the last of them when it rings.
    let lastByte = clock.now()
    const look = () => {
      const rest = lastByte + idle - clock.now()
      if (rest <= 0) finish('idle')
      else cancelTimer = clock.after(rest, look)
    }
    let cancelTimer = clock.after(idle, look)

    const passed = (direction: 'up' | 'down', count: number) => {
      lastByte = clock.now()
      counts[direction] += count
      options.onBytes?.(direction, count)
    }
    const done = () => {
      openDirections -= 1
      if (openDirections === 0) finish('ended')
    }
    for (const [side, broke] of [
      [client, 'client-broke'],
      [far, 'far-broke'],
    ] as const) {
      side.allowHalfOpen = true
      side.on('error', () => finish(broke))
      side.on('close', () => {
        if (!side.readableEnded || !side.writableFinished) finish(broke)
      })
      if (side.destroyed) return finish(broke)
    }
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) return onAbort()
    pass(client, far, { head: options.head, passed: count => passed('up', count), done })
    pass(far, client, { head: options.farHead, passed: count => passed('down', count), done })
  })
}

interface Direction {
  readonly head: Buffer | undefined
  readonly passed: (count: number) => void
  readonly done: () => void
}

/** One direction: bytes, pressure and the end. `passed` is told when the receiver's kernel has taken the bytes. */
function pass(from: Duplex, to: Duplex, { head, passed, done }: Direction): void {
  const write = (block: Buffer) => {
    const room = to.write(block, error => {
      if (!error) passed(block.length)
    })
    if (!room) from.pause()
  }
  to.on('drain', () => from.resume())
  to.once('finish', done)
  from.once('end', () => to.end())
  from.on('data', write)
  from.resume() // whoever read before may have left it paused
  if (head !== undefined && head.length > 0) write(head)
  if (from.readableEnded) to.end()
}

export interface OpenTunnelOptions extends Omit<TunnelOptions, 'far' | 'farHead'> {
  /** Connects to the far side; ends the attempt when the signal fires. */
  readonly dial: (signal: AbortSignal) => Promise<Duplex>
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

/**
 * Answers CONNECT: dials, says 200 only when the far side is connected, and joins. Throws what `dial` throws, with nothing
 * written to the client, who can still be told in HTTP. A client that leaves meanwhile ends the attempt.
 */
export async function openTunnel(options: OpenTunnelOptions): Promise<TunnelReport> {
  const { client, dial, signal, ...rest } = options
  const attempt = new AbortController()
  const give = () => attempt.abort(signal.reason)
  signal.addEventListener('abort', give)
  client.once('close', give)
  client.on('error', give)
  let far: Duplex
  try {
    if (signal.aborted) give()
    far = await dial(attempt.signal)
  } finally {
    signal.removeEventListener('abort', give)
    client.off('close', give).off('error', give)
  }
  if (client.writable) client.write(ESTABLISHED)
  return join({ ...rest, client, far, signal })
}
