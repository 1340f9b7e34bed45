/**
 * An HTTP/1.1 connection to an origin between and during its requests: who reads it, its deadline, and how long it may lie free.
 */

import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { scratch } from '../../bytes/landing.ts'
import type { Member } from '../../members.ts'
import type { ResponseHeadReader } from '../wire/response-head.ts'

/** What opening a connection gives. */
export interface DialledConnection {
  readonly transport: Transport
  /** IP address connected to: the origin's, or the parent proxy's. */
  readonly address: string
}

export class OriginConnection implements Reader, Member {
  /** Among the free ones, or the bound ones that rest. */
  place = 0
  /** The origin it leads to, and who may use it. */
  readonly key: string
  readonly transport: Transport
  readonly address: string
  /** Reads the heads of its responses. */
  readonly heads: ResponseHeadReader
  /** The deadline of whatever is awaited on it at present. */
  readonly alarm: Alarm
  /** Whether an earlier request has used it. */
  reused = false
  /** Whether its request lasts, so that it counts among those that do. */
  apart = false
  /** Whether authentication has bound it to one client (bound-connections.ts): the pool gives it to no other. */
  bound = false
  /** Whether the last response on it asks for the next step of a handshake. */
  handshake = false
  /** How long it may lie free after this request; undefined for the pool's own limit. */
  keep: Milliseconds | undefined
  /** Ends its life as a free connection. */
  drop: () => void = () => this.destroy()

  constructor(
    key: string,
    dialled: DialledConnection,
    { clock, heads }: { readonly clock: Clock; readonly heads: ResponseHeadReader },
  ) {
    this.key = key
    this.transport = dialled.transport
    this.address = dialled.address
    this.heads = heads
    this.alarm = new Alarm(clock)
    this.transport.socket.once('close', () => this.alarm.close())
  }

  /** Whether a request can be written to it, and nothing has come that it did not ask for. */
  get usable(): boolean {
    const { socket, unread } = this.transport
    return !socket.destroyed && socket.readable && socket.writable && unread === 0
  }

  /** Begins its life as a free connection: after `keep`, or when anything arrives, `drop` is called. */
  rest(keep: Milliseconds): void {
    this.alarm.set(keep, this.drop)
    this.transport.handTo(this)
  }

  destroy(): void {
    this.transport.destroy()
  }

  room(): Buffer {
    return scratch()
  }

  /** What came unasked must never become the answer to the next request. */
  read(): boolean {
    this.drop()
    return false
  }

  ended(): void {
    this.drop()
  }

  closed(): void {}
}

/** What reads a connection at present. */
export interface Reader {
  /** Memory for the next read, at least a byte. It stays free until the reader is told, or the connection is destroyed. */
  room(): Buffer
  /** Called when `count` bytes were read into the room given last. False stops reading, until `resume`. */
  read(count: number): boolean
  /** The peer has ended its side. */
  ended(): void
  /** The connection has closed, with an error if it broke. */
  closed(error: Error | undefined): void
}

/** What the first read after a stop may bring. */
const probeBytes = 4096
const nothing = Buffer.alloc(0)

/**
 * A connection as bytes: each read goes straight into the memory that the present reader offers.
 *
 * # Facts
 * - A socket with `onread` asks for the memory of the next read as soon as it has read, and uses it whenever that is. So it is
 *   decided while the reader hears of one read where the next one goes; while reading is stopped that is not known yet, and a small
 *   part of the shared memory is offered.
 * - `tls.connect` over a socket knows no `onread` (Node 20): what a TLS connection reads is copied.
 */
export class Transport {
  readonly socket: Socket
  /** Where its readers take blocks from. */
  readonly blocks: BlockPool
  /** Whether the socket reads into the room offered. */
  readonly #direct: boolean
  #reader: Reader | undefined
  /** The reader whose room the next read goes to. */
  #offered: Reader | undefined
  /** Bytes that were read and that no reader was told of: kept for later, and while they are told. */
  #rest: Buffer = nothing
  #unread = 0
  #stopped: boolean
  #listening = false
  #error: Error | undefined

