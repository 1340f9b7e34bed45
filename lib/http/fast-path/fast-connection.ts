/**
 * A connection in the lane: its requests are read and answered by us as long as they are beyond doubt (`lane-reader.ts`).
 * The first that is not, and everything behind it, goes to Node's server, byte for byte, after the answers before it. Knows
 * bytes, their order and the time; what a request means is its owner's affair.
 */
import type { Socket } from 'node:net'
import type { Milliseconds } from '../../async/clock.ts'
import type { LaneHead, LaneReader } from '../wire/request-head.ts'
import { LaneResponse, type LaneWriting } from './fast-response.ts'

/** Bytes of requests that are not for the lane, before their client has to wait for the answers to those that were. */
const mostRest = 64 * 1024

export interface LaneOwner {
  readonly reader: LaneReader
  readonly date: () => string
  readonly keepAlive: string
  readonly now: () => Milliseconds
  /** A request and the way its response leaves. `settled` is to be called when nothing of the connection is under way any more. */
  readonly request: (head: LaneHead, out: LaneResponse) => void
  readonly isUnderWay: () => boolean
  /** The connection is Node's from now on; what was read of it and not answered stands before what is to come. */
  readonly toNode: () => void
  /** The head that has begun will not be complete: the code Node would have for it. */
  readonly refuse: (code: string) => void
}

/** How long a client may take; 0 for any time. */
export interface LaneTimes {
  readonly headTime: Milliseconds
  readonly idle: Milliseconds
  readonly stalled: Milliseconds
}

export class LaneConnection {
  readonly #socket: Socket
  readonly #owner: LaneOwner
  readonly #writing: LaneWriting
  /** Read and not yet understood: the beginning of a head, or what is to be Node's. */
  #rest: Buffer = nothing
  /** `leaving`: what follows is not for the lane. `over`: nothing that follows is looked at. */
  #state: 'reading' | 'leaving' | 'over' = 'reading'
  /** Responses that are not written to their end, in the order of their requests. */
  readonly #due: LaneResponse[] = []
  /** Since when the head that has begun is awaited, the first one from the beginning; undefined between requests. */
  #headSince: Milliseconds | undefined
  #moved = { bytes: 0, since: 0 }

  constructor(socket: Socket, owner: LaneOwner) {
    this.#socket = socket
    this.#owner = owner
    const now = owner.now()
    this.#headSince = now
    this.#moved.since = now
    const { date, keepAlive } = owner
    this.#writing = { socket, date, keepAlive, written: this.#written }
    socket.on('error', this.#onError)
    socket.on('end', this.#onEnd)
    socket.on('data', this.#onData)
  }

  /** To be called when the last exchange under way has ended. */
  settled(): void {
    if (this.#state === 'leaving') this.#leave()
  }

  /** Ends it when its client was too slow. Call it now and then. */
  look(now: Milliseconds, { headTime, idle, stalled }: LaneTimes): void {
    const bytes = this.#socket.bytesRead + this.#socket.bytesWritten - this.#socket.writableLength
    if (bytes !== this.#moved.bytes) this.#moved = { bytes, since: now }
    if (this.#state === 'reading' && this.#headSince !== undefined) {
      const late = headTime > 0 && now - this.#headSince >= headTime
      if (late) this.#giveUp('ERR_HTTP_REQUEST_TIMEOUT')
      return
    }
    const silence = now - this.#moved.since
    const patience = this.#owner.isUnderWay() ? stalled : idle
    if (patience > 0 && silence >= patience) this.#socket.destroy()
  }

  readonly #onData = (block: Buffer): void => {
    const bytes = this.#rest.length === 0 ? block : Buffer.concat([this.#rest, block])
    let at = 0
    while (at < bytes.length && this.#state === 'reading' && !this.#socket.destroyed) {
      const head = this.#owner.reader.read(bytes, at)
      if (head === 'incomplete') break
      if (head === 'other') this.#state = 'leaving'
      else {
        at = head.end
        this.#headSince = undefined
        this.#begin(head)
      }
    }
    this.#rest = at === bytes.length || this.#state === 'over' ? nothing : bytes.subarray(at)
    if (this.#state === 'leaving') this.#waitOrLeave()
    else if (this.#rest.length > 0) this.#headSince ??= this.#owner.now()
    // Who does not take the answers need not ask on.
    if (this.#state === 'reading' && this.#socket.writableNeedDrain) {
      this.#socket.pause()
      this.#socket.once('drain', this.#onDrain)
    }
  }

  readonly #onDrain = (): void => {
    this.#socket.resume()
  }

  #begin(head: LaneHead): void {
    // RFC 9112 section 9.6: what follows a request with `close` is not processed.
    if (!head.keepAlive) this.#state = 'over'
    const out = new LaneResponse(this.#writing)
    if (!head.keepAlive) out.last()
    this.#due.push(out)
    if (this.#due.length === 1) out.turn()
    this.#owner.request(head, out)
  }

  readonly #written = (): void => {
    this.#due.shift()
    this.#due[0]?.turn()
  }

  #waitOrLeave(): void {
    if (!this.#owner.isUnderWay()) this.#leave()
    else if (this.#rest.length > mostRest) this.#socket.pause()
  }

  #leave(): void {
    const rest = this.#rest
    const socket = this.#socket
    this.#rest = nothing
    this.#state = 'over'
    socket.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onError)
    if (socket.destroyed || socket.readableEnded) return void socket.destroySoon()
    socket.pause()
    socket.unshift(rest)
    this.#owner.toNode()
    socket.resume()
  }

  #giveUp(code: string): void {
    this.#state = 'over'
    this.#rest = nothing
    this.#owner.refuse(code)
  }

  /** As Node does: who says no more gets what is ready, and the connection ends. */
  readonly #onEnd = (): void => {
    if (this.#state === 'reading' && this.#rest.length > 0) this.#giveUp('HPE_INVALID_EOF_STATE')
    else this.#socket.end()
  }

  readonly #onError = (): void => {
    this.#socket.destroy()
  }
}

const nothing = Buffer.alloc(0)
