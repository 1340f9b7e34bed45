/**
 * Keeps the client connections of one server: the address of each client, its requests under way, and how to end it. Reads accepted
 * connections into memory that all of them share (`shareReadMemory`, docs/decisions/0035).
 */
import { Socket, type SocketConstructorOpts } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import type { WriteListener } from '../../bytes/small-writes.ts'
import { type Member, Members } from '../../members.ts'
import type { Fields } from '../message/field.ts'
import type {
  ClientPlace,
  Holder,
  Peer,
  Request,
  SendInterim,
  TunnelEnd,
} from '../message/message.ts'
import type { Target } from '../message/target.ts'
import type { Clients, ConnectionPlace } from './clients.ts'
import {
  bytesTaken,
  confirmedMovement,
  connectionPorts,
  longestPause,
  type MovedBytes,
  movementSince,
  readUnconfirmed,
  type UnconfirmedBytes,
  unobservedMovement,
} from './movement.ts'
import type { HttpServerLimits, HttpServerOptions } from './options.ts'

/** The state of one client connection while it lasts. */
export interface Connection extends ConnectionEnds {
  requests: number
  /** The requests under way, in the order they came. Each learns of it when the connection closes. */
  readonly underWay: Members<LiveRequest>
  /**
   * The listeners for bytes that Node's server has and the kernel has not taken. When a connection closes Node forgets the listeners of the
   * later responses of a pipeline, so the rest of this set is called then.
   */
  readonly untaken: Set<WriteListener>
  /** The content that is being received, or was received last. */
  content: ContentReading | undefined
  /** Called when no request is under way: it refuses a head that came after good requests, or ends the connection. */
  afterLast: (() => void) | undefined
  /** Whether the last request has come (RFC 9112 section 9.6). The server ignores the bytes that follow. */
  over: boolean
  /** Whether a CONNECT handler has taken it over; time limits are then the handler's. */
  takenOver: boolean
  /** The reader of its requests while it is on the fast path. */
  fast: RequestReading | undefined
  /** How far its bytes had moved at the last look. */
  moved: MovedBytes
}

interface ContentReading {
  /** Whether `refuse` was called. */
  readonly malformed: boolean
  /** Stops reading and tells the handler why. False when the content was complete. */
  refuse(problem: string): boolean
}

export interface RequestReading {
  /** Whether a head has begun, or the first one is awaited. */
  readonly awaitsHead: boolean
  /** Answers a client whose head has taken `limit` or longer, and ends the connection; 0 is no limit. */
  refuseSlowHead(now: Milliseconds, limit: Milliseconds): void
  /** Does the same for content, whose time begins when its head has ended. */
  refuseSlowContent(now: Milliseconds, limit: Milliseconds): void
  /** Ignores further requests: the bytes that follow are read and dropped. */
  stop(): void
}

interface Look {
  readonly now: Milliseconds
  readonly times: HttpServerLimits
  /** Asks the kernel how many bytes clients have not confirmed. */
  readonly ask: () => UnconfirmedBytes
}

export class Connections {
  readonly #open = new Map<Socket, Connection>()
  readonly #clock: Clock
  readonly #clients: Clients | undefined

  constructor({ clock, clients }: Pick<HttpServerOptions, 'clock' | 'clients'>) {
    this.#clock = clock
    this.#clients = clients
  }

  /**
   * Enters a new connection, which leaves the table when it closes; then its requests under way end. The client is the peer unless `client`
   * is given. The connection is closed at once when its client may not have one more.
   */
  add(
    socket: Socket,
    {
      secure,
      client = peerOf(socket),
      place = this.#clients?.enter(client.address),
    }: NewConnection,
  ): Connection {
    const local = { address: plainAddress(socket.localAddress), port: socket.localPort ?? 0 }
    if (place === 'none') socket.destroy()
    const clientPlace = place === 'none' ? undefined : place
    const connection = this.#enter(socket, { client, local, secure, clientPlace })
    if (clientPlace !== undefined) {
      clientPlace.endIfIdle = () => endIfIdle(socket, connection)
      socket.once('close', () => clientPlace.leave())
    }
    return connection
  }

