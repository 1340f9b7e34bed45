/**
 * Connections to origins that authentication has bound to one client.
 *
 * # Rules
 * 1. A connection is bound once a request with such credentials was sent on it, or a response named such a scheme. It never serves
 *    another client, and is destroyed after its request when no client can have it (pool.ts).
 * 2. It belongs to the connection of the client that asked and to the identity that asked there (`ConnectionOwner`), and ends with
 *    that connection. Further requests of both take it in the order they came, each when the previous one has ended.
 * 3. A request of another identity on the same client connection goes over another connection.
 * 4. Without an identity the user of the next request is unknown. Then only a handshake that is under way continues, and only with
 *    requests whose credentials are a step of one.
 * 5. A client connection has one bound connection at most: the newest. It counts against the limits of the pool, which closes the one that
 *    was unused for the longest time when it needs room.
 */
import type { Lifetime } from '../../async/lifetime.ts'
import type { OriginConnection } from './connection.ts'
import type { ConnectionPool, Lessee } from './pool.ts'
import type { ConnectionOwner } from './request.ts'

/** A request that may take a bound connection. */
export interface BoundLessee extends Lessee {
  readonly owner: ConnectionOwner | undefined
  /** Its key in the pool, also when it asks to change the protocol and the pool does not count it. */
  readonly boundKey: string
  /** Whether it has credentials that bind its connection. */
  readonly binds: boolean
  /** Whether those credentials are a step of a handshake and nothing more. */
  readonly shakesHands: boolean
  /** The bound connection that it has or waits for. */
  bound: BoundConnection | undefined
  /** Called when the bound connection is lost: the request has to get one from the pool. */
  leaseFromPool(): void
}

/** The bound connection of one client connection. */
export interface BoundConnection {
  readonly key: string
  readonly owner: ConnectionOwner
  /** The unused connection, which the pool keeps. */
  resting: OriginConnection | undefined
  /** Requests that wait until the present one has ended, in the order they came. */
  readonly waiting: BoundLessee[]
  /** Called when the client's connection has closed. */
  readonly end: () => void
}

export class BoundConnections {
  readonly #pool: ConnectionPool
  /** Bound connections by client connection. Most clients have none. */
  readonly #bound = new Map<Lifetime, BoundConnection>()

  constructor(pool: ConnectionPool) {
    this.#pool = pool
  }

  /** Returns the connection for the request, `pool` when the request has to get one there, or undefined: then it waits for its turn. */
  lease(lessee: BoundLessee): OriginConnection | 'pool' | undefined {
    const { owner, binds, key, boundKey } = lessee
    if (owner === undefined || (this.#bound.size === 0 && !binds)) return 'pool'
    const bound = this.#bound.get(owner.connection)
    if (bound === undefined || !isFor(bound, lessee)) {
      // The next requests of this client wait for this one, because they need the connection that it authenticates.
      if (binds && key === boundKey) lessee.bound = this.#bind(key, owner)
      return 'pool'
    }
    lessee.bound = bound
    const { resting } = bound
    if (resting === undefined) {
      bound.waiting.push(lessee)
      return undefined
    }
    bound.resting = undefined
    // The pool or the origin may have closed it.
    return this.#pool.takeBound(resting) ? resting : 'pool'
  }

  leave(lessee: BoundLessee): void {
    const waiting = lessee.bound?.waiting ?? []
    const at = waiting.indexOf(lessee)
    if (at < 0) return
    waiting.splice(at, 1)
    lessee.bound = undefined
  }

  /** To be called when the request has ended. `connection` is the bound one it had, when that can be used again. */
  release(lessee: BoundLessee, connection: OriginConnection | undefined): void {
    const bound = lessee.bound ?? (connection && this.#boundNow(lessee))
    lessee.bound = undefined
    if (bound === undefined) return connection?.destroy()
    const { owner, waiting } = bound
    const usable =
      connection !== undefined && (owner.identity !== undefined || connection.handshake)
    const next = waiting.shift()
    if (next !== undefined) {
      if (usable && connection.usable) {
        connection.reused = true
        return next.turn(connection)
      }
      connection?.destroy()
      return next.leaseFromPool()
    }
    if (usable && this.#bound.get(owner.connection) === bound) {
      bound.resting = connection
      return this.#pool.keepBound(connection)
    }
    connection?.destroy()
    this.#forget(bound)
  }

  /** Binds a connection because of its response. */
  #boundNow({ owner, key, boundKey }: BoundLessee): BoundConnection | undefined {
    if (owner === undefined || owner.connection.over || key !== boundKey) return undefined
    return this.#bind(key, owner)
  }

  /** Binds the connection of this request from now on, instead of the previous one. */
  #bind(key: string, owner: ConnectionOwner): BoundConnection {
    const before = this.#bound.get(owner.connection)
    if (before !== undefined) {
      this.#forget(before)
      before.resting?.drop()
    }
    const bound: BoundConnection = {
      key,
      owner,
      resting: undefined,
      waiting: [],
      end: () => {
        this.#bound.delete(owner.connection)
        bound.resting?.drop()
      },
    }
    this.#bound.set(owner.connection, bound)
    owner.connection.onceOver(bound.end)
    return bound
  }

  #forget(bound: BoundConnection): void {
    const { connection } = bound.owner
    if (this.#bound.get(connection) !== bound) return
    this.#bound.delete(connection)
    connection.forget(bound.end)
  }
}

/** Whether a request may take the bound connection: rules 2 to 4. */
function isFor({ key, owner }: BoundConnection, lessee: BoundLessee): boolean {
  if (key !== lessee.boundKey || owner.identity !== lessee.owner?.identity) return false
  return owner.identity !== undefined || lessee.shakesHands
}
