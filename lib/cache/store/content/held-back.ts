/**
 * A source whose end waits for a check: a client does not get the last bytes of content that is found wrong.
 *
 * The client waits ten seconds at most, for a file that is right is better than none. After that its last bytes go and the check
 * goes on: when it finds the content wrong, the content is removed, and later clients get it from the origin.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import { heldBytes } from './expectation.ts'

const longest: Milliseconds = 10_000

interface Guarded {
  /** Bytes of the source, up to the end of the content. */
  readonly length: number
  readonly right: Promise<boolean>
  readonly clock: Clock
  readonly left: () => void
}

/** The source, which fails as soon as the check has, at the latest before its end unless the check takes too long. */
export function heldBack(source: Source, { length, right, clock, left }: Guarded): Source {
  let outcome: 'open' | 'free' | 'wrong' = 'open'
  let closed = false
  /** Bytes that may leave before the check is over. */
  let free = Math.max(0, length - heldBytes)
  let kept: Piece | undefined
  let waiting: Take | undefined
  let cancel: (() => void) | undefined
  const settle = (found: 'free' | 'wrong'): void => {
    outcome = found
    cancel?.()
    const take = waiting
    waiting = undefined
    if (take !== undefined) next(take)
  }
  void right.then(found => settle(found ? 'free' : 'wrong'))
  const arrived = (piece: Piece, take: Take): void => {
    const { bytes } = piece
    if (outcome === 'free' || bytes.length <= free) {
      free -= bytes.length
      return take(undefined, piece)
    }
    kept = piece.slice(free)
    const before = piece.slice(0, free)
    piece.release()
    if (free === 0) {
      before.release()
      return next(take)
    }
    free = 0
    take(undefined, before)
  }
  const next = (take: Take): void => {
    if (closed) return
    if (outcome === 'wrong') return take(damaged(), undefined)
    if (outcome === 'open' && free === 0) {
      waiting = take
      cancel ??= clock.after(longest, () => settle('free'))
      return
    }
    if (kept !== undefined) {
      const piece = kept
      kept = undefined
      return take(undefined, piece)
    }
    source.next((error, piece) => {
      if (piece === undefined) take(error, undefined)
      else arrived(piece, take)
    })
  }
  return {
    next,
    close() {
      if (closed) return
      closed = true
      cancel?.()
      waiting = undefined
      kept?.release()
      kept = undefined
      source.close()
      left()
    },
  }
}

function damaged(): Failure {
  return new Failure('The stored content is damaged; it was removed and will be fetched again.', {
    code: 'damaged-content',
    fault: 'internal',
    publicText: 'The stored file is damaged.',
  })
}
