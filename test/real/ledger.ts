/**
 * What each step took and what the proxy's statistics say it cost.
 */
import { fetchThrough } from '../fixtures/lab.ts'

interface Totals {
  readonly requests: number
  readonly hits: number
  readonly misses: number
  readonly tunnel: number
  readonly traffic_down: number
  readonly traffic_up: number
}

interface Entry extends Totals {
  readonly phase: string
  readonly step: string
  readonly code: number | null
  readonly seconds: number
}

const nothing: Totals = {
  requests: 0,
  hits: 0,
  misses: 0,
  tunnel: 0,
  traffic_down: 0,
  traffic_up: 0,
}

export class Ledger {
  readonly #port: number
  readonly #entries: Entry[] = []

  constructor(port: number) {
    this.#port = port
  }

  /** Runs a step and notes its time, its exit status, and the statistics' difference. */
  async take<T extends { code: number | null; seconds: number }>(
    phase: string,
    step: string,
    action: () => Promise<T>,
  ): Promise<T> {
    const before = await this.#totals()
    const result = await action()
    const after = await this.#totals()
    const difference = (name: keyof Totals) => after[name] - before[name]
    this.#entries.push({
      phase,
      step,
      code: result.code,
      seconds: result.seconds,
      requests: difference('requests'),
      hits: difference('hits'),
      misses: difference('misses'),
      tunnel: difference('tunnel'),
      traffic_down: difference('traffic_down'),
      traffic_up: difference('traffic_up'),
    })
    return result
  }

  /** The last step's entry. */
  get last(): Entry {
    const entry = this.#entries.at(-1)
    if (entry === undefined) throw new Error('nothing was taken yet')
    return entry
  }

  /** A line a step, columns aligned. */
  table(): string[] {
    const head = [
      'phase',
      'step',
      'exit',
      'seconds',
      'requests',
      'hits',
      'misses',
      'tunnels',
      'MB from archive',
      'MB to apt',
    ]
    const rows = this.#entries.map(entry => [
      entry.phase,
      entry.step,
      String(entry.code),
      entry.seconds.toFixed(1),
      ...[entry.requests, entry.hits, entry.misses, entry.tunnel].map(String),
      (entry.traffic_down / 1e6).toFixed(1),
      (entry.traffic_up / 1e6).toFixed(1),
    ])
    const widths = head.map((title, i) =>
      Math.max(title.length, ...rows.map(row => row[i]?.length ?? 0)),
    )
    return [head, ...rows].map(row => row.map((text, i) => text.padEnd(widths[i] ?? 0)).join('  '))
  }

  async #totals(): Promise<Totals> {
    const answer = await fetchThrough(this.#port, '/_cachesvc/api/stats', { Host: 'localhost' })
    if (answer.status !== 200) return nothing
    const statistics = JSON.parse(answer.content.toString()) as { totals: Totals }
    return statistics.totals
  }
}
