/**
 * The first bytes of a response, read before it is decided what becomes of it.
 */
import type { Piece } from '../../bytes/piece.ts'
import { prefixed, type Source } from '../../bytes/source.ts'

export interface Opening {
  /** As many bytes as were asked for, or all there are; or, when the content broke off, as many as came. */
  readonly first: Buffer
  /** Whether it broke off so early that `first` says nothing. */
  readonly broken: boolean
  /** The whole content, those bytes included. */
  readonly content: Source
}

/** Reads the first `count` bytes. A content that breaks off so early breaks off again. */
export function opening(content: Source, count: number): Promise<Opening> {
  return new Promise(resolve => {
    const pieces: Piece[] = []
    let size = 0
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (piece !== undefined) {
        pieces.push(piece)
        size += piece.bytes.length
        if (size < count) return content.next(step)
      }
      const parts = pieces.map(({ bytes }) => bytes.subarray(0, count))
      const first = Buffer.concat(parts).subarray(0, count)
      const rest = piece === undefined ? ended(error, content) : content
      resolve({ first, broken: error !== undefined, content: prefixed(pieces, rest) })
    }
    content.next(step)
  })
}

function ended(error: Error | undefined, content: Source): Source {
  return { next: take => take(error, undefined), close: () => content.close() }
}
