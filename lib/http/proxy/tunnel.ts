/**
 * Two connections joined, byte for byte, until both sides have ended (RFC 9110 section 9.3.6). `join` knows neither CONNECT
 * nor WebSocket: who joins has said what had to be said before. `openTunnel` answers CONNECT and joins.
 *
 * Each side's end is passed on while the other direction goes on (half-close), for as long as something is said there. A side
 * that does not take what it is sent stops the other from sending. Silence in both directions ends the tunnel, and so does an
 * error or the signal; then both connections are destroyed. What the far side sends is read into blocks and written from them.
 */
import type { Duplex } from 'node:stream'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { socketBlock } from '../../bytes/block-pool.ts'
import { Landing } from '../../bytes/landing.ts'
import type { Reader, Transport } from '../client/transport.ts'

/** Why a tunnel ended: both sides were done, nothing was said, a connection broke, or we were told to stop. */
export type TunnelEnd = 'ended' | 'idle' | 'client-broke' | 'far-broke' | 'aborted'

export interface TunnelOptions {
  readonly client: Duplex
  /** Bytes the client sent before the tunnel stood; they go first. */
  readonly head?: Buffer
  readonly far: Transport
  /** The longest time without a byte in either direction. */
  readonly idle: Milliseconds
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Told of bytes as they are passed on, either way. */
  readonly onBytes?: (count: number) => void
}

interface TunnelReport {
  /** Bytes passed from the client to the far side. */
  readonly up: number
  /** Bytes passed from the far side to the client. */
  readonly down: number
  readonly because: TunnelEnd
}

/** Joins two connections and settles when the tunnel is over and both are closed or closing; never throws. */
export function join(options: TunnelOptions): Promise<TunnelReport> {
  return new Promise(resolve => new Tunnel(options, resolve).begin())
}

/**
 * So many bytes wait for the client before the far side is stopped: one piece is taken while the next is read. The second when
 * blocks are scarce.
 */
const mostUntaken = 2 * socketBlock
const mostUntakenScarce = 64 * 1024
/** What a piece that keeps a block counts for at least. */
const leastUntaken = 256 * 1024
/** For a byte once one side has ended and nothing waits to be taken by the other. */
const halfClosed: Milliseconds = 15_000

class Tunnel implements Reader {
  readonly #options: TunnelOptions
  readonly #resolve: (report: TunnelReport) => void
  readonly #alarm: Alarm
  readonly #landing: Landing
  #up = 0
  #down = 0
  /** Bytes written to the client that its kernel has not taken. */
  #untaken = 0
  #openDirections = 2
  #over = false

  constructor(options: TunnelOptions, resolve: (report: TunnelReport) => void) {
    this.#options = options
    this.#resolve = resolve
    this.#alarm = new Alarm(options.clock)
    this.#landing = new Landing(options.far.blocks)
  }

  begin(): void {
    const { client, far, head, signal } = this.#options
    for (const [side, broke] of [
      [client, 'client-broke'],
      [far.socket, 'far-broke'],
    ] as const) {
      side.allowHalfOpen = true
      side.on('error', () => this.#finish(broke))
      side.on('close', () => {
        if (!side.readableEnded || !side.writableFinished) this.#finish(broke)
      })
      side.once('finish', this.#directionDone)
      if (side.destroyed) return this.#finish(broke)
    }
    signal.addEventListener('abort', this.#onAbort)
    if (signal.aborted) return this.#onAbort()
    this.#watch()
    this.#passUp(head)
    far.handTo(this)
    far.resume()
    if (far.socket.readableEnded) this.ended()
  }

  /** Reads of the far side go to the client as they lie in memory. */
  room(): Buffer {
    return this.#landing.room()
  }

  read(count: number): boolean {
    const { client, far } = this.#options
    const piece = this.#landing.piece(this.#landing.landed(count))
    const weight = piece.keepsBlock ? Math.max(count, leastUntaken) : count
    this.#untaken += weight
    client.write(piece.bytes, error => {
      piece.release()
      this.#untaken -= weight
      if (error) return
      this.#down += count
      this.#passed(count)
      if (this.#wantsMore) far.resume()
    })
    return this.#wantsMore
  }

  get #wantsMore(): boolean {
    const { scarce } = this.#options.far.blocks
    return this.#untaken < (scarce ? mostUntakenScarce : mostUntaken)
  }

  ended(): void {
    this.#landing.close()
    this.#options.client.end()
  }

  closed(): void {
    this.#landing.close()
  }

  /** Reads of the client are the stream's own. */
  #passUp(head: Buffer | undefined): void {
    const { client, far } = this.#options
    const { socket } = far
    const write = (block: Buffer): void => {
      const room = socket.write(block, error => {
        if (error) return
        this.#up += block.length
        this.#passed(block.length)
      })
      if (!room) client.pause()
    }
    socket.on('drain', () => client.resume())
    client.once('end', () => socket.end())
    client.on('data', write)
    client.resume() // its reader before us may have left it paused
    if (head !== undefined && head.length > 0) write(head)
    if (client.readableEnded) socket.end()
  }

  #passed(count: number): void {
    if (this.#over) return
    this.#watch()
    this.#options.onBytes?.(count)
  }

  #watch(): void {
    const { idle } = this.#options
    const half = this.#openDirections < 2
    this.#alarm.set(half ? Math.min(idle, halfClosed) : idle, this.#silent)
  }

  readonly #silent = (): void => {
    const { client, far, idle } = this.#options
    const waits = client.writableLength + far.socket.writableLength > 0
    const half = this.#openDirections < 2 && halfClosed < idle
    // What was sent to a side that has not ended may still be taken, as slowly as in any tunnel.
    if (half && waits) this.#alarm.set(idle - halfClosed, () => this.#finish('idle'))
    else this.#finish('idle')
  }

  readonly #directionDone = (): void => {
    this.#openDirections -= 1
    if (this.#openDirections === 0) this.#finish('ended')
    else if (!this.#over) this.#watch()
  }

  readonly #onAbort = (): void => this.#finish('aborted')

  #finish(because: TunnelEnd): void {
    if (this.#over) return
    this.#over = true
    const { client, far, signal } = this.#options
    this.#alarm.close()
    signal.removeEventListener('abort', this.#onAbort)
    if (because !== 'ended') {
      client.destroy()
      far.destroy()
    }
    this.#landing.close()
    this.#resolve({ up: this.#up, down: this.#down, because })
  }
}

interface OpenTunnelOptions extends Omit<TunnelOptions, 'far'> {
  /** Connects to the far side; ends the attempt when the signal fires. */
  readonly dial: (signal: AbortSignal) => Promise<Transport>
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
  let far: Transport
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
