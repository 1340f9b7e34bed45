/**
 * What the store needs of a log; pino's loggers fit.
 */
import type { Facts } from '../../errors.ts'

export interface StoreLog {
  info(facts: Facts, text: string): void
  warn(facts: Facts, text: string): void
}
