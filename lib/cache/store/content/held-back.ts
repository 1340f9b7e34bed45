/**
 * A source whose end waits for a check: a client never gets the last bytes of content that is found wrong.
 */
import type { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import { heldBytes } from './expectation.ts'

export interface Guarded {
  /** Bytes of the source. */
  readonly length: number
  /** Whether it goes up to the end of the content; only then is its end held back. */
  readonly reaches: boolean
  /** Whether the content is right; never rejects. */
  readonly check: Promise<boolean>
}

/** The source, which fails as soon as the check has, at the latest before its end. */
export function heldBack(source: Source, { length, reaches, check }: Guarded): Source {
  let outcome: 'open' | 'right' | 'wrong' = 'open'
  let closed = false
  /** Bytes that may leave before the check is over. */
  let free = reaches ? Math.max(0, length - heldBytes) : length
  let kept: Piece | undefined
  const settled = check.then(right => {
    outcome = right ? 'right' : 'wrong'
  })
  const arrived = (piece: Piece, take: Take): void => {
    const { bytes } = piece
    if (outcome === 'right' || bytes.length <= free) {
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
    if (outcome === 'open' && reaches && free === 0) {
      void settled.then(() => next(take))
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
      closed = true
      kept?.release()
      kept = undefined
      source.close()
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
