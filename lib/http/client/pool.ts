/**
 * Connections to origins, kept for the next request. Knows connections, not HTTP: the request that leases one says when it is
 * free again, and a connection that closes gives up its place by itself.
 *
 * Per key (an origin) at most `perOrigin` connections exist; later requests wait in line. Free ones are taken last in, first
 * out: a few stay warm and the rest reach their idle end. A free connection on which anything arrives, bytes or an end, is
 * dropped.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Connection } from './connection.ts'

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

/** A connection, or the right to open one: then `add` or `vacate` follows. */
export type Turn = Connection | 'open'

/** A request that wants a connection. */
export interface Lessee {
  readonly key: string
  /** Whether only a new connection will do. */
  readonly fresh: boolean
  /** Its turn has come, after it waited in line. */
  turn(turn: Turn): void
}

interface Place {
  /** Connections that count against the limit: leased, being dialled, free. */
  held: number
  /** The longest free first. */
  readonly free: Connection[]
  readonly line: Set<Lessee>
}

export class ConnectionPool {
  readonly #limits: PoolLimits
  readonly #places = new Map<string, Place>()
  /** Free connections of all origins, the longest free first. */
  readonly #free = new Set<Connection>()
  readonly #open = new Set<Connection>()
  #held = 0

  constructor(limits: PoolLimits) {
    this.#limits = limits
  }

  /** A turn at once, `full` when there can be none, or undefined: the request stands in line until its turn comes or `leave`. */
  lease(lessee: Lessee): Turn | 'full' | undefined {
    const { key, fresh } = lessee
    const place = this.#places.get(key) ?? { held: 0, free: [], line: new Set() }
    const newest = fresh ? undefined : place.free.at(-1)
    if (newest !== undefined) {
      this.#take(place, newest)
      return newest
    }
    if (place.held < this.#limits.perOrigin) {
      if (this.#held >= this.#limits.all && !this.#makeRoom()) return 'full'
      this.#places.set(key, place)
      place.held += 1
      this.#held += 1
      return 'open'
    }
    if (place.line.size >= this.#limits.waiting) return 'full'
    place.line.add(lessee)
    if (fresh) this.#drop(place.free[0])
    return undefined
  }

  /** The request does not stand in line any more. */
  leave(lessee: Lessee): void {
    this.#places.get(lessee.key)?.line.delete(lessee)
  }

  /** The connection that was opened. It is given back by `release`, or by destroying it. */
  add(connection: Connection): void {
    const { socket } = connection.transport
    const onClose = (): void => {
      const place = this.#places.get(connection.key)
      if (place !== undefined) this.#take(place, connection)
      this.#open.delete(connection)
      this.vacate(connection.key)
    }
    connection.drop = () => this.#drop(connection)
    this.#open.add(connection)
    if (socket.closed) onClose()
    else socket.once('close', onClose)
  }

  /** Gives a connection back whose response has been read to the end. */
  release(connection: Connection): void {
    const place = this.#places.get(connection.key)
    if (place === undefined) return connection.destroy()
    const keep = connection.keep ?? this.#limits.idle
    connection.reused = true
    const next = firstOf(place.line)
    if (keep <= 0 || !connection.usable || next?.fresh) {
      connection.destroy()
    } else if (next !== undefined) {
      place.line.delete(next)
      next.turn(connection)
    } else {
      this.#keep(place, connection, keep)
    }
  }

  /** No connection came of a turn to open one, or it has closed: the next in line opens one, or the limit has room again. */
  vacate(key: string): void {
    const place = this.#places.get(key)
    if (place === undefined) return
    const next = firstOf(place.line)
    if (next !== undefined) {
      place.line.delete(next)
      return next.turn('open')
    }
    place.held -= 1
    this.#held -= 1
    if (place.held === 0) this.#places.delete(key)
  }

  counts(): PoolCounts {
    let waiting = 0
    for (const place of this.#places.values()) waiting += place.line.size
    return { busy: this.#held - this.#free.size, free: this.#free.size, waiting }
  }

  /** Destroys every connection, and settles when all are closed. */
  async close(): Promise<void> {
    const closed = [...this.#open].map(
      ({ transport }) => new Promise(resolve => transport.socket.once('close', resolve).destroy()),
    )
    await Promise.all(closed)
  }

  #take(place: Place, connection: Connection): void {
    if (!this.#free.delete(connection)) return
    place.free.splice(place.free.lastIndexOf(connection), 1)
    connection.alarm.clear()
  }

  /** Closes the longest free connection of all; its place counts until it has closed, which is a moment. */
  #makeRoom(): boolean {
    const longest = firstOf(this.#free)
    this.#drop(longest)
    return longest !== undefined
  }

  /** Closes a free connection; it is out of reach at once, its place is free when it has closed. */
  #drop(connection: Connection | undefined): void {
    if (connection === undefined) return
    const place = this.#places.get(connection.key)
    if (place !== undefined) this.#take(place, connection)
    connection.destroy()
  }

  #keep(place: Place, connection: Connection, keep: Milliseconds): void {
    connection.rest(keep)
    place.free.push(connection)
    this.#free.add(connection)
    if (place.free.length > this.#limits.freePerOrigin) this.#drop(place.free[0])
    if (this.#free.size > this.#limits.free) this.#drop(firstOf(this.#free))
  }
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  for (const first of set) return first
  return undefined
}
