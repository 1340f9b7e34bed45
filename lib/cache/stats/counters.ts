/**
 * Counts requests and traffic by calendar day. Knows the clock, not files, requests or responses.
 *
 * # Facts
 * - requests = hits + misses + tunnel, always. Failures, refusals and pages of the operations interface are not counted.
 * - A hit is a request answered with stored content: fresh, revalidated (a 304 from the origin) or stale.
 * - traffic_up is what clients really got, traffic_down what origins really sent, each byte once: of two clients that share
 *   one fetch the first is a miss with the bytes fetched, the second a hit or a miss with none.
 * - Bytes of tunnels, both ways together, are in tunnel_transfer and nowhere else: they pass the cache by, and counted twice
 *   they would pull the estimate of traffic saved towards zero.
 * - A day is a calendar day of the server's time zone (TZ). A transfer counts on the day on which it ends.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'

/** The names are those of the statistics interface; the byte counters are plain bytes. */
export const counterNames = [
  'requests',
  'hits',
  'misses',
  'tunnel',
  'traffic_down',
  'traffic_up',
  'tunnel_transfer',
] as const

export type Counters = Readonly<Record<(typeof counterNames)[number], number>>

/** Counters by date, `YYYY-MM-DD`, in no order. */
export type Days = ReadonlyMap<string, Counters>

export const noCounters: Counters = {
  requests: 0,
  hits: 0,
  misses: 0,
  tunnel: 0,
  traffic_down: 0,
  traffic_up: 0,
  tunnel_transfer: 0,
}

export class Statistics {
  readonly #clock: Clock
  readonly #days: Map<string, Counters>
  #changes = 0
  /** The day of the last count, kept because the date is asked for with every request. */
  #day = { date: '', from: 0, until: 0 }

  constructor(clock: Clock, recorded: Days = new Map()) {
    this.#clock = clock
    this.#days = new Map(recorded)
  }

  /** A request answered from the store, with the bytes of content its client got. */
  hit(up: number): void {
    this.#add({ requests: 1, hits: 1, traffic_up: up })
  }

  /** A request answered from the origin: bytes fetched for it and bytes its client got. */
  miss(bytes: { readonly down: number; readonly up: number }): void {
    this.#add({ requests: 1, misses: 1, traffic_down: bytes.down, traffic_up: bytes.up })
  }

  /** Bytes fetched from an origin that belong to no request: a background refresh, or the rest of a fetch whose client left. */
  fetched(down: number): void {
    this.#add({ traffic_down: down })
  }

  /** A tunnel was opened. */
  tunnel(): void {
    this.#add({ requests: 1, tunnel: 1 })
  }

  /** Bytes a tunnel carried since the last call, both ways together. */
  tunnelBytes(bytes: number): void {
    this.#add({ tunnel_transfer: bytes })
  }

  get days(): Days {
    return this.#days
  }

  /** Today's date, `YYYY-MM-DD`. */
  get today(): string {
    const now = this.#clock.now()
    // A clock that was set anew falls outside of the day.
    if (now < this.#day.from || now >= this.#day.until) {
      const until = new Date(now).setHours(24, 0, 0, 0)
      this.#day = { date: calendarDate(now), from: now, until }
    }
    return this.#day.date
  }

  /** Grows with every change, so that a writer sees whether it has written the latest. */
  get changes(): number {
    return this.#changes
  }

  #add(more: Partial<Counters>): void {
    const { today } = this
    this.#days.set(today, sum(this.#days.get(today) ?? noCounters, more))
    this.#changes += 1
  }
}

/** Both together. */
export function sum(a: Counters, b: Partial<Counters>): Counters {
  const total: Record<keyof Counters, number> = { ...a }
  for (const name of counterNames) total[name] += b[name] ?? 0
  return total
}

/** The calendar day of a moment in the server's time zone, `YYYY-MM-DD`. */
export function calendarDate(moment: Milliseconds): string {
  const date = new Date(moment)
  const year = String(date.getFullYear()).padStart(4, '0')
  const month = String(date.getMonth() + 1).padStart(2, '0')
  const day = String(date.getDate()).padStart(2, '0')
  return `${year}-${month}-${day}`
}
