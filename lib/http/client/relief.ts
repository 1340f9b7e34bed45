/**
 * Makes room for requests that wait for a connection behind long ones: event streams, slow downloads, dripping uploads.
 *
 * # Order
 * 1. What lasts is set apart, in a line of its own: its place goes to the next that waits.
 * 2. When nothing lasts yet, the client that holds more than twice as many places as one that waits yields its oldest in the same
 *    way: no request waits until the requests of a burst are old enough to last.
 * 3. When the line of what lasts is full, the newest of the client with most of what lasts is ended. Its place, in whichever line, is
 *    given on when its connection has closed.
 *
 * So each client that waits gets one place, or as many as it lacks of an equal share of all. No more than one is ended for each of them
 * where requests that do not last will give back the others.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Line } from '../../async/line.ts'
import type { OriginConnection } from './connection.ts'
import { failureOf } from './errors.ts'
import type { ConnectionPool } from './pool.ts'

/** A request that may hold a connection. */
export interface Holder {
  readonly key: string
  /** The network of who asks. */
  readonly client: string
  readonly origin: string
  /** Undefined while it waits for one. */
  readonly connection: OriginConnection | undefined
  /** The moment since which the request has the connection, by the monotonic clock. */
  readonly leased: Milliseconds
  cancel(cause: unknown): void
}

interface ReliefParts {
  readonly clock: Clock
  readonly pool: ConnectionPool
  /** All requests, the oldest first. */
  readonly underWay: Iterable<Holder>
}

/** A request whose connection has been its own for so long is one that lasts. */
const lasts: Milliseconds = 1000
/** The time from one look at all requests to the next, however many come to wait. */
const between: Milliseconds = 20
/**
 * Places given on in one look, and those of them for which a request is ended: to dial for hundreds at once, and to answer hundreds
 * that are ended, would keep all others waiting. Many clients that wait have so many of them ended that it takes all of them
 * about a second, up to what is given on at once.
 */
const mostAtOnce = 16
const mostEnded = 4
const looksForAll = 25

export class Relief {
  readonly #parts: ReliefParts
  /** Whether a look was taken just now, or is due. */
  #looked = false

  constructor(parts: ReliefParts) {
    this.#parts = parts
  }

  /** To be told when a request begins to wait. */
  wanted(): void {
    if (this.#parts.pool.setsApart && !this.#looked) this.#look()
  }

  readonly #look = (): void => {
    const { clock, pool } = this.#parts
    this.#looked = true
    for (const [key, line] of pool.awaited()) this.#relieve(key, line)
    clock.after(between, () => {
      this.#looked = false
      if (pool.awaited().length > 0) this.#look()
    })
  }

  #relieve(key: string, line: Pick<Line<Holder>, 'waiting' | 'weigh'>): void {
    const { clock, pool, underWay } = this.#parts
    const now = clock.elapsed()
    const young = new Map<string, Holder[]>()
    const lasting = new Map<string, Holder[]>()
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
    let wanted = Math.min(mostAtOnce, this.#wanted(key, waiting, held) - pool.leaving(key))
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
    // The first that becomes old enough has room there, and gives its place on.
    if (pool.hasRoomApart(key)) return
    // What does not last gives its place back by itself.
    const soon = [...young.values()].flat().length
    const most = Math.max(mostEnded, Math.ceil(waiting.size / looksForAll))
    wanted = Math.min(most, Math.max(Math.min(wanted, waiting.size), wanted - soon))
    const least = Math.min(...[...waiting.keys()].map(client => held.get(client) ?? 0))
    for (let ended = 0; ended < wanted; ended += 1) {
      const own = largest(lasting)
      const newest = own.at(-1)
      // Between clients that hold the same number it is no matter of fairness: then one gives way to another now and then.
      const equal = least > 0 && own.length <= least + 1
      if (newest === undefined || (ended > 0 && equal)) return
      own.pop()
      newest.cancel(failureOf('queue', newest.origin, {}))
    }
  }

  /** How many places those that wait shall get: each client one, or as many as it lacks of its share. */
  #wanted(
    key: string,
    waiting: ReadonlyMap<string, number>,
    held: ReadonlyMap<string, number>,
  ): number {
    const share = this.#parts.pool.share(key, new Set([...waiting.keys(), ...held.keys()]).size)
    let wanted = 0
    for (const [client, count] of waiting) {
      wanted += Math.min(count, Math.max(1, share - (held.get(client) ?? 0)))
    }
    return wanted
  }
}

function add(all: Map<string, Holder[]>, client: string, holder: Holder): void {
  const own = all.get(client)
  if (own === undefined) all.set(client, [holder])
  else own.push(holder)
}

function largest(all: Map<string, Holder[]>): Holder[] {
  let most: Holder[] = []
  for (const own of all.values()) if (own.length > most.length) most = own
  return most
}
