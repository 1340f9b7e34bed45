/**
 * The way to origins: sends a request over a kept or a new connection and hands the response over as a value whose content
 * is a stream. Owns the connections. Knows neither caching nor redirects: a response is handed on as it came.
 *
 * A request that a kept connection swallowed without a byte in answer is sent once more, on a new one, when its method is
 * idempotent and it has no content: the origin has closed the connection just then (RFC 9112 section 9.3.1).
 */
import type { Clock } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import type { Fields } from '../message/field.ts'
import { noContent } from '../message/message.ts'
import { formatAuthority } from '../message/target.ts'
import { Dialler, type DialOptions } from './dialler.ts'
import {
  OriginAborted,
  OriginBusy,
  OriginFieldsFailure,
  OriginSendFailure,
  ParentProxyFailure,
} from './errors.ts'
import { type ExchangeContext, exchange, type Switched, type WireResponse } from './exchange.ts'
import {
  defaultOriginDeadlines,
  defaultOriginLimits,
  type OriginDeadlines,
  type OriginLimits,
} from './limits.ts'
import { Connection, ConnectionPool, type PoolCounts } from './pool.ts'
import { type OriginRequest, onWire } from './request.ts'

export {
  defaultOriginDeadlines,
  defaultOriginLimits,
  type OriginDeadlines,
  type OriginLimits,
} from './limits.ts'

export interface OriginOptions extends Omit<DialOptions, 'deadlines'> {
  readonly clock: Clock
  readonly deadlines?: Partial<OriginDeadlines>
  readonly limits?: Partial<OriginLimits>
}

export type { OriginRequest } from './request.ts'

/** A connection whose protocol the origin has changed (101). */
export interface OriginSwitched extends Switched {
  readonly address: string
}

export interface OriginResponse {
  readonly status: number
  readonly reason: string
  readonly version: '1.0' | '1.1'
  /** As they came, those of the connection included. */
  readonly fields: Fields
  /** Bytes of content to come, 0 for HEAD, 204 and 304; undefined when only the end will tell. */
  readonly length: number | undefined
  /**
   * Read it to the end, or end the iteration early, or fire the signal: until then the connection is taken. Throws an
   * OriginFailure when it breaks off.
   */
  readonly content: AsyncIterableIterator<Buffer>
  /** Trailer fields, once the content has been read to its end. */
  readonly trailers?: () => Fields
  /** IP address of the origin, or of the parent proxy. */
  readonly address: string
  /** Whether it came over a connection that an earlier request had used. */
  readonly reused: boolean
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
  readonly #clock: Clock
  readonly #deadlines: OriginDeadlines
  readonly #headLimit: number
  readonly #pool: ConnectionPool
  readonly #closing = new AbortController()
  #opened = 0
  #reused = 0
  #retried = 0

