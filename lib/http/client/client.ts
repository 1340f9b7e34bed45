/**
 * The way to origins: sends a request over a kept or a new connection and hands the response over as a value whose content
 * is a source of pieces. Owns the connections. Knows neither caching nor redirects: a response is handed on as it came.
 *
 * # The life of a request
 * The client makes a PendingRequest. That leases an OriginConnection from the pool, or dials one, and makes an OriginExchange on it.
 * The exchange makes an Upload if the request's content is streamed, and an OriginContent when the response's head is here. Each of
 * the three tells its maker (`...Owner`). A connection's Transport tells its present Reader: the exchange, then the content, and
 * the connection itself while it is free. Who calls what, in this order:
 *
 *     the head is here      exchange `answered` -> request -> caller
 *     the content ends      content `over` -> exchange `over` -> request `release` -> pool; before `answered` if it came with the head
 *     no head comes         exchange destroys the connection, `failed` -> request, which begins again, or tells the caller
 *     the content breaks    content destroys the connection, `over` -> exchange `over` -> request; then the failure -> caller
 *     the caller cancels    `cancel` -> request, which leaves the line, stops dialling, or `cancel` -> exchange, which fails as above
 *     the caller closes     `close` -> content, which reads a small rest and ends; else it destroys the connection, `over` as above
 *
 * `over`: the connection is needed no longer; it is destroyed if no other request may use it, or the caller's after 101. `ended`:
 * the origin sends no more; `closed`: the socket has closed, and the pool gives its place on. `cancel`: ends it in whatever phase
 * it is, also when the source of the request's content breaks off. `stop`: the upload writes no more.
 */
import type { Clock } from '../../async/clock.ts'
import { Members } from '../../members.ts'
import { formatAuthority } from '../message/target.ts'
import { LastBlock } from '../wire/last-block.ts'
import { BoundConnections } from './bound-connections.ts'
import { Dialler, type DialOptions } from './dialling/dialler.ts'
import { OriginFailure } from './errors.ts'
import {
  type ClientParts,
  OriginNames,
  PendingRequest,
  type ResponseListener,
} from './pending-request.ts'
import { ConnectionPool, type PoolCounts, type PoolLimits } from './pool.ts'
import { Relief } from './relief.ts'
import type { OriginDeadlines, OriginRequest, OriginResponse, OriginSwitched } from './request.ts'

export type {
  OriginDeadlines,
  OriginRequest,
  OriginResponse,
  OriginSwitched,
} from './request.ts'

export const defaultOriginDeadlines: OriginDeadlines = {
  queue: 30_000,
  lookup: 10_000,
  connect: 10_000,
  parent: 20_000,
  tls: 10_000,
  send: 30_000,
  fields: 30_000,
  content: 30_000,
}

export interface OriginLimits extends PoolLimits {
  /** Bytes of a response's head. */
  readonly head: number
}

export const defaultOriginLimits: OriginLimits = {
  perOrigin: 16,
  all: 4096,
  freePerOrigin: 8,
  free: 64,
  waiting: 1000,
  idle: 4000,
  head: 65_536,
}

export interface OriginOptions extends Omit<DialOptions, 'deadlines'> {
  readonly clock: Clock
  readonly deadlines?: Partial<OriginDeadlines>
  readonly limits?: Partial<OriginLimits>
}

export interface OriginCounts extends PoolCounts {
  /** Connections ever opened. */
  readonly opened: number
  /** Requests that went over a kept connection. */
  readonly reused: number
  /** Requests sent once more because a kept connection had died. */
  readonly retried: number
}

export class OriginClient {
  /** Opens connections under the same rules, for tunnels. */
  readonly dialler: Dialler
  readonly #parts: ClientParts
  #closed = false

  constructor(options: OriginOptions) {
    const limits = { ...defaultOriginLimits, ...options.limits }
    const deadlines = { ...defaultOriginDeadlines, ...options.deadlines }
    this.dialler = new Dialler({ ...options, deadlines })
    const { clock } = options
    const pool = new ConnectionPool(limits)
    const underWay = new Members<PendingRequest>()
    this.#parts = {
      clock,
      pool,
      bound: new BoundConnections(pool),
      relief: new Relief({ clock, pool, underWay }),
      dialler: this.dialler,
      deadlines,
      headLimit: limits.head,
      lastHead: new LastBlock(),
      underWay,
      counts: { opened: 0, reused: 0, retried: 0 },
      names: new OriginNames(),
    }
  }

  /** Sends a request and settles with the head of its response; throws an OriginFailure that says which phase failed. */
  request(asked: OriginRequest): Promise<OriginResponse> {
    return new Promise((resolve, reject) => {
      this.#begin(asked, false, (failure, response) => {
        if (response !== undefined && 'status' in response) resolve(response)
        else reject(failure)
      })
    })
  }

  /**
   * Asks the origin to change to WebSocket, on a connection of its own that no limit of the pool counts. Settles with the
   * connection, or with the response that refuses. Connection and Upgrade are written here.
   */
  upgrade(asked: OriginRequest): Promise<OriginResponse | OriginSwitched> {
    return new Promise((resolve, reject) => {
      this.#begin(asked, true, (failure, response) => {
        if (response !== undefined) resolve(response)
        else reject(failure)
      })
    })
  }

  counts(): OriginCounts {
    return { ...this.#parts.pool.counts(), ...this.#parts.counts }
  }

  /** Breaks off everything under way and settles when every connection is closed. */
  async close(): Promise<void> {
    this.#closed = true
    for (const pending of [...this.#parts.underWay]) pending.cancel()
    await this.#parts.pool.close()
  }

  #begin(asked: OriginRequest, upgrade: boolean, told: ResponseListener): void {
    if (!this.#closed) return new PendingRequest(this.#parts, asked, upgrade, told).begin()
    const origin = formatAuthority(asked.uri)
    told(new OriginFailure('ORIGIN_ABORTED', origin, { phase: 'queue' }), undefined)
  }
}
