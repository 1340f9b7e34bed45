/**
 * Breaks off a content that comes too slowly. A store that sends a byte now and then misses no deadline, but an origin would have sent the
 * file much earlier.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Source } from '../../../bytes/source.ts'
import { OriginFailure } from '../../../http/client/errors.ts'

/** At least `leastBytes` must come in each `window` of time in which the reader waits. */
const window: Milliseconds = 10_000
const leastBytes = 64 * 1024

/** Wraps a source so that it fails when fewer bytes come. The time that the reader takes does not count. `origin` names the sender in the failure. */
export function pacedSource(source: Source, clock: Clock, origin: string): Source {
  let waited: Milliseconds = 0
  let came = 0
  let received = 0
  return {
    next(take) {
      const asked = clock.elapsed()
      source.next((error, piece) => {
        if (piece === undefined) return take(error, undefined)
        waited += clock.elapsed() - asked
        came += piece.bytes.length
        received += piece.bytes.length
        if (waited < window) return take(undefined, piece)
        const isSlow = came < leastBytes
        waited = 0
        came = 0
        if (!isSlow) return take(undefined, piece)
        piece.release()
        source.close()
        const cause = new Error(`less than ${leastBytes} bytes came in ${window} ms`)
        const trouble = { after: window, received, cause }
        take(new OriginFailure('ORIGIN_CONTENT_TIMEOUT', origin, trouble), undefined)
      })
    },
    close: () => source.close(),
  }
}