  constructor(options: OriginOptions) {
    const limits = { ...defaultOriginLimits, ...options.limits }
    this.#clock = options.clock
    this.#deadlines = { ...defaultOriginDeadlines, ...options.deadlines }
    this.#headLimit = limits.head
    this.#pool = new ConnectionPool(options.clock, limits)
    this.dialler = new Dialler({ ...options, deadlines: this.#deadlines })
  }

  /** Sends a request and settles with the head of its response; throws an OriginFailure that says which phase failed. */
  async request(asked: OriginRequest): Promise<OriginResponse> {
    const connection = await this.#lease(asked, false)
    const heard = connection.socket.bytesRead
    try {
      return await this.#exchange(connection, asked)
    } catch (error) {
      const silent = connection.socket.bytesRead === heard
      if (!(connection.reused && silent && isRepeatable(asked) && isBrokenOff(error))) throw error
      this.#retried += 1
      return this.#exchange(await this.#lease(asked, true), asked)
    }
  }

  /**
   * Asks the origin to change to WebSocket, on a connection of its own that no limit of the pool counts. Settles with the
   * connection, or with the response that refuses. Connection and Upgrade are written here.
   */
  async upgrade(asked: OriginRequest): Promise<OriginResponse | OriginSwitched> {
    const given = this.#givenUp(asked.signal)
    const dialled = await this.#open(asked, given.signal).finally(() => given.done())
    const connection = new Connection('', dialled)
    const { address, socket } = connection
    socket.once('free', () => socket.destroy())
    return new Promise((resolve, reject) => {
      const onSwitch = (switched: Switched) => resolve({ ...switched, address })
      const message = { ...onWire(asked, this.dialler.parent, 'websocket'), onSwitch }
      exchange(connection, message, this.#context(asked)).then(
        response => resolve({ ...response, address, reused: false }),
        reject,
      )
    })
  }

  counts(): OriginCounts {
    const counted = { opened: this.#opened, reused: this.#reused, retried: this.#retried }
    return { ...this.#pool.counts(), ...counted }
  }

  /** Breaks off everything under way and settles when every connection is closed. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#pool.close()
  }

  async #lease(asked: OriginRequest, fresh: boolean): Promise<Connection> {
    const { uri, trusted, line = 'shared' } = asked
    const origin = formatAuthority(uri)
    const given = this.#givenUp(asked.signal)
    const { signal } = given
    const after = { ...this.#deadlines, ...asked.deadlines }.queue
    const limit = {
      clock: this.#clock,
      after,
      signal,
      late: () => new OriginBusy(origin, { after }),
      aborted: () => new OriginAborted(origin, { phase: 'queue', cause: signal.reason }),
    }
    try {
      if (signal.aborted) throw limit.aborted()
      const connection = await this.#pool.lease({
        // Who may be anywhere and who may not never share a connection.
        key: `${uri.scheme}://${origin} ${trusted ? 'trusted' : 'public'} ${line}`,
        fresh,
        open: () => this.#open(asked, signal),
        wait: turn => within(limit, turn),
        full: () => new OriginBusy(origin, {}),
      })
      if (connection.reused) this.#reused += 1
      return connection
    } finally {
      given.done()
    }
  }

  async #open({ uri, trusted, deadlines }: OriginRequest, signal: AbortSignal) {
    const use = uri.scheme
    const dialled = await this.dialler.dial({ authority: uri, use, trusted, signal, deadlines })
    this.#opened += 1
    return dialled
  }

  async #exchange(connection: Connection, asked: OriginRequest): Promise<OriginResponse> {
    const { uri } = asked
    const { address, reused, socket } = connection
    const origin = formatAuthority(uri)
    socket.once('free', () => this.#pool.release(connection))
    const context = this.#context(asked)
    const response: WireResponse = await exchange(
      connection,
      onWire(asked, this.dialler.parent),
      context,
    )
    const { parent } = this.dialler
    if (response.status === 407 && parent !== undefined && uri.scheme === 'http') {
      await response.content.return()
      throw new ParentProxyFailure(origin, {
        parent: formatAuthority(parent),
        status: 407,
        address,
      })
    }
    return { ...response, address, reused }
  }

  #context({ uri, signal, deadlines }: OriginRequest): ExchangeContext {
    return {
      clock: this.#clock,
      deadlines: { ...this.#deadlines, ...deadlines },
      signal,
      origin: formatAuthority(uri),
      headLimit: this.#headLimit,
    }
  }

  /** A signal that fires with the request's own and when the client is closed. */
  #givenUp(asked: AbortSignal): { readonly signal: AbortSignal; readonly done: () => void } {
    const control = new AbortController()
    const sources = [asked, this.#closing.signal]
    const onAbort = () => control.abort(asked.reason)
    for (const source of sources) {
      if (source.aborted) onAbort()
      source.addEventListener('abort', onAbort)
    }
    const done = () => {
      for (const source of sources) source.removeEventListener('abort', onAbort)
    }
    return { signal: control.signal, done }
  }
}

/** Idempotent methods (RFC 9110 section 9.2.2). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']

function isRepeatable({ method, content = noContent }: OriginRequest): boolean {
  return content.kind === 'none' && IDEMPOTENT.includes(method)
}

/** Whether the connection broke, rather than fell silent. */
function isBrokenOff(error: unknown): boolean {
  const broke = error instanceof OriginFieldsFailure || error instanceof OriginSendFailure
  return broke && !error.timedOut
}
