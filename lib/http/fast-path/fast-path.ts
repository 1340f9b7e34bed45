/**
 * The lane of a server: the connections whose requests are read and answered by us, because they are beyond doubt, and not by
 * Node's server. Cheaper by what Node does for every message whether it is needed or not; the rules, the limits, the handler
 * and the report are the same (docs/decisions/0025).
 */
import type { Socket } from 'node:net'
import type { Milliseconds } from '../../async/clock.ts'
import { formatDate } from '../message/date.ts'
import type { Connection } from '../server/connections.ts'
import type { Exchanges } from '../server/exchanges.ts'
import { LiveRequest } from '../server/live-request.ts'
import { emptyContent } from '../server/request-content.ts'
import type { HttpServerOptions } from '../server/server-options.ts'
import { type LaneHead, LaneReader } from '../wire/request-head.ts'
import type { TargetReader } from '../wire/target-reader.ts'
import { LaneConnection } from './fast-connection.ts'
import type { LaneResponse } from './fast-response.ts'

/** What a connection does that leaves the lane. */
export interface WayOut {
  /** Node's server takes it from here. */
  readonly toNode: () => void
  /** Its client is told, by Node's word for it, what is wrong with the head that has begun. */
  readonly refuse: (code: string) => void
}

export interface LaneParts {
  readonly options: HttpServerOptions
  readonly exchanges: Exchanges
  readonly targets: TargetReader
}

export class Lane {
  readonly #parts: LaneParts
  readonly #open = new Set<LaneConnection>()
  readonly #keepAlive: string
  #watching = false
  #date = { second: Number.NaN, text: '' }

  constructor(parts: LaneParts) {
    this.#parts = parts
    const { idle } = parts.options.limits
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / 1000)}\r\n`
  }

  /** Takes a new connection. */
  add(socket: Socket, connection: Connection, out: WayOut): void {
    const { options, targets } = this.#parts
    const { underWay } = connection
    const leave = () => this.#open.delete(lane)
    const lane: LaneConnection = new LaneConnection(socket, {
      reader: new LaneReader(targets, options.limits),
      date: this.#dateNow,
      keepAlive: this.#keepAlive,
      now: () => options.clock.now(),
      request: (head, response) => {
        // Node's server reads on when it is told to stop, and so do we.
        if (underWay.size >= options.limits.pipelined) socket.destroy()
        else this.#answer(head, { socket, connection, lane, out: response })
      },
      isUnderWay: () => underWay.size > 0,
      toNode: () => {
        leave()
        socket.off('close', leave)
        out.toNode()
      },
      refuse: out.refuse,
    })
    this.#open.add(lane)
    socket.once('close', leave)
    if (!this.#watching) this.#watch()
  }

  /** Cuts who is too slow, with one timer for all, as long as there is somebody. */
  #watch(): void {
    const { clock, limits } = this.#parts.options
    const times = [limits.headTime, limits.idle, limits.stalled].filter(time => time > 0)
    const interval = Math.min(5000, ...times.map(time => time / 4))
    this.#watching = true
    clock.after(interval, () => {
      this.#watching = false
      const now = clock.now()
      for (const connection of this.#open) connection.look(now, limits)
      if (this.#open.size > 0) this.#watch()
    })
  }

  #answer(
    head: LaneHead,
    on: {
      readonly socket: Socket
      readonly connection: Connection
      readonly lane: LaneConnection
      readonly out: LaneResponse
    },
  ): void {
    const { options, exchanges } = this.#parts
    const { socket, connection, lane, out } = on
    const request = new LiveRequest(
      {
        id: options.requestId(),
        method: head.method,
        target: head.target,
        version: head.version,
        fields: head.fields,
        content: emptyContent,
        received: options.clock.now(),
      },
      connection,
    )
    connection.requests += 1
    connection.underWay.add(request)
    exchanges.answer(request, connection, { out }, () => {
      exchanges.settle(connection, socket)
      if (connection.underWay.size === 0) lane.settled()
    })
  }

  readonly #dateNow = (): string => {
    const now: Milliseconds = this.#parts.options.clock.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#date.second) this.#date = { second, text: formatDate(now) }
    return this.#date.text
  }
}