  /** Enters a TLS connection inside another one. `end` is the target of the CONNECT on the outer one. */
  addWithin(below: Connection, socket: Socket, end: TunnelEnd): Connection {
    const { client, local, clientPlace } = below
    return this.#enter(socket, { client, local, secure: true, tunnelEnd: end, clientPlace })
  }

  #enter(socket: Socket, ends: Omit<ConnectionEnds, 'life'>): Connection {
    const connection: Connection = {
      ...ends,
      life: new Lifetime(),
      requests: 0,
      underWay: new Members<LiveRequest>(),
      untaken: new Set<WriteListener>(),
      content: undefined,
      afterLast: undefined,
      over: false,
      takenOver: false,
      fast: undefined,
      moved: unobservedMovement,
    }
    this.#open.set(socket, connection)
    lingerAtEnd(socket, this.#clock, () => {
      ignoreFurtherRequests(connection)
      if (connection.fast === undefined) socket.resume()
    })
    socket.once('close', () => {
      this.#open.delete(socket)
      tell(connection)
      connection.life.end(closed)
      for (const taken of connection.untaken) taken(new Error('the connection has closed'))
    })
    return connection
  }

  of(socket: Socket): Connection | undefined {
    return this.#open.get(socket)
  }

  /** The number of clients' connections. A connection within another does not count. */
  get count(): number {
    let count = 0
    for (const { tunnelEnd } of this.#open.values()) if (tunnelEnd === undefined) count += 1
    return count
  }

  /** Ends the connections on which no request is under way, except those that await a first request or the rest of a head. */
  endIdle(): void {
    for (const [socket, connection] of this.#open) endIfIdle(socket, connection)
  }

  /** Ends all connections on which no request is under way. */
  endSilent(): void {
    for (const [socket, { underWay }] of this.#open) if (underWay.size === 0) socket.destroySoon()
  }

  /**
   * Cuts slow clients from now on, with one timer for all; the returned function stops it. Node's server has timers for heads and idle
   * connections, but each byte from the client restarts them. A client that never reads and sends an empty line now and then would never be
   * cut.
   */
  watch(times: HttpServerLimits): () => void {
    const clock = this.#clock
    const { headTime, requestTime, idle, taking, stalled } = times
    const set = [headTime, requestTime, idle, taking, stalled].filter(time => time > 0)
    const interval = Math.min(5000, ...set.map(time => time / 4))
    let cancel = (): void => undefined
    const look = (): void => {
      const now = clock.elapsed()
      // The kernel's table is read once for all connections, and only when a connection seems to stand still.
      let unconfirmed: UnconfirmedBytes | undefined
      const ask = (): UnconfirmedBytes => {
        unconfirmed ??= readUnconfirmed()
        return unconfirmed
      }
      for (const [socket, connection] of this.#open) {
        if (!connection.takenOver) this.#look(socket, connection, { now, times, ask })
      }
      cancel = clock.after(interval, look)
    }
    look()
    return () => cancel()
  }

  #look(socket: Socket, connection: Connection, { now, times, ask }: Look): void {
    const { fast, underWay } = connection
    const { idle, taking, slowest, stalled } = times
    const when = { now, taking, slowest }
    const bytes = {
      taken: bytesTaken(socket),
      read: socket.bytesRead,
      waits: socket.writableLength > 0,
    }
    connection.moved = movementSince(connection.moved, bytes, when)
    const limit = underWay.size > 0 ? stalled : fast === undefined ? 0 : idle
    const still = (part: number): boolean => {
      const { takenSince, allSince, fastBefore } = connection.moved
      const times = part === 1 && fastBefore ? longestPause : part
      const late = (since: Milliseconds, time: Milliseconds) =>
        time > 0 && now - since >= time * times
      return late(takenSince, taking) || (late(allSince, limit) && fast?.awaitsHead !== true)
    }
    if (still(1 / 2) && (underWay.size > 0 || bytes.waits)) {
      const unconfirmed = ask().get(connectionPorts(socket))
      if (unconfirmed !== undefined) {
        const confirmed = bytes.taken - unconfirmed
        connection.moved = confirmedMovement(connection.moved, confirmed, when)
      }
    }
    if (still(1)) {
      for (const request of underWay) request.slowClient = bytes.waits
      return cut(socket, connection)
    }
    if (fast === undefined) return
    fast.refuseSlowContent(now, times.requestTime)
    if (fast.awaitsHead) fast.refuseSlowHead(now, times.headTime)
  }

  /** The requests under way on all connections, each with a function that cuts its connection. */
  *underWay(): Generator<{ readonly request: LiveRequest; readonly cut: () => void }> {
    for (const [socket, connection] of this.#open) {
      for (const request of connection.underWay) {
        yield { request, cut: () => cut(socket, connection) }
      }
    }
  }

  /** Cuts every connection, also those with requests under way. */
  destroyAll(): void {
    for (const [socket, connection] of this.#open) cut(socket, connection)
  }
}

/** Ends the requests under way before Node calls their write listeners: for a destroyed socket it calls them without an error. */
function cut(socket: Socket, connection: Connection): void {
  socket.destroy()
  tell(connection)
}

/** All connections and all requests share these errors, because making an error is expensive. */
const closed = new Error('the connection of the client has closed')
const over = new Error('the exchange is over')

function tell({ underWay }: Connection): void {
  for (const exchange of underWay) exchange.gone()
  underWay.clear()
}

/** Makes the newest request the last one (RFC 9112 section 9.6): the server ignores the bytes that follow. */
export function ignoreFurtherRequests(connection: Connection): void {
  connection.over = true
  connection.afterLast = undefined
  connection.fast?.stop()
}

function endIfIdle(socket: Socket, { underWay, fast, requests }: Connection): boolean {
  const awaitsHead = fast?.awaitsHead ?? requests === 0
  const idle = underWay.size === 0 && !awaitsHead
  if (idle) socket.destroySoon()
  return idle
}

/** Calls `act` when no request is under way. */
export function callAfterLastRequest(connection: Connection, act: () => void): void {
  if (connection.underWay.size === 0) act()
  else connection.afterLast = act
}

export function peerOf(socket: Socket): Peer {
  return { address: plainAddress(socket.remoteAddress), port: socket.remotePort ?? 0 }
}

/** An address in the form of `Peer`: IPv4-mapped IPv6 becomes IPv4, and the zone is left out. */
function plainAddress(address: string | undefined): string {
  if (address === undefined) return ''
  const zone = address.indexOf('%')
  const bare = zone === -1 ? address : address.slice(0, zone)
  return bare.startsWith('::ffff:') && bare.includes('.') ? bare.slice(7) : bare
}

/** The time in which a client may end its side after everything is written. */
const patience: Milliseconds = 2000

/**
 * Ends a connection so that its client receives everything that was written to it (RFC 9112 section 9.6).
 *
 * # Facts
 * - When a connection is closed with unread bytes, or bytes come later, the kernel sends a reset and drops what it still had to send. A
 *   client that sends a pipeline, or asks at the moment of the end, then loses the tail of a response, or sees an error.
 * - Node's server and ours end a connection by `destroySoon`, which closes it when the kernel has the last byte.
 *
 * So `destroySoon` here ends our side only. It closes the connection when the client has ended its side too, and after `patience` at the
 * latest. It calls `begin` first: from then on the bytes of the client are to be read and dropped.
 */
function lingerAtEnd(socket: Socket, clock: Clock, begin: () => void): void {
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

interface NewConnection {
  readonly secure: boolean
  readonly client?: Peer
  /** Its place among the connections of its client, if it has one already. */
  readonly place?: ConnectionPlace | 'none' | undefined
}

/** Both ends of the connection a request came on. */
export interface ConnectionEnds extends Pick<Request, 'client' | 'local' | 'secure' | 'tunnelEnd'> {
  readonly clientPlace: ConnectionPlace | undefined
  /** The lifetime ends when the connection is closed. */
  readonly life: Lifetime
}

/** The parts of a request that are read from its bytes. */
type ReadRequest = Pick<
  Request,
  'method' | 'target' | 'version' | 'fields' | 'content' | 'trailers' | 'interim'
>

/** A request on a connection, as its handler sees it. Its lifetime ends with the exchange, or when the client has disconnected. */
export class LiveRequest extends Lifetime implements Request, Member {
  place = 0
  /** A property of its own, so that copies of the request have it. */
  readonly lifetime: Lifetime = this
  readonly id: string
  readonly method: string
  readonly target: Target
  readonly version: '1.0' | '1.1'
  readonly fields: Fields
  readonly content: AsyncIterable<Buffer>
  readonly client: Peer
  readonly connection: Lifetime
  readonly local: Peer
  readonly secure: boolean
  readonly tunnelEnd?: TunnelEnd
  readonly clientPlace: ClientPlace | undefined
  readonly received: Milliseconds
  /** The moment of `received` on the monotonic clock. */
  readonly begun: Milliseconds
  readonly interim: SendInterim | undefined
  readonly trailers: (() => Fields) | undefined
  holder: Holder | undefined
  slowClient = false

  constructor(
    read: ReadRequest,
    connection: ConnectionEnds,
    { requestId, clock }: Pick<HttpServerOptions, 'requestId' | 'clock'>,
  ) {
    super()
    this.id = requestId()
    this.method = read.method
    this.target = read.target
    this.version = read.version
    this.fields = read.fields
    this.content = read.content
    this.received = clock.now()
    this.begun = clock.elapsed()
    this.trailers = read.trailers
    this.interim = read.interim
    this.client = connection.client
    this.connection = connection.life
    this.local = connection.local
    this.secure = connection.secure
    if (connection.tunnelEnd !== undefined) this.tunnelEnd = connection.tunnelEnd
    this.clientPlace = connection.clientPlace
  }

  gone(): void {
    this.end(over)
  }
}

/** Makes names of requests for logs and error pages: a word that no other run uses, and a number. */
export function requestIds(random: (size: number) => Buffer): () => string {
  const run = random(4).toString('hex')
  let count = 0
  return () => {
    count += 1
    return `${run}-${count.toString(36)}`
  }
}

/*
 * The shared memory of reads. Node makes 64 KiB of memory for each read of a connection that it accepts, even if five bytes come.
 * Connections that a program opens have the option `onread`; accepted ones do not. So an accepted connection is moved to a socket that has
 * the option.
 *
 * - A read is synchronous: the bytes in the shared memory are understood or copied before another connection can be read.
 * - Only these sockets use the memory. Connections to origins have memory of their own: the handler of a request may make such a connection
 *   deliver the bytes it kept (`Transport.resume`) before the next request is understood.
 */

/** Bytes of the memory, and the usual number that one read may bring, which is also Node's. */
const sharedBytes = 256 * 1024
const usualBytes = 64 * 1024

let memory: Buffer | undefined

/**
 * Understands or copies the bytes of a read before it returns. True when many more are expected: the next read may then fill all of the
 * memory.
 */
type Taker = (bytes: Buffer) => boolean

/** Undocumented members of a Node socket. */
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
  /** The function that gets the bytes of a read; without one they are copied into the stream. */
  taker: Taker | undefined

  constructor(handle: Handle) {
    memory ??= Buffer.allocUnsafeSlow(sharedBytes)
    const all = memory
    const usual = all.subarray(0, usualBytes)
    let next = usual
    const onread = {
      // Node calls this before the first read, and after each read for the next.
      buffer: () => next,
      callback: (count: number) => {
        const bytes = all.subarray(0, count)
        const { taker } = this
        next = taker?.(bytes) ? all : usual
        return taker !== undefined || this.push(Buffer.from(bytes))
      },
    }
    super({ handle, allowHalfOpen: true, onread } as SocketConstructorOpts)
  }
}

/** Moves a connection that was just accepted to a socket that reads into the shared memory. Any other connection is returned unchanged. */
export function shareReadMemory(accepted: Socket): Socket {
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

/** Gives the bytes of each read to `take`, and starts reading. */
export function takeReads(socket: Socket, take: Taker): void {
  if (socket instanceof AcceptedSocket) socket.taker = take
  else socket.on('data', take)
  socket.resume()
}

/** From now on the bytes of each read go to the stream. */
export function leaveReads(socket: Socket, take: Taker): void {
  if (socket instanceof AcceptedSocket) socket.taker = undefined
  else socket.off('data', take)
}
