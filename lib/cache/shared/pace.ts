/**
 * Breaks off content that comes too slowly to be worth waiting for: a store that sends a byte now and then passes each deadline, and an origin
 * would have given the file long ago.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Source } from '../../bytes/source.ts'
import { OriginFailure } from '../../http/client/errors.ts'

/** In so much time in which its reader waits, so many bytes have to come. */
const window: Milliseconds = 10_000
const leastBytes = 64 * 1024

/** The source, which breaks off when less comes. The time that its reader takes does not count. `origin`: who sends it, for the failure. */
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
