/**
 * The moment when a server that is to stop refuses new clients: after the requests under way have ended. A slow client then keeps no other
 * client out, and the next process can listen soon after this one stops listening.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'

/** A request under way. `begun` is a time of the monotonic clock. */
export interface UnderWay {
  readonly begun: Milliseconds
}

/** The longest time between the end of listening and the moment at which the rest is cut. */
const longestRest: Milliseconds = 5000
/** A request younger than this will probably end soon, as most requests do. */
const young: Milliseconds = 1000
const betweenLooks: Milliseconds = 50

/** Divides the time for stopping: during `serving` new clients are served as well, during `rest` they are not. */
export function stopTimes(drain: Milliseconds): {
  readonly serving: Milliseconds
  readonly rest: Milliseconds
} {
  const rest = Math.min(longestRest, drain / 2)
  return { serving: drain - rest, rest }
}

/**
 * Resolves when the requests under way at the call have ended and all later ones are young, or when `deadline` fires. It resolves at once
 * when no request is under way.
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
