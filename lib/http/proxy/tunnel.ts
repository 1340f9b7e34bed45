/**
 * Two connections joined, byte for byte, until both sides have ended (RFC 9110 section 9.3.6). `join` knows neither CONNECT
 * nor WebSocket: who joins has said what had to be said before. `openTunnel` answers CONNECT and joins.
 *
 * Each side's end is passed on while the other direction goes on (half-close), for as long as something is said there. A side
 * that does not take what it is sent stops the other from sending. Silence in both directions ends the tunnel, and so does an
 * error or the signal; then both connections are destroyed. What the far side sends is read into blocks and written from them.
 */
import type { Socket } from 'node:net'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { socketBlock } from '../../bytes/block-pool.ts'
import { Landing } from '../../bytes/landing.ts'
import type { Pace } from '../../bytes/pace.ts'
import { flushWrites, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import type { Reader, Transport } from '../client/connection.ts'
import { mostCopied } from '../client/upload.ts'
import { leaveReads, takeReads } from '../server/connections.ts'

/** Why a tunnel ended: both sides were done, nothing was said, a connection broke, or we were told to stop. */
export type TunnelEnd = 'ended' | 'idle' | 'client-broke' | 'far-broke' | 'aborted'

export interface TunnelOptions {
  readonly client: Socket
  /** Bytes the client sent before the tunnel stood; they go first. */
  readonly head?: Buffer
  readonly far: Transport
  /** The longest time without a byte in either direction. */
  readonly idle: Milliseconds
  readonly clock: Clock
  readonly signal: AbortSignal
  /** At which pace the client gets what the far side sends. */
  readonly pace?: Pace | undefined
  /** Called with the number of bytes as they are passed on, either way. */
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
/** The bytes that wait for the far side before the client is stopped. */
const mostUntakenUp = 64 * 1024
/** What a piece that keeps a block counts for at least. */
const leastUntaken = 256 * 1024
/** The time for a further byte once one side has ended and nothing waits to be taken by the other. */
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
  /** Whether what the client has got is to be paid for first. */
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

  /** Reads of the far side go to the client as they lie in memory. */
  room(): Buffer {
    return this.#landing.room(this.#options.pace?.part)
  }

  read(count: number): boolean {
    const { client } = this.#options
    const bytes = this.#landing.landed(count)
    this.#held = this.#options.pace?.take(count, this.#paid) === false
    if (count <= mostCopied) {
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

  /** What the client has sent, and what it sends. */
  #beginUp(head: Buffer | undefined): void {
    const { client } = this.#options
    client.once('end', this.#endUp)
    if (head !== undefined && head.length > 0) this.#passUp(head)
    for (let rest = client.read(); rest !== null; rest = client.read()) this.#passUp(rest)
    takeReads(client, this.#passUp)
    if (client.readableEnded) this.#endUp()
  }

  /** The bytes lie in memory that all connections share: they leave at the end of the turn, or are copied. */
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
    if (length <= mostCopied) writeSoon(far.socket, [bytes], taken)
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
    // The silence is ours when the client has to wait.
    if (this.#held) this.#watch()
    // What was sent to a side that has not ended may still be taken, as slowly as in any tunnel.
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
