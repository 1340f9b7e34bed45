/**
 * Connections to origins, kept for the next request. Knows connections, not HTTP: the request that leases one says when it is free again,
 * and a connection that closes gives up its place by itself.
 *
 * For each key (an origin) at most `perOrigin` connections exist; later requests wait in line. The connection that became free last is used
 * first, so a few stay busy and the others reach their idle limit. A free connection is closed when anything arrives on it, bytes or an
 * end.
 *
 * A connection that authentication has bound to one client (bound-connections.ts) is never free. While it rests it counts against the
 * limits like a free one, and is the first to be closed when another request needs its place.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Line } from '../../async/line.ts'
import { Members } from '../../members.ts'
import type { OriginConnection } from './connection.ts'
import type { ConnectionLimits } from './connection-limits.ts'
import { failureOf } from './errors.ts'
import type { ConnectionLine } from './request.ts'

export interface PoolLimits {
  /** The most connections to one origin, busy and free. */
  readonly perOrigin: number
  /** The same limit for the line `passed` (request.ts); undefined: the same number. */
  readonly passed?: number | undefined
  /** The most connections to all origins together, busy and free. They share the file descriptors of the process. */
  readonly all: number
  /** The most free connections kept for one origin. */
  readonly freePerOrigin: number
  /** The most free connections kept for all origins together. */
  readonly free: number
  /** The most further connections to one origin for requests that last, at most `passed` in that line. Undefined: none are set apart. */
  readonly lasting?: number | undefined
  /** The most requests that may wait for a connection to one origin. Those of one named client may be a quarter of them. */
  readonly waiting: number
  /** How long a free connection is kept when its origin gave no hint. Many origins close it after 5 s. */
  readonly idle: Milliseconds
}

export interface PoolCounts {
  /** Connections leased to requests, including those that are being dialled. */
  readonly busy: number
  readonly free: number
  /** Resting connections that are bound to one client. */
  readonly bound: number
  /** The number of busy connections whose requests last. */
  readonly lasting: number
  readonly waiting: number
}

/** A connection, or the right to open one, after which `add` or `vacate` must follow. */
export type Turn = OriginConnection | 'open'

/** A request that needs a connection. */
export interface Lessee {
  readonly key: string
  /** The most connections to its origin if that has a limit of its own. */
  readonly most: number | undefined
  /** The line that the connections under the key belong to. */
  readonly line: ConnectionLine
  /** The network of the client that asks, or "". */
  readonly client: string
  /** Whether it needs a new connection. */
  readonly fresh: boolean
  readonly origin: string
  /** Undefined while it waits for a connection. */
  readonly connection: OriginConnection | undefined
  /** The moment since which it has the connection, by the monotonic clock. */
  readonly leased: Milliseconds
  /** Called when its turn has come, after it waited in line. */
  turn(turn: Turn): void
  cancel(cause: unknown): void
}

interface Place {
  readonly key: string
  /** The most connections that it may hold by the settings, and the most that may be set apart. */
  readonly most: number
  readonly mostLasting: number
  /** Connections that count against the limit: leased, being dialled, or free. */
  held: number
  /** Connections set apart, which count against a limit of their own. */
  lasting: number
  /** Free connections. The first has been free for the longest time. */
  readonly free: OriginConnection[]
  /** Bound connections that rest. The first has rested for the longest time. */
  readonly bound: OriginConnection[]
  readonly line: Line<Lessee>
}

export class ConnectionPool {
  readonly #limits: PoolLimits
  readonly #places = new Map<string, Place>()
  /** Free connections of all origins. The first has been free for the longest time. */
  readonly #free = new Members<OriginConnection>()
  /** Bound connections of all origins that rest. The first has rested for the longest time. */
  readonly #bound = new Members<OriginConnection>()
  readonly #open = new Set<OriginConnection>()
  readonly #origins: ConnectionLimits
  #held = 0

  constructor(limits: PoolLimits, origins: ConnectionLimits) {
    this.#limits = limits
    this.#origins = origins
    origins.onEnded = key => this.#openMore(key)
  }

