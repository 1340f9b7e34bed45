/**
 * How long a client that has nothing to fall back to is kept waiting: apt itself gives up after 30 seconds without a byte, and
 * comes back after a 503 with a text.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'

/** From the request to the head of its answer, or to the 503. */
export const firstByteDeadline: Milliseconds = 20_000

/** The origin has not answered within it. */
export function slowOrigin(origin: string, fate = 'try again'): Failure {
  return new Failure(`${origin} has not answered in time`, {
    code: 'ORIGIN_SLOW',
    fault: 'upstream',
    publicText: `The origin has not answered in time; ${fate}.`,
  })
}
