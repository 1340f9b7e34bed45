/**
 * The options of the client for origins, and their defaults.
 */
import type { Clock } from '../../async/clock.ts'
import type { Authority } from '../message/target.ts'
import type { LoweredLimit } from './connection-limits.ts'
import type { DialOptions } from './dialling/dialler.ts'
import type { PoolLimits } from './pool.ts'
import type { OriginDeadlines } from './request.ts'

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
  /** The most bytes of a response's head. */
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

export interface OriginOptions extends Omit<DialOptions, 'deadlines'> {
  readonly clock: Clock
  readonly deadlines?: Partial<OriginDeadlines>
  readonly limits?: Partial<OriginLimits>
  /** The most connections to an origin that has a limit of its own, instead of `limits.perOrigin`. */
  readonly connectionsTo?: (authority: Authority) => number | undefined
  /**
   * Called when an origin refused requests while it had several connections, and gets fewer from now on. Undefined: the number is never
   * lowered, and no refused request is sent again.
   */
  readonly onFewerConnections?: (limit: LoweredLimit) => void
}
