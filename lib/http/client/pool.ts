/**
 * Connections to origins, kept for the next request. Knows sockets, not HTTP: whoever leases a connection says when it is
 * free again, and a connection that closes gives up its place by itself.
 *
 * Per key (an origin) at most `perOrigin` connections exist; who comes later waits in line, with a deadline. Free ones are
 * taken last in, first out: a few stay warm and the rest reach their idle end. A free connection on which anything arrives,
 * bytes or an end, is dropped: what came unasked must never become the answer to the next request.
 */
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'

export interface PoolLimits {
  /** Connections to one origin, busy and free. */
  readonly perOrigin: number
  /** Connections to all origins together, busy and free: file descriptors are the whole process's. */
  readonly all: number
  /** Free connections kept for one origin. */
  readonly freePerOrigin: number
  /** Free connections kept for all origins together. */
  readonly free: number
  /** Requests that may wait for a connection to one origin. */
  readonly waiting: number
  /** How long a free connection is kept when its origin gave no hint. Many origins close after 5 s. */
  readonly idle: Milliseconds
}

export interface PoolCounts {
  /** Connections leased to requests, those being dialled included. */
  readonly busy: number
  readonly free: number
  /** Requests waiting for a connection. */
  readonly waiting: number
}

/** A connection in the pool's care. */
export class Connection {
  readonly key: string
  readonly socket: Socket
  /** IP address of the peer. */
  readonly address: string
  /** Whether an earlier request has used it. */
  reused = false
  /** How long it may lie free after this request; undefined for the pool's own limit. */
  keep: Milliseconds | undefined
  /** Ends its life as a free connection. */
  leave: () => void = () => {}

  constructor(key: string, dialled: { readonly socket: Socket; readonly address: string }) {
    this.key = key
    this.socket = dialled.socket
    this.address = dialled.address
  }
}

/** What waiting in line gives: a connection, or the right to open one. */
type Turn = Connection | 'open'

interface Waiting {
  /** Whether only a new connection will do. */
  readonly fresh: boolean
  readonly give: (turn: Turn) => void
}

interface Place {
  /** Connections that count against the limit: leased, being dialled, free. */
  held: number
  /** The longest free first. */
  readonly free: Set<Connection>
  readonly line: Set<Waiting>
}

export interface LeaseRequest {
  readonly key: string
  /** Whether it must be a new connection. */
  readonly fresh: boolean
  readonly open: () => Promise<{ readonly socket: Socket; readonly address: string }>
  /** Waits for a turn no longer than the request cares to, and throws when it does not come. */
  readonly wait: <T>(turn: (stop: AbortSignal) => Promise<T>) => Promise<T>
  /** Makes the error for a line that is too long. */
  readonly full: () => Error
}

export class ConnectionPool {
  readonly #clock: Clock
  readonly #limits: PoolLimits
  readonly #places = new Map<string, Place>()
  /** Free connections of all origins, the longest free first. */
  readonly #free = new Set<Connection>()
  readonly #open = new Set<Connection>()
  #held = 0

