/**
 * The fast path of a server: reads and answers requests that are beyond doubt itself; everything else goes to Node's server.
 * The rules, the limits, the handler and the report are the same; what is saved is what Node does for every message whether it
 * is needed or not (docs/decisions/0025).
 */
import type { Socket } from 'node:net'
import { formatDate } from '../message/date.ts'
import type { Connection } from '../server/connections.ts'
import type { Exchanges } from '../server/exchanges.ts'
import type { HttpServerOptions } from '../server/options.ts'
import type { TargetReader } from '../wire/target-reader.ts'
import { type Exits, FastConnection, type FastShared } from './fast-connection.ts'

export class FastPath implements FastShared {
  readonly options: HttpServerOptions
  readonly exchanges: Exchanges
  readonly targets: TargetReader
  readonly keepAlive: string
  #date = { second: Number.NaN, line: '' }

  constructor(parts: {
    readonly options: HttpServerOptions
    readonly exchanges: Exchanges
    readonly targets: TargetReader
  }) {
    this.options = parts.options
    this.exchanges = parts.exchanges
    this.targets = parts.targets
    const { idle } = parts.options.limits
    this.keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / 1000)}\r\n`
  }

  /** Takes a new connection. */
  add(socket: Socket, connection: Connection, exits: Exits): void {
    connection.fast = new FastConnection(socket, connection, this, exits)
  }

  /** Made once a second. */
  get dateLine(): string {
    const now = this.options.clock.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#date.second) this.#date = { second, line: `Date: ${formatDate(now)}\r\n` }
    return this.#date.line
  }
}