  /**
   * Returns a turn at once, or `full` when none is possible. Undefined: the request waits in line until its turn comes or `leave` is
   * called.
   */
  lease(lessee: Lessee): Turn | 'full' | undefined {
    const { key, fresh } = lessee
    const place = this.#places.get(key) ?? this.#placeOf(lessee)
    const newest = fresh ? undefined : place.free.at(-1)
    if (newest !== undefined) {
      this.#take(place, newest)
      return newest
    }
    if (place.held < this.#mostOf(place)) {
      if (this.#held >= this.#limits.all && !this.#makeRoom()) return 'full'
      this.#places.set(key, place)
      place.held += 1
      this.#held += 1
      return 'open'
    }
    const { waiting } = this.#limits
    const mine = lessee.client === '' ? 0 : place.line.of(lessee.client) * 4
    if (Math.max(place.line.size, mine) >= waiting) return 'full'
    place.line.add(lessee)
    this.#drop(fresh ? (place.free[0] ?? place.bound[0]) : place.bound[0])
    return undefined
  }

  leave(lessee: Lessee): void {
    this.#places.get(lessee.key)?.line.delete(lessee)
  }

  /** Adds the connection that a request opened. `release`, or its destruction, gives its place back. */
  add(connection: OriginConnection): void {
    const { socket } = connection.transport
    const onClose = (): void => this.giveUp(connection)
    connection.drop = () => this.#drop(connection)
    this.#open.add(connection)
    if (socket.closed) onClose()
    else socket.once('close', onClose)
  }

  /** Gives back a connection whose response has been read to the end. */
  release(connection: OriginConnection): void {
    const place = this.#returned(connection)
    if (place === undefined || connection.bound) return connection.destroy()
    const keep = connection.keep ?? this.#limits.idle
    const tooMany = place.held > this.#mostOf(place)
    if (keep <= 0 || tooMany || !connection.usable || place.line.next()?.fresh) {
      connection.destroy()
    } else if (place.line.size > 0) {
      place.line.take()?.turn(connection)
    } else {
      this.#keep(place, connection, keep)
    }
  }

  /** Keeps a bound connection for its owner until `takeBound`, while its place is not needed. */
  keepBound(connection: OriginConnection): void {
    const place = this.#returned(connection)
    const keep = connection.keep ?? boundIdle
    if (place === undefined || keep <= 0 || !connection.usable) return connection.destroy()
    this.#keep(place, connection, keep)
  }

  /** Takes a bound connection that rests; false when it no longer rests. */
  takeBound(connection: OriginConnection): boolean {
    const place = this.#places.get(connection.key)
    if (place === undefined || !this.#bound.has(connection)) return false
    this.#take(place, connection)
    return true
  }

  /** The place of a connection that has served its request. The connection no longer counts as a lasting one. */
  #returned(connection: OriginConnection): Place | undefined {
    const place = this.#places.get(connection.key)
    if (place === undefined) return undefined
    connection.reused = true
    if (!connection.apart) return place
    if (place.held >= place.most) return undefined
    connection.apart = false
    place.lasting -= 1
    place.held += 1
    return place
  }

  /**
   * To be called when a turn to open a connection failed, or a connection has closed. The next in line opens one, or the limit has room
   * again.
   */
  vacate(key: string): void {
    const place = this.#places.get(key)
    if (place === undefined) return
    if (this.#giveOn(place)) return
    place.held -= 1
    this.#held -= 1
    this.#forget(key, place)
  }

  /** The lines in which requests wait, each with its key. */
  awaited(): ReadonlyArray<readonly [key: string, line: Line<Lessee>]> {
    const all = [...this.#places].map(([key, { line }]) => [key, line] as const)
    return all.filter(([, { size }]) => size > 0)
  }

  /** The connections under a key that each of so many clients may hold when all of them want as many. */
  share(key: string, clients: number): number {
    return Math.floor((this.#places.get(key)?.most ?? 0) / clients)
  }

  /** The number of places under a key that will soon be free: their connections are destroyed and have not closed yet. */
  leaving(key: string): number {
    let count = 0
    for (const { key: own, transport } of this.#open) {
      if (own === key && transport.socket.destroyed) count += 1
    }
    return count
  }

  /** Whether one more connection under a key may be set apart. */
  hasRoomApart(key: string): boolean {
    const place = this.#places.get(key)
    return place !== undefined && place.lasting < place.mostLasting
  }

  /** Counts a connection among those that last and gives its place to the next in line; false when no more may be set apart. */
  setApart(connection: OriginConnection): boolean {
    const place = this.#places.get(connection.key)
    if (place === undefined || !this.hasRoomApart(connection.key)) return false
    connection.apart = true
    place.lasting += 1
    if (this.#giveOn(place)) this.#held += 1
    else place.held -= 1
    return true
  }

  /** The connections of a key that requests have or dial. */
  busy(key: string): number {
    const place = this.#places.get(key)
    return place === undefined ? 0 : place.held - place.free.length - place.bound.length
  }

  /** The most connections under a key by the settings. */
  most(key: string): number {
    return this.#places.get(key)?.most ?? 0
  }

  /** The most connections under a key now. */
  mostNow(key: string): number {
    const place = this.#places.get(key)
    return place === undefined ? 0 : this.#mostOf(place)
  }

  /** The number of requests that wait for a connection under a key. */
  waiting(key: string): number {
    return this.#places.get(key)?.line.size ?? 0
  }

  /** Closes the free connections under a key, because its limit was lowered. */
  shrink(key: string): void {
    for (const connection of [...(this.#places.get(key)?.free ?? [])]) this.#drop(connection)
  }

  /** Lets waiting requests open connections, because the limit of their origin has risen. */
  #openMore(key: string): void {
    const place = this.#places.get(key)
    if (place === undefined) return
    while (place.line.size > 0 && place.held < this.#mostOf(place)) {
      if (this.#held >= this.#limits.all && !this.#makeRoom()) return
      place.held += 1
      this.#held += 1
      place.line.take()?.turn('open')
    }
  }

  #mostOf({ key, most }: Place): number {
    return this.#origins.now(key, most)
  }

  /** Gives the next in line the right to open a connection instead of one that has closed. */
  #giveOn(place: Place): boolean {
    if (place.held > this.#mostOf(place)) return false
    const next = place.line.take()
    next?.turn('open')
    return next !== undefined
  }

  #placeOf({ key, line, most: own }: Lessee): Place {
    const { perOrigin, passed = perOrigin, lasting = 0 } = this.#limits
    const most = own ?? (line === 'passed' ? passed : perOrigin)
    const mostLasting = line === 'passed' ? Math.min(passed, lasting) : lasting
    return { key, most, mostLasting, held: 0, lasting: 0, free: [], bound: [], line: new Line() }
  }

  #forget(key: string, place: Place): void {
    if (place.held + place.lasting === 0) this.#places.delete(key)
  }

  counts(): PoolCounts {
    let waiting = 0
    let lasting = 0
    for (const place of this.#places.values()) {
      waiting += place.line.size
      lasting += place.lasting
    }
    const { size: free } = this.#free
    const { size: bound } = this.#bound
    return { busy: this.#held - free - bound, free, bound, lasting, waiting }
  }

  /** Destroys every connection, and resolves when all are closed. */
  async close(): Promise<void> {
    const closed = [...this.#open].map(
      ({ transport }) => new Promise(resolve => transport.socket.once('close', resolve).destroy()),
    )
    await Promise.all(closed)
  }

  /** To be called when the connection changes to another protocol, or has closed. Limits no longer count it. */
  giveUp(connection: OriginConnection): void {
    const place = this.#places.get(connection.key)
    if (place !== undefined) this.#take(place, connection)
    if (!this.#open.delete(connection)) return
    if (!connection.apart || place === undefined) return this.vacate(connection.key)
    place.lasting -= 1
    this.#held -= 1
    this.#forget(connection.key, place)
  }

  #take(place: Place, connection: OriginConnection): void {
    const [all, own] = connection.bound ? [this.#bound, place.bound] : [this.#free, place.free]
    if (!all.delete(connection)) return
    if (own[0] === connection) own.shift()
    else own.splice(own.lastIndexOf(connection), 1)
    connection.alarm.clear()
  }

  /** Closes the connection that was unused for the longest time. Its place counts until it has closed, after a moment. */
  #makeRoom(): boolean {
    const longest = first(this.#bound) ?? first(this.#free)
    this.#drop(longest)
    return longest !== undefined
  }

  /** Closes a free connection. The pool forgets it at once, and its place is free when it has closed. */
  #drop(connection: OriginConnection | undefined): void {
    if (connection === undefined) return
    const place = this.#places.get(connection.key)
    if (place !== undefined) this.#take(place, connection)
    connection.destroy()
  }

  #keep(place: Place, connection: OriginConnection, keep: Milliseconds): void {
    const { freePerOrigin, free } = this.#limits
    const [all, own] = connection.bound ? [this.#bound, place.bound] : [this.#free, place.free]
    connection.rest(keep)
    own.push(connection)
    all.add(connection)
    if (connection.bound) {
      const many = place.free.length + place.bound.length > freePerOrigin
      if (many || place.line.size > 0) this.#drop(place.bound[0])
      if (this.#free.size + this.#bound.size > free) this.#drop(first(this.#bound))
      return
    }
    // A free connection ends no bound one of its origin, which may be in the middle of a handshake of NTLM.
    if (place.free.length > freePerOrigin) this.#drop(place.free[0])
    if (this.#free.size > free) this.#makeRoom()
  }
}

function first<T>([one]: Iterable<T>): T | undefined {
  return one
}

/**
 * How long a bound connection rests when its origin gave no hint: people read a page before they request the next. Servers with Windows
 * authentication keep connections for two minutes.
 */
const boundIdle: Milliseconds = 90_000

interface ReliefParts {
  readonly clock: Clock
  readonly pool: ConnectionPool
  /** All requests, the oldest first. */
  readonly underWay: Iterable<Lessee>
}

/** A request that has had its connection for this time counts as one that lasts. */
const lasts: Milliseconds = 1000
/** The time between two looks at all requests, however many begin to wait. */
const between: Milliseconds = 20
/**
 * The places given on in one look, and those of them for which a request is ended. To dial hundreds at once, or to answer hundreds of ended
 * requests, would delay all others. With many waiting clients more requests are ended, so that all get a place within about a second, up to
 * the number of places given on at once.
 */
const mostAtOnce = 16
const mostEnded = 4
const looksForAll = 25

/**
 * Makes room for requests that wait for a connection behind long ones: event streams, slow downloads, slow uploads.
 *
 * # Order
 * 1. A request that lasts is set apart, in a line of its own: its place goes to the next that waits.
 * 2. When no request lasts yet, the client that holds more than twice as many places as a waiting one yields its oldest place in the same
 *    way: so no request waits until the requests of a burst are old enough to last.
 * 3. When the line of lasting requests is full, the newest request of the client with the most of them is ended. Its place is given on when
 *    its connection has closed.
 *
 * So each waiting client gets one place, or as many as it lacks of an equal share. At most one request is ended for each waiting client if
 * requests that do not last will give back the other places.
 *
 * The function that this makes is to be called when a request begins to wait.
 */
export function relief(parts: ReliefParts): () => void {
  const { clock, pool } = parts
  /** Whether a look was taken a moment ago, or is due. */
  let looked = false
  const look = (): void => {
    looked = true
    for (const [key, line] of pool.awaited()) relieve(parts, key, line)
    clock.after(between, () => {
      looked = false
      if (pool.awaited().length > 0) look()
    })
  }
  return () => {
    if (!looked) look()
  }
}

function relieve({ clock, pool, underWay }: ReliefParts, key: string, line: Line<Lessee>): void {
  const now = clock.elapsed()
  const young = new Map<string, Lessee[]>()
  const lasting = new Map<string, Lessee[]>()
  const held = new Map<string, number>()
  for (const holder of underWay) {
    const { connection, client } = holder
    if (holder.key !== key || connection === undefined) continue
    const old = connection.apart || now - holder.leased >= lasts
    add(old ? lasting : young, client, holder)
    held.set(client, (held.get(client) ?? 0) + 1)
  }
  const waiting = line.waiting()
  line.weigh(held)
  const clients = new Set([...waiting.keys(), ...held.keys()]).size
  const lacking = lackingPlaces(waiting, held, pool.share(key, clients))
  let wanted = Math.min(mostAtOnce, lacking - pool.leaving(key))
  for (const { connection } of [...lasting.values()].flat()) {
    if (wanted > 0 && connection && !connection.apart && pool.setApart(connection)) wanted -= 1
  }
  const fewest = Math.min(...[...waiting.keys()].map(client => young.get(client)?.length ?? 0))
  while (wanted > 0) {
    const most = largest(young)
    if (most.length <= 2 * fewest + 1) break
    const { connection } = most.shift() ?? {}
    if (connection === undefined || !pool.setApart(connection)) break
    wanted -= 1
  }
  // The next request that becomes old enough has room there, and gives its place on.
  if (pool.hasRoomApart(key)) return
  // Requests that do not last give their places back by themselves.
  const soon = [...young.values()].flat().length
  const most = Math.max(mostEnded, Math.ceil(waiting.size / looksForAll))
  wanted = Math.min(most, Math.max(Math.min(wanted, waiting.size), wanted - soon))
  const least = Math.min(...[...waiting.keys()].map(client => held.get(client) ?? 0))
  for (let ended = 0; ended < wanted; ended += 1) {
    const own = largest(lasting)
    const newest = own.at(-1)
    // Between clients that hold the same number fairness demands nothing, so only one at a time gives its place to another.
    const equal = least > 0 && own.length <= least + 1
    if (newest === undefined || (ended > 0 && equal)) return
    own.pop()
    newest.cancel(failureOf('queue', newest.origin, {}))
  }
}

/** The number of places for the waiting clients: one for each, or as many as it lacks of its share. */
function lackingPlaces(
  waiting: ReadonlyMap<string, number>,
  held: ReadonlyMap<string, number>,
  share: number,
): number {
  let lacking = 0
  for (const [client, count] of waiting) {
    lacking += Math.min(count, Math.max(1, share - (held.get(client) ?? 0)))
  }
  return lacking
}

function add(all: Map<string, Lessee[]>, client: string, holder: Lessee): void {
  const own = all.get(client)
  if (own === undefined) all.set(client, [holder])
  else own.push(holder)
}

function largest(all: Map<string, Lessee[]>): Lessee[] {
  let most: Lessee[] = []
  for (const own of all.values()) if (own.length > most.length) most = own
  return most
}
