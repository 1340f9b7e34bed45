/**
 * Two joined connections: `join` passes bytes between them until both sides have ended (RFC 9110 section 9.3.6). It knows neither CONNECT
 * nor WebSocket: its caller has written the answers that go before. `openTunnel` answers CONNECT and joins.
 *
 * The end of one side is passed on while the other direction goes on (half-close), for as long as bytes move there. A side that does not
 * take its bytes stops the other from sending. Silence in both directions ends the tunnel, and so does an error or the signal; then both
 * connections are destroyed. Bytes of the far side are read into blocks and written from them.
 */
import type { Socket } from 'node:net'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { socketBlock } from '../../bytes/block-pool.ts'
import { Landing } from '../../bytes/landing.ts'
import type { Pace } from '../../bytes/pace.ts'
import { flushWrites, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import type { Reader, Transport } from '../client/connection.ts'
import { mostCopiedBytes } from '../client/exchange.ts'
import { leaveReads, takeReads } from '../server/connections.ts'

/** Why a tunnel ended: both sides ended, no byte moved, a connection broke, or the signal fired. */
export type TunnelEnd = 'ended' | 'idle' | 'client-broke' | 'far-broke' | 'aborted'

export interface TunnelOptions {
  readonly client: Socket
  /** Bytes that the client sent before the tunnel existed; they go first. */
  readonly head?: Buffer
  readonly far: Transport
  /** The longest time without a byte in either direction. */
  readonly idle: Milliseconds
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The pace at which the client gets the bytes of the far side. */
  readonly pace?: Pace | undefined
  /** Called with the number of bytes when they have been passed on, in either direction. */
  readonly onBytes?: (count: number) => void
}

interface TunnelReport {
  /** Bytes passed from the client to the far side. */
  readonly up: number
  /** Bytes passed from the far side to the client. */
  readonly down: number
  readonly because: TunnelEnd
}

/** Joins two connections and resolves when the tunnel is over and both are closed or closing. Never throws. */
export function join(options: TunnelOptions): Promise<TunnelReport> {
  return new Promise(resolve => new Tunnel(options, resolve).begin())
}

/**
 * Bytes that may wait for the client before the far side is stopped: the client takes one piece while the next is read. `mostUntakenScarce`
 * holds when blocks are scarce.
 */
const mostUntaken = 2 * socketBlock
const mostUntakenScarce = 64 * 1024
/** Bytes that may wait for the far side before the client is stopped. */
const mostUntakenUp = 64 * 1024
/** The least that a piece counts when it keeps a block, in bytes. */
const leastUntaken = 256 * 1024
/** The time for a further byte after one side has ended while no byte waits for the other. */
const halfClosed: Milliseconds = 15_000

class Tunnel implements Reader {
  readonly #options: TunnelOptions
  readonly #resolve: (report: TunnelReport) => void
  readonly #alarm: Alarm
  readonly #landing: Landing
  #up = 0
  #down = 0
  /** Bytes written to the client, and to the far side, that the kernel has not taken. */
  #untaken = 0
  #untakenUp = 0
  #openDirections = 2
  /** Whether the client's pace does not allow more bytes yet. */
  #held = false
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
    this.#beginUp(head)
    far.handTo(this)
    far.resume()
    if (far.socket.readableEnded) this.ended()
  }

  /** Bytes of the far side go to the client from the memory they were read into. */
  room(): Buffer {
    return this.#landing.room(this.#options.pace?.part)
  }

  read(count: number): boolean {
    const { client } = this.#options
    const bytes = this.#landing.landed(count)
    this.#held = this.#options.pace?.take(count, this.#paid) === false
    if (count <= mostCopiedBytes) {
      this.#untaken += count
      writeSoon(client, [bytes], error => this.#taken(count, count, error))
      return this.#wantsMore
    }
    const piece = this.#landing.piece(bytes)
    const weight = piece.keepsBlock ? Math.max(count, leastUntaken) : count
    this.#untaken += weight
    writeNow(client, [piece.bytes], error => {
      piece.release()
      this.#taken(count, weight, error)
    })
    return this.#wantsMore
  }

  readonly #paid = (): void => {
    this.#held = false
    if (this.#wantsMore) this.#options.far.resume()
  }

  #taken(count: number, weight: number, error: Error | null | undefined): void {
    this.#untaken -= weight
    if (error) return
    this.#down += count
    this.#passed(count)
    if (this.#wantsMore) this.#options.far.resume()
  }

  get #wantsMore(): boolean {
    const { scarce } = this.#options.far.blocks
    return !this.#held && this.#untaken < (scarce ? mostUntakenScarce : mostUntaken)
  }

  ended(): void {
    this.#landing.close()
    flushWrites()
    this.#options.client.end()
  }

  closed(): void {
    this.#landing.close()
  }

  /** Passes on the bytes that the client has sent and will send. */
  #beginUp(head: Buffer | undefined): void {
    const { client } = this.#options
    client.once('end', this.#endUp)
    if (head !== undefined && head.length > 0) this.#passUp(head)
    for (let rest = client.read(); rest !== null; rest = client.read()) this.#passUp(rest)
    takeReads(client, this.#passUp)
    if (client.readableEnded) this.#endUp()
  }

  /** The bytes are in memory that all connections share, so they leave at the end of the turn, or are copied. */
  readonly #passUp = (bytes: Buffer): boolean => {
    const { client, far } = this.#options
    const { length } = bytes
    const taken = (error?: Error | null): void => {
      this.#untakenUp -= length
      if (error) return
      this.#up += length
      this.#passed(length)
      if (this.#untakenUp < mostUntakenUp && client.isPaused()) client.resume()
    }
    this.#untakenUp += length
    if (length <= mostCopiedBytes) writeSoon(far.socket, [bytes], taken)
    else writeNow(far.socket, [Buffer.from(bytes)], taken)
    if (this.#untakenUp >= mostUntakenUp) client.pause()
    return length >= mostUntakenUp
  }

  readonly #endUp = (): void => {
    flushWrites()
    this.#options.far.socket.end()
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
    // The pace caused the silence when the client has to wait.
    if (this.#held) this.#watch()
    // A side that has not ended may still take the waiting bytes, as slowly as in any tunnel.
    else if (half && waits) this.#alarm.set(idle - halfClosed, () => this.#finish('idle'))
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
    const { client, far, signal, pace } = this.#options
    pace?.forget(this.#paid)
    this.#alarm.close()
    signal.removeEventListener('abort', this.#onAbort)
    leaveReads(client, this.#passUp)
    if (because !== 'ended') {
      flushWrites()
      client.destroy()
      far.destroy()
    }
    this.#landing.close()
    this.#resolve({ up: this.#up, down: this.#down, because })
  }
}

interface OpenTunnelOptions extends Omit<TunnelOptions, 'far'> {
  /** Connects to the far side. The attempt ends when the signal fires. */
  readonly dial: (signal: AbortSignal) => Promise<Transport>
}

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

/**
 * Answers CONNECT: dials, writes 200 only when the far side is connected, and joins. Throws what `dial` throws before it has written a byte
 * to the client, so the caller can still answer in HTTP. A client that disconnects meanwhile ends the attempt.
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
