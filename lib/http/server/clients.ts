/**
 * The limits of each client of a service: how many connections it may have at a time, and how many bytes a second on all of them. A client
 * is an IPv4 address or the /64 of an IPv6 address. Nothing is kept of clients without a limit.
 *
 * # Facts
 * - apt has a connection for each archive, keeps it when nothing is under way, and opens it again when it was closed meanwhile. So a client
 *   that has used up its connections loses an idle one, and not the new one.
 * - After 429 with a text apt tries again after 1, 2 and 4 seconds, as after 503, and shows the reason phrase. When a connection closes
 *   without an answer apt opens it twice for each try, stops its pipelines, and shows no reason. So a request on a connection beyond the
 *   limit waits for a moment and then gets an answer (docs/decisions/0050).
 * - A connection beyond the limit may send no request at all. So these connections have a limit as well; further ones are closed.
 */
import type { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { burst, Pace } from '../../bytes/pace.ts'
import { networkOf, normaliseAddress } from '../../ip.ts'
import { recentEntries } from '../../recent.ts'
import type { ClientPlace } from '../message/message.ts'

export interface ClientLimits {
  /** The number of connections at a time; undefined is no limit. */
  readonly connections?: number | undefined
  /** Bytes a second; undefined is no limit. */
  readonly rate?: number | undefined
}

interface ClientsOptions {
  readonly clock: Clock
  /** The limits of an address at this moment; undefined when it has none. */
  readonly limitsOf: (address: string) => ClientLimits | undefined
  /** Called for each connection that was answered or closed because it was one too many. */
  readonly onTooMany: (address: string) => void
}

/**
 * How long a request on a connection beyond the limit waits, and how often it looks for a free place. Together with the time of an origin
 * it is below the 30 seconds that apt waits.
 */
const patience: Milliseconds = 5000
const interval: Milliseconds = 250
/** Connections beyond the limit that may wait for an answer: as many as the limit, and at least this number. */
const leastBeyond = 16
/** How many clients are remembered that disconnected before their pace allowed again what they had received. */
const mostOwing = 4096

export class Clients {
  readonly #options: ClientsOptions
  readonly #present = new Map<string, Client>()
  /** By network, the time until which a client that disconnected has used up its rate. Otherwise a new connection would evade the rate. */
  #owing: LRUCache<string, Milliseconds> | undefined

  constructor(options: ClientsOptions) {
    this.#options = options
  }

  /** The number of clients with limits that are connected. */
  get size(): number {
    return this.#present.size
  }

  /** The number of clients for which something waits for the rate. */
  get waiting(): number {
    let count = 0
    for (const { pace } of this.#present.values()) if (pace.waits) count += 1
    return count
  }

  /** A place for a connection of a client; undefined for a client without limits. With 'none' the caller closes the connection at once. */
  enter(address: string): ConnectionPlace | 'none' | undefined {
    const { limitsOf, onTooMany } = this.#options
    const { connections, rate } = limitsOf(address) ?? {}
    if (connections === undefined && rate === undefined) return undefined
    const name = networkOf(normaliseAddress(address) ?? address)
    let client = this.#present.get(name)
    if (client === undefined) {
      const paid = this.#owing?.get(name)
      client = new Client(this.#options, address, { paid, onGone: pace => this.#gone(name, pace) })
      this.#present.set(name, client)
    }
    const place = client.enter()
    if (place !== undefined) return place
    onTooMany(address)
    return 'none'
  }

  #gone(name: string, pace: Pace): void {
    this.#present.delete(name)
    if (pace.paid <= this.#options.clock.elapsed() - burst) return
    this.#owing ??= recentEntries(mostOwing)
    this.#owing.set(name, pace.paid)
  }
}

/** One client: its connections within the limit, and the number of those beyond it. */
class Client {
  readonly pace: Pace
  readonly #options: ClientsOptions
  readonly #address: string
  readonly #onGone: (pace: Pace) => void
  readonly #counted = new Set<ConnectionPlace>()
  /** The places whose requests wait to be within the limit, in their order. */
  readonly #waiting = new Set<Waiting>()
  #beyond = 0

  /** `paid` is that of its pace when it was connected last. */
  constructor(
    options: ClientsOptions,
    address: string,
    { paid, onGone }: { readonly paid: Milliseconds | undefined; onGone: (pace: Pace) => void },
  ) {
    this.#options = options
    this.#address = address
    this.#onGone = onGone
    this.pace = new Pace({ clock: options.clock, rate: () => this.limits.rate, paid })
  }

  get limits(): ClientLimits {
    return this.#options.limitsOf(this.#address) ?? {}
  }

  enter(): ConnectionPlace | undefined {
    const place = new ConnectionPlace(this)
    const most = this.#most
    if (this.#counted.size < most) this.#counted.add(place)
    else if (this.#beyond < Math.max(most, leastBeyond)) this.#beyond += 1
    else return undefined
    return place
  }

  /** Whether the place is within the limit. An idle connection may be ended for it. */
  counts(place: ConnectionPlace): boolean {
    if (this.#counted.has(place)) return true
    if (this.#counted.size >= this.#most && !this.#endIdle()) return false
    this.#beyond -= 1
    this.#counted.add(place)
    return true
  }

  /** Whether the place gets within the limit before `patience` has passed. */
  await(place: ConnectionPlace): Promise<boolean> {
    const { clock } = this.#options
    return new Promise(settle => {
      if (this.#waiting.size === 0) clock.after(interval, () => this.#look())
      this.#waiting.add({ place, until: clock.elapsed() + patience, settle })
    })
  }

  /** Admits waiting places. When the first gets no place, those behind it get none either: the search for an idle connection takes time. */
  #look(): void {
    const { clock, onTooMany } = this.#options
    let full = false
    for (const one of this.#waiting) {
      const { place, until, settle } = one
      const admitted: boolean = !place.left && !full && this.counts(place)
      const refused: boolean = !place.left && !admitted
      full ||= refused
      if (refused && clock.elapsed() < until) continue
      this.#waiting.delete(one)
      if (refused) {
        place.refused = true
        onTooMany(this.#address)
      }
      settle(admitted)
    }
    if (this.#waiting.size > 0) clock.after(interval, () => this.#look())
  }

  leave(place: ConnectionPlace): void {
    if (!this.#counted.delete(place)) this.#beyond -= 1
    if (this.#counted.size === 0 && this.#beyond === 0) this.#onGone(this.pace)
  }

  get #most(): number {
    return this.limits.connections ?? Number.POSITIVE_INFINITY
  }

  /** Ends the oldest idle connection. Until its client has closed it, it counts as one beyond the limit. */
  #endIdle(): boolean {
    for (const place of this.#counted) {
      if (!place.endIfIdle()) continue
      this.#counted.delete(place)
      this.#beyond += 1
      return true
    }
    return false
  }
}

interface Waiting {
  readonly place: ConnectionPlace
  readonly until: Milliseconds
  readonly settle: (admitted: boolean) => void
}

/** The place of one connection among those of its client. */
export class ConnectionPlace implements ClientPlace {
  readonly #client: Client
  /** Ends its connection if no request is under way on it and no head is awaited. Answers whether that was so. */
  endIfIdle: () => boolean = () => false
  /** The answer to the requests that wait on this connection. */
  #waiting: Promise<boolean> | undefined
  /** Whether a request was refused because of this place. The connection ends with that answer. */
  refused = false
  /** Whether the connection has closed. */
  left = false

  constructor(client: Client) {
    this.#client = client
  }

  get pace(): Pace | undefined {
    const { limits, pace } = this.#client
    return limits.rate === undefined ? undefined : pace
  }

  admits(): boolean | Promise<boolean> {
    if (this.left) return false
    if (this.#client.counts(this)) return true
    this.#waiting ??= this.#client.await(this)
    return this.#waiting
  }

  /** To be called when the connection has closed. */
  leave(): void {
    if (this.left) return
    this.left = true
    this.#client.leave(this)
  }
}