  constructor(clock: Clock, limits: PoolLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** A connection for one request. It is given back by `release`, or by destroying its socket. */
  async lease(request: LeaseRequest): Promise<Connection> {
    const { key, fresh } = request
    const place = this.#places.get(key) ?? { held: 0, free: new Set(), line: new Set() }
    this.#places.set(key, place)
    if (!fresh) {
      const free = [...place.free].at(-1)
      if (free !== undefined) return this.#take(place, free)
    }
    if (place.held < this.#limits.perOrigin) {
      if (this.#held >= this.#limits.all && !this.#makeRoom()) {
        if (place.held === 0) this.#places.delete(key)
        throw request.full()
      }
      place.held += 1
      this.#held += 1
      return this.#dial(place, request)
    }
    if (place.line.size >= this.#limits.waiting) throw request.full()
    const turn = request.wait(stop => this.#standInLine(place, { fresh, stop, key }))
    if (fresh) this.#drop(firstOf(place.free))
    const given = await turn
    return given === 'open' ? this.#dial(place, request) : given
  }

  /** Gives a connection back whose response has been read to the end. */
  release(connection: Connection): void {
    const { socket, key } = connection
    const place = this.#places.get(key)
    if (place === undefined || socket.destroyed) return
    const keep = connection.keep ?? this.#limits.idle
    connection.reused = true
    const next = firstOf(place.line)
    if (keep <= 0 || !socket.readable || !socket.writable || next?.fresh) {
      socket.destroy()
    } else if (next !== undefined) {
      place.line.delete(next)
      next.give(connection)
    } else {
      this.#keep(place, connection, keep)
    }
  }

  counts(): PoolCounts {
    let held = 0
    let waiting = 0
    for (const place of this.#places.values()) {
      held += place.held
      waiting += place.line.size
    }
    return { busy: held - this.#free.size, free: this.#free.size, waiting }
  }

  /** Destroys every connection, and settles when all are closed. */
  async close(): Promise<void> {
    const closed = [...this.#open].map(
      ({ socket }) => new Promise(resolve => socket.once('close', resolve).destroy()),
    )
    await Promise.all(closed)
  }

  #take(place: Place, connection: Connection): Connection {
    connection.leave()
    place.free.delete(connection)
    this.#free.delete(connection)
    return connection
  }

  async #dial(place: Place, { key, open }: LeaseRequest): Promise<Connection> {
    let connection: Connection
    try {
      connection = new Connection(key, await open())
    } catch (error) {
      this.#vacate(key, place)
      throw error
    }
    const { socket } = connection
    const onClose = () => {
      this.#take(place, connection)
      this.#open.delete(connection)
      this.#vacate(key, place)
    }
    this.#open.add(connection)
    socket.on('error', () => {}) // told by 'close', and by whoever uses the connection
    if (socket.closed) onClose()
    else socket.once('close', onClose)
    return connection
  }

  #standInLine(
    place: Place,
    {
      fresh,
      stop,
      key,
    }: { readonly fresh: boolean; readonly stop: AbortSignal; readonly key: string },
  ): Promise<Turn> {
    return new Promise(resolve => {
      let given: Turn | undefined
      const waiting = {
        fresh,
        give: (turn: Turn) => {
          given = turn
          resolve(turn)
        },
      }
      place.line.add(waiting)
      stop.addEventListener('abort', () => {
        place.line.delete(waiting)
        // Given in the very moment it was given up: the turn goes on to the next.
        if (given === 'open') this.#vacate(key, place)
        else if (given !== undefined) this.release(given)
      })
    })
  }

  /** A place is free: the next in line opens a connection, or the limit has room again. */
  #vacate(key: string, place: Place): void {
    const next = firstOf(place.line)
    if (next !== undefined) {
      place.line.delete(next)
      next.give('open')
      return
    }
    place.held -= 1
    this.#held -= 1
    if (place.held === 0) this.#places.delete(key)
  }

  /** Closes the longest free connection of all; its place counts until it has closed, which is a moment. */
  #makeRoom(): boolean {
    const longest = this.#free.size === 0 ? undefined : firstOf(this.#free)
    this.#drop(longest)
    return longest !== undefined
  }

  /** Closes a free connection; it is out of reach at once, its place is free when it has closed. */
  #drop(connection: Connection | undefined): void {
    if (connection === undefined) return
    const place = this.#places.get(connection.key)
    if (place !== undefined) this.#take(place, connection)
    connection.socket.destroy()
  }

  #keep(place: Place, connection: Connection, keep: Milliseconds): void {
    const { socket } = connection
    const drop = () => this.#drop(connection)
    const cancelTimer = this.#clock.after(keep, drop)
    socket.on('data', drop).on('end', drop)
    connection.leave = () => {
      cancelTimer()
      socket.off('data', drop).off('end', drop)
      connection.leave = () => {}
    }
    socket.resume() // else an end would go unnoticed
    place.free.add(connection)
    this.#free.add(connection)
    if (place.free.size > this.#limits.freePerOrigin) this.#drop(firstOf(place.free))
    if (this.#free.size > this.#limits.free) this.#drop(firstOf(this.#free))
  }
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  const [first] = set
  return first
}
