/**
 * Content that leaves in parts, each when the pace of its client lets it.
 */
import type { Piece } from '../../bytes/piece.ts'
import { ofBytes, type Source, type Take } from '../../bytes/source.ts'
import type { Response } from '../message/message.ts'
import type { Pace } from './pace.ts'

/** The same response, whose content comes at this pace. */
export function pacedResponse(response: Response, pace: Pace): Response {
  const { content } = response
  if (content.kind === 'none') return response
  const open =
    content.kind === 'bytes'
      ? () => new PacedSource(ofBytes(content.bytes), pace)
      : () => new PacedSource(content.open(), pace)
  const stream = content.kind === 'bytes' ? { length: content.bytes.length } : content
  return { ...response, content: { ...stream, kind: 'stream', open } }
}

/** Content that comes in parts, each when the pace lets it. Holds one piece of the content behind it. */
class PacedSource implements Source {
  readonly #source: Source
  readonly #pace: Pace
  #piece: Piece | undefined
  /** The part that comes next: where it begins in the piece and ends. */
  #from = 0
  #to = 0
  #take: Take | undefined

  constructor(source: Source, pace: Pace) {
    this.#source = source
    this.#pace = pace
  }

  next(take: Take): void {
    this.#take = take
    if (this.#piece === undefined) this.#source.next(this.#arrived)
    else this.#offer(this.#piece)
  }

  close(): void {
    this.#pace.forget(this.#give)
    this.#piece?.release()
    this.#piece = undefined
    this.#source.close()
  }

  readonly #arrived: Take = (error, piece) => {
    if (piece === undefined) return this.#take?.(error, undefined)
    this.#piece = piece
    this.#to = 0
    this.#offer(piece)
  }

  #offer({ bytes }: Piece): void {
    this.#from = this.#to
    this.#to = Math.min(bytes.length, this.#from + this.#pace.part)
    if (this.#pace.take(this.#to - this.#from, this.#give)) this.#give()
  }

  readonly #give = (): void => {
    const piece = this.#piece
    if (piece === undefined) return
    const part = piece.slice(this.#from, this.#to)
    if (this.#to === piece.bytes.length) {
      piece.release()
      this.#piece = undefined
    }
    this.#take?.(undefined, part)
  }
}
