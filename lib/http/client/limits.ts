/**
 * How long an origin is waited for, and how much of it is taken.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { DialDeadlines } from './dialler.ts'
import type { ExchangeDeadlines } from './exchange.ts'
import type { PoolLimits } from './pool.ts'

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

export interface OriginLimits extends PoolLimits {
  /** Bytes of a response's head. */
  readonly head: number
}

export const defaultOriginLimits: OriginLimits = {
  perOrigin: 16,
  all: 4096,
  freePerOrigin: 8,
  free: 64,
  waiting: 1000,
  idle: 4000,
  head: 65_536,
}
