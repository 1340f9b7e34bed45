/**
 * Remembers clients that rejected our certificate for a host: their next tunnels there are carried through unread, so that they
 * work. Forgotten after a while, because an administrator may have installed the certificate on them.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** A client that rejected a certificate, for a page. */
export interface Distrust {
  /** IP address. */
  readonly client: string
  readonly host: string
  readonly since: Milliseconds
}

/** A client may ask for any number of hosts; the least recently used is forgotten first. */
const mostRemembered = 10_000

export class DistrustMemory {
  readonly #clock: Clock
  readonly #length: () => Milliseconds
  readonly #known = new LRUCache<string, Distrust>({ max: mostRemembered })

  /** `length`: for how long one is remembered; 0 for not at all. */
  constructor(clock: Clock, length: () => Milliseconds) {
    this.#clock = clock
    this.#length = length
  }

  remember(client: string, host: string): void {
    if (this.#length() === 0) return
    this.#known.set(`${client} ${host}`, { client, host, since: this.#clock.now() })
  }

  /** The client has accepted our certificate after all. */
  forget(client: string, host: string): void {
    this.#known.delete(`${client} ${host}`)
  }

  has(client: string, host: string): boolean {
    const found = this.#known.get(`${client} ${host}`)
    return found !== undefined && this.#holds(found)
  }

  /** Those remembered now, the latest first. */
  list(): readonly Distrust[] {
    const held = [...this.#known.values()].filter(one => this.#holds(one))
    return held.sort((a, b) => b.since - a.since)
  }

  #holds({ since }: Distrust): boolean {
    return this.#clock.now() < since + this.#length()
  }
}
