/**
 * The bytes a second that one client gets, on all of its connections together. Bytes that may not leave yet stay at their source: the
 * content is not read, and the far end of a tunnel is stopped.
 *
 * # Facts
 * - Clients give up after some time without a byte (apt: 30 seconds). So content leaves in small parts, and the connections of a client
 *   take turns.
 * - One number decides how much a client may get: `paid`, the moment at which its rate has allowed all bytes it got. It lies at most
 *   `burst` in the past, so a client that was silent gets that much at once.
 */
import type { Clock, Milliseconds } from '../async/clock.ts'
import type { Piece } from './piece.ts'
import type { Source, Take } from './source.ts'

/** The time for which a silent client saves up bytes of its rate. */
export const burst: Milliseconds = 1000
/** A shorter wait is not worth a timer. */
const leastWait: Milliseconds = 20
/** The least and the most bytes that leave at once. Between them they are an eighth of a second's bytes. */
const [smallestPart, largestPart] = [1024, 256 * 1024]

interface PaceOptions {
  readonly clock: Clock
  /** Bytes a second, at this moment; undefined is no limit. */
  readonly rate: () => number | undefined
  /** The moment at which the rate has allowed all bytes the client got, on the monotonic clock. */
  readonly paid?: Milliseconds | undefined
}

export class Pace {
  readonly #clock: Clock
  readonly #rate: () => number | undefined
  /** The functions to call when bytes may leave, in their order, each with its number of bytes. */
  readonly #waiting = new Map<() => void, number>()
  #paid: Milliseconds
  #cancel: (() => void) | undefined

  constructor({ clock, rate, paid = Number.NEGATIVE_INFINITY }: PaceOptions) {
    this.#clock = clock
    this.#rate = rate
    this.#paid = paid
  }

  get paid(): Milliseconds {
    return this.#paid
  }

  get waits(): boolean {
    return this.#waiting.size > 0
  }

  /** The most bytes to ask for at a time. */
  get part(): number {
    const rate = this.#rate() ?? Number.POSITIVE_INFINITY
    return Math.min(largestPart, Math.max(smallestPart, Math.floor(rate / 8)))
  }

  /** Whether so many bytes may leave now. If not, `go` is called when they may. */
  take(bytes: number, go: () => void): boolean {
    if (!this.waits && this.#grants(bytes)) return true
    this.#waiting.set(go, bytes)
    this.#await()
    return false
  }

  /** Ensures that `go` is no longer called. */
  forget(go: () => void): void {
    this.#waiting.delete(go)
    if (this.waits) return
    this.#cancel?.()
    this.#cancel = undefined
  }

  #grants(bytes: number): boolean {
    const rate = this.#rate()
    if (rate === undefined) return true
    const now = this.#clock.elapsed()
    if (this.#paid > now) return false
    this.#paid = Math.max(this.#paid, now - burst) + (bytes * 1000) / rate
    return true
  }

  #await(): void {
    if (this.#cancel !== undefined || !this.waits) return
    const wait = Math.max(leastWait, this.#paid - this.#clock.elapsed())
    this.#cancel = this.#clock.after(wait, () => this.#next())
  }

  #next(): void {
    this.#cancel = undefined
    for (const [go, bytes] of this.#waiting) {
      if (!this.#grants(bytes)) break
      this.#waiting.delete(go)
      go()
    }
    this.#await()
  }
}

/** Content that comes in parts, each when the pace allows it. It holds one piece of its source. */
export class PacedSource implements Source {
  readonly #source: Source
  readonly #pace: Pace
  #piece: Piece | undefined
  /** The begin and end of the next part in the piece. */
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
