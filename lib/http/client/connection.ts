/**
 * An HTTP/1.1 connection to an origin between and during its requests: its reader, its deadline, and how long it may be free.
 */

import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { scratchBuffer } from '../../bytes/landing.ts'
import type { Member } from '../../members.ts'
import type { ResponseHeadReader } from '../wire/response-head.ts'
import type { AddressOfName } from './dialling/silent-addresses.ts'

/** A connection to an origin or to a parent proxy, whose address it names. */
export interface DialledConnection extends AddressOfName {
  readonly transport: Transport
}

export class OriginConnection implements Reader, Member {
  /** Its place among the free connections, or among the resting bound ones. */
  place = 0
  /** The origin it leads to, and the requests that may use it. */
  readonly key: string
  readonly transport: Transport
  /** The address that it leads to. */
  readonly peer: AddressOfName
  readonly heads: ResponseHeadReader
  /** The deadline of the event that is awaited on it. */
  readonly alarm: Alarm
  /** Whether an earlier request has used it. */
  reused = false
  /** Whether its request lasts, so that it counts among those that do. */
  apart = false
  /** Whether authentication has bound it to one client (bound-connections.ts): the pool gives it to no other. */
  bound = false
  /** Whether the last response on it asks for the next step of a handshake. */
  handshake = false
  /** How long it may be free after this request; undefined: the pool's limit. */
  keep: Milliseconds | undefined
  /** Closes it while it is free. */
  drop: () => void = () => this.destroy()

  constructor(
    key: string,
    dialled: DialledConnection,
    { clock, heads }: { readonly clock: Clock; readonly heads: ResponseHeadReader },
  ) {
    this.key = key
    this.transport = dialled.transport
    const { address, port, others } = dialled
    this.peer = { address, port, others }
    this.heads = heads
    this.alarm = new Alarm(clock)
    this.transport.socket.once('close', () => this.alarm.close())
  }

  get address(): string {
    return this.peer.address
  }

  /** Whether a request can be written to it, and no byte has come that was not asked for. */
  get usable(): boolean {
    const { socket, unread } = this.transport
    return !socket.destroyed && socket.readable && socket.writable && unread === 0
  }

  /** Makes it a free connection: after `keep`, or when anything arrives, `drop` is called. */
  rest(keep: Milliseconds): void {
    this.alarm.set(keep, this.drop)
    this.transport.handTo(this)
  }

  destroy(): void {
    this.transport.destroy()
  }

  room(): Buffer {
    return scratchBuffer()
  }

  /** Bytes that were not asked for must never become the answer to the next request. */
  read(): boolean {
    this.drop()
    return false
  }

  ended(): void {
    this.drop()
  }

  closed(): void {}
}

/** The present reader of a connection. */
export interface Reader {
  /** Memory for the next read, at least one byte. It belongs to the read until `read` is called, or the connection is destroyed. */
  room(): Buffer
  /** Called when `count` bytes were read into the last room. False stops reading until `resume`. */
  read(count: number): boolean
  ended(): void
  /** Called when the connection has closed, with the error if it broke. */
  closed(error: Error | undefined): void
}

/** The most bytes of the first read after a stop. */
const probeBytes = 4096
const nothing = Buffer.alloc(0)

/**
 * A connection as bytes: each read goes straight into the memory of the present reader.
 *
 * # Facts
 * - A socket with `onread` asks for the memory of the next read directly after a read, and uses it at any later time. So the present reader
 *   chooses that memory while it handles a read. While reading is stopped the next reader is unknown, and the socket gets a small part of
 *   the shared memory.
 * - `tls.connect` over a socket ignores `onread` (Node 20), so the bytes of a TLS connection are copied.
 */
export class Transport {
  readonly socket: Socket
  readonly blocks: BlockPool
  /** Whether the socket reads into the memory of the reader. */
  readonly #direct: boolean
  #reader: Reader | undefined
  /** The reader whose room the next read goes to. */
  #offered: Reader | undefined
  /** Bytes that were read and that no reader has got yet. */
  #rest: Buffer = nothing
  #unread = 0
  #stopped: boolean
  #listening = false
  #error: Error | undefined

  private constructor(socket: Socket, blocks: BlockPool, direct: boolean) {
    this.socket = socket
    this.blocks = blocks
    this.#direct = direct
    // Without `onread` the stream reads nothing before a reader asks for it.
    this.#stopped = !direct
    socket.on('error', error => {
      this.#error ??= error
    })
    socket.on('end', () => this.#reader?.ended())
    socket.on('close', () => this.#reader?.closed(this.#error))
  }

  /** Begins to connect. Until there is a reader, one read is kept. */
  static connect(options: NetConnectOpts, blocks: BlockPool): Transport {
    let transport: Transport | undefined
    const onread = {
      // The socket asks for the first room before `transport` is set.
      buffer: () => (transport === undefined ? scratchBuffer() : transport.#offer()),
      callback: (count: number, room: Uint8Array) =>
        transport === undefined || transport.#onRead(count, room),
    }
    transport = new Transport(connect({ ...options, onread }), blocks, true)
    return transport
  }

  /** A transport over an existing stream, whose bytes are copied. */
  static over(socket: Socket, blocks: BlockPool): Transport {
    return new Transport(socket, blocks, false)
  }

  /** The number of bytes that have arrived and that no reader has got. */
  get unread(): number {
    return this.#unread + this.#rest.length
  }

  /** Gives the bytes that arrive from now on to this reader. Without one they are kept. */
  handTo(reader: Reader | undefined): void {
    this.#reader = reader
  }

  /** Continues to read after a stop, beginning with the kept bytes. */
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

  /** Copies bytes into the room of the readers; one reader may leave bytes to the next. Bytes that no reader takes are kept. */
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

  /** Gives the stream up with all bytes that no reader has got. */
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
      return scratchBuffer().subarray(0, probeBytes)
    }
    this.#offered = this.#reader
    return this.#reader?.room() ?? scratchBuffer()
  }

  #onRead(count: number, room: Uint8Array): boolean {
    const reader = this.#reader
    if (reader !== undefined && (reader === this.#offered || this.#sharesRoom(reader, room))) {
      this.#tell(reader, count)
    } else this.give(Buffer.from(room.buffer, room.byteOffset, count))
    return !this.#stopped
  }

  /** Whether a reader that came after the room was offered reads into the same room: the memory that all share. */
  #sharesRoom(reader: Reader, room: Uint8Array): boolean {
    if (this.#stopped || this.socket.destroyed) return false
    return room === scratchBuffer() && reader.room() === room
  }

  readonly #onData = (bytes: Buffer): void => {
    this.give(bytes)
    if (this.#stopped) this.socket.pause()
  }

  #tell(reader: Reader, count: number): void {
    // A reader that has handed the connection on cannot stop the next one.
    if (!reader.read(count) && reader === this.#reader) this.#stopped = true
  }
}
