/**
 * How long each phase of asking an origin may take.
 */
import type { Milliseconds } from '../clock.ts'
import type { DialDeadlines } from './dial.ts'
import type { ExchangeDeadlines } from './exchange.ts'

export interface OriginDeadlines extends DialDeadlines, ExchangeDeadlines {
  /** For a connection to become free when the origin has as many as it may. */
  readonly queue: Milliseconds
}

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
