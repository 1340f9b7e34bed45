/**
 * The client connections of one server: who is on the other end of each, how much is under way on it, and how to end them.
 */
import type { Socket } from 'node:net'
import type { Peer } from './message.ts'
import type { Authority } from './target.ts'

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
      requests: 0,
      underWay: new Set(),
    })
  }

  /** Enters a TLS connection that lies in another one; `end` is where the CONNECT on that one wanted to go. */
  addWithin(below: Connection, socket: Socket, end: Authority): Connection {
    const { client, local } = below
    const facts = { client, local, secure: true, tunnelEnd: end, requests: 0 }
    return this.#enter(socket, { ...facts, underWay: new Set() })
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

  /** Cuts every connection, whatever is under way. */
  destroyAll(): void {
    for (const socket of this.#open.keys()) socket.destroy()
  }
}

/** An address as `Peer` wants it: IPv4-mapped IPv6 as IPv4, without a zone. */
function plainAddress(address: string | undefined): string {
  if (address === undefined) return ''
  const zone = address.indexOf('%')
  const bare = zone === -1 ? address : address.slice(0, zone)
  return bare.startsWith('::ffff:') && bare.includes('.') ? bare.slice(7) : bare
}
