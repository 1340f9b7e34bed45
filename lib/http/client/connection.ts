/**
 * An HTTP/1.1 connection to an origin between and during its requests: who reads it, its deadline, and how long it may lie free.
 */
import { Alarm } from '../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { scratch } from '../../bytes/landing.ts'
import type { Member } from '../../members.ts'
import type { ResponseHeadReader } from '../wire/response-head.ts'
import type { Reader, Transport } from './transport.ts'

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
