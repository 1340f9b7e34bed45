/**
 * When a server that is to stop refuses new clients: not before what was under way has ended. A slow client then keeps no other
 * client out, and the next process can listen soon after the moment at which this one stops listening.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'

/** What is under way. `begun` is by the monotonic clock. */
export interface UnderWay {
  readonly begun: Milliseconds
}

/** The longest time between the end of listening and the moment at which the rest is cut. */
const longestRest: Milliseconds = 5000
/** Requests of this age end soon, as most do. */
const young: Milliseconds = 1000
const betweenLooks: Milliseconds = 50

/** Divides the time for stopping: `serving` new clients as well, then the `rest` without them. */
export function stopTimes(drain: Milliseconds): {
  readonly serving: Milliseconds
  readonly rest: Milliseconds
} {
  const rest = Math.min(longestRest, drain / 2)
  return { serving: drain - rest, rest }
}

/**
 * Resolves when nothing is under way that was when it was called, and all that has begun since is young; when `deadline` fires at the
 * latest. At once when nothing is under way.
 */
export async function untilLull(
  underWay: () => Iterable<UnderWay>,
  { clock, deadline }: { readonly clock: Clock; readonly deadline: AbortSignal },
): Promise<void> {
  const asked = clock.elapsed()
  const waitsFor = ({ begun }: UnderWay) => begun <= asked || clock.elapsed() - begun >= young
  while (!deadline.aborted && [...underWay()].some(waitsFor)) {
    await pause(clock, betweenLooks, deadline)
  }
}