  private constructor(socket: Socket, blocks: BlockPool, direct: boolean) {
    this.socket = socket
    this.blocks = blocks
    this.#direct = direct
    // Without `onread` nothing is read before a reader asks for it.
    this.#stopped = !direct
    socket.on('error', error => {
      this.#error ??= error
    })
    socket.on('end', () => this.#reader?.ended())
    socket.on('close', () => this.#reader?.closed(this.#error))
  }

  /** Begins to connect. Until there is a reader what arrives is kept, a read of it. */
  static connect(options: NetConnectOpts, blocks: BlockPool): Transport {
    let transport: Transport | undefined
    const onread = {
      // The first one is wanted before the socket is there.
      buffer: () => (transport === undefined ? scratch() : transport.#offer()),
      callback: (count: number, room: Uint8Array) =>
        transport === undefined || transport.#onRead(count, room),
    }
    transport = new Transport(connect({ ...options, onread }), blocks, true)
    return transport
  }

  /** Over a stream that is there already, whose reads are copied. */
  static over(socket: Socket, blocks: BlockPool): Transport {
    return new Transport(socket, blocks, false)
  }

  /** Bytes that have come and that no reader was told of. */
  get unread(): number {
    return this.#unread + this.#rest.length
  }

  /** What arrives is for this reader from now on; for none, it is kept. */
  handTo(reader: Reader | undefined): void {
    this.#reader = reader
  }

  /** Reads on after a stop, beginning with what was kept. */
  resume(): void {
    if (!this.#stopped || this.socket.destroyed) return
    this.#stopped = false
    const rest = this.#rest
    this.#rest = nothing
    this.give(rest)
    if (this.#stopped) return
    if (this.#direct) return void this.socket.read(0)
    if (!this.#listening) this.socket.on('data', this.#onData)
    this.#listening = true
    this.socket.resume()
  }

  /** Copies bytes to where the readers want them, also for one reader to leave bytes to the next. What is not wanted is kept. */
  give(bytes: Buffer): void {
    const behind = this.#unread
    let at = 0
    while (at < bytes.length && !this.#stopped) {
      const reader = this.#reader
      if (reader === undefined || this.socket.destroyed) this.#stopped = true
      else {
        const count = bytes.copy(reader.room(), 0, at)
        at += count
        this.#unread = behind + bytes.length - at
        this.#tell(reader, count)
      }
    }
    this.#unread = behind
    if (at < bytes.length) this.#rest = Buffer.concat([this.#rest, bytes.subarray(at)])
  }

  /** Leaves the stream to other hands, what was not read included. */
  detach(): Socket {
    if (this.#listening) this.socket.off('data', this.#onData).pause()
    if (this.#rest.length > 0) this.socket.unshift(this.#rest)
    this.#rest = nothing
    return this.socket
  }

  destroy(): void {
    this.socket.destroy()
  }

  #offer(): Buffer {
    if (this.#stopped || this.socket.destroyed) {
      this.#offered = undefined
      return scratch().subarray(0, probeBytes)
    }
    this.#offered = this.#reader
    return this.#reader?.room() ?? scratch()
  }

  #onRead(count: number, room: Uint8Array): boolean {
    const reader = this.#reader
    if (reader !== undefined && (reader === this.#offered || this.#sharesRoom(reader, room))) {
      this.#tell(reader, count)
    } else this.give(Buffer.from(room.buffer, room.byteOffset, count))
    return !this.#stopped
  }

  /** Whether a reader that has come since the room was offered reads into the same: the memory that all share. */
  #sharesRoom(reader: Reader, room: Uint8Array): boolean {
    if (this.#stopped || this.socket.destroyed) return false
    return room === scratch() && reader.room() === room
  }

  readonly #onData = (bytes: Buffer): void => {
    this.give(bytes)
    if (this.#stopped) this.socket.pause()
  }

  #tell(reader: Reader, count: number): void {
    // One that has handed the connection on has no say in whether the next one wants more.
    if (!reader.read(count) && reader === this.#reader) this.#stopped = true
  }
}
