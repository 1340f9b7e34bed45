/**
 * The client connections of one server: who is on the other end of each, how much is under way on it, and how to end them.
 */
import type { Socket } from 'node:net'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Peer } from '../message/message.ts'
import type { Authority } from '../message/target.ts'

/** What is known of one client connection for as long as it lasts. */
export interface Connection {
  readonly client: Peer
  readonly local: Peer
  readonly secure: boolean
  /** Where the client wanted a tunnel to, when this connection lies in one that was opened. */
  readonly tunnelEnd?: Authority
  /** Requests that came so far. */
  requests: number
  /** The exchanges under way, in the order they came; each is told when the connection has gone. */
  readonly underWay: Set<UnderWay>
  /** What is to happen once nothing is under way any more: the refusal of a head that came behind good requests. */
  afterLast?: () => void
  /** Whether a CONNECT handler has it: what moves on it is the tunnel's affair. */
  takenOver: boolean
  /** Bytes of ours the client has taken, when we last looked, and since when they have been no more while others waited. */
  taken: number
  takenSince: Milliseconds
}

/** An exchange that wants to know that its connection has gone. */
export interface UnderWay {
  gone(): void
}

/** Keeps the table of open connections. */
export class Connections {
  readonly #open = new Map<Socket, Connection>()

  /** Enters a new connection; it leaves by itself when it closes, and what was under way on it is told. */
  add(socket: Socket, secure: boolean): Connection {
    return this.#enter(socket, {
      client: { address: plainAddress(socket.remoteAddress), port: socket.remotePort ?? 0 },
      local: { address: plainAddress(socket.localAddress), port: socket.localPort ?? 0 },
      secure,
      ...untouched(),
    })
  }

  /** Enters a TLS connection that lies in another one; `end` is where the CONNECT on that one wanted to go. */
  addWithin(below: Connection, socket: Socket, end: Authority): Connection {
    const { client, local } = below
    return this.#enter(socket, { client, local, secure: true, tunnelEnd: end, ...untouched() })
  }

  #enter(socket: Socket, connection: Connection): Connection {
    this.#open.set(socket, connection)
    socket.once('close', () => {
      this.#open.delete(socket)
      for (const exchange of connection.underWay) exchange.gone()
      connection.underWay.clear()
    })
    return connection
  }

  of(socket: Socket): Connection | undefined {
    return this.#open.get(socket)
  }

  /** Clients' connections; one within another is not another one. */
  get count(): number {
    let count = 0
    for (const { tunnelEnd } of this.#open.values()) if (tunnelEnd === undefined) count += 1
    return count
  }

  /** Ends the connections on which nothing is under way, those included that never sent a request. */
  endIdle(): void {
    for (const [socket, { underWay }] of this.#open) if (underWay.size === 0) socket.destroySoon()
  }

  /**
   * Cuts the connections whose clients have taken nothing of what waits for them in the last `patience` milliseconds. What
   * they send meanwhile does not count. Call it several times as often: it compares with the call before.
   */
  cutStalled(now: Milliseconds, patience: Milliseconds): void {
    for (const [socket, connection] of this.#open) {
      const taken = socket.bytesWritten - socket.writableLength
      if (socket.writableLength === 0 || taken !== connection.taken || connection.takenOver) {
        connection.taken = taken
        connection.takenSince = now
      } else if (now - connection.takenSince >= patience) socket.destroy()
    }
  }

  /**
   * Cuts stalled clients from now on, with one timer for all; the answer ends it. Node's own timeout starts anew with every
   * byte a client sends, so one that never reads and sends an empty line now and then would stay for ever.
   */
  watchStalled(clock: Clock, patience: Milliseconds): () => void {
    let cancel = (): void => undefined
    const look = (): void => {
      this.cutStalled(clock.now(), patience)
      cancel = clock.after(Math.min(5000, patience / 4), look)
    }
    look()
    return () => cancel()
  }

  /** Cuts every connection, whatever is under way. */
  destroyAll(): void {
    for (const socket of this.#open.keys()) socket.destroy()
  }
}

/** Whether this exchange is the last that came on its connection. */
export function isNewest(exchange: UnderWay, { underWay }: Connection): boolean {
  let newest: unknown
  for (const one of underWay) newest = one
  return newest === exchange
}

/** What a connection begins with. */
function untouched(): Pick<
  Connection,
  'requests' | 'underWay' | 'takenOver' | 'taken' | 'takenSince'
> {
  return { requests: 0, underWay: new Set(), takenOver: false, taken: 0, takenSince: 0 }
}

/** An address as `Peer` wants it: IPv4-mapped IPv6 as IPv4, without a zone. */
function plainAddress(address: string | undefined): string {
  if (address === undefined) return ''
  const zone = address.indexOf('%')
  const bare = zone === -1 ? address : address.slice(0, zone)
  return bare.startsWith('::ffff:') && bare.includes('.') ? bare.slice(7) : bare
}
