/**
 * The latest pieces of a growing content in memory, by reference. Knows positions, not readers or files.
 */
import { Piece } from '../../../bytes/piece.ts'

interface Held {
  readonly start: number
  piece: Piece
}

/**
 * A piece smaller than `smallPiece` that does not continue the previous one is copied together with its neighbours, because an origin
 * that sends single bytes as chunks would else cost a hundred times their memory. `copiedTogether` is the size of such a copy.
 */
const smallPiece = 16 * 1024
const copiedTogether = 64 * 1024
/** A first piece of at least this size is most likely the whole content and is copied alone. */
const aloneBytes = 512

/** One write takes at most this many buffers (IOV_MAX is 1,024). */
const mostPieces = 512

/**
 * Holds the latest pieces of a growing content in memory, by reference. The tail knows positions; it does not know readers or files.
 */
export class Tail {
  /** Position after the newest byte: the size of the content so far. */
  end = 0
  #held: Held[] = []
  #room = Buffer.alloc(0)
  readonly #expected: number

  /** `expected` is the length of the whole content. */
  constructor(expected = Number.POSITIVE_INFINITY) {
    this.#expected = expected
  }

  /** Position of the oldest byte that the tail holds. */
  get start(): number {
    return this.#held[0]?.start ?? this.end
  }

  get length(): number {
    return this.end - this.start
  }

  /** Position after the oldest piece, which is dropped as a whole; undefined when the tail is empty. */
  get firstEnd(): number | undefined {
    const [first] = this.#held
    return first && first.start + first.piece.bytes.length
  }

  append(arrived: Piece): void {
    const last = this.#held.at(-1)
    this.end += arrived.bytes.length
    const alone = !last?.piece.precedes(arrived) && arrived.bytes.length < smallPiece
    const piece = alone ? this.#copied(arrived) : arrived
    if (last?.piece.precedes(piece)) last.piece = last.piece.joined(piece)
    else this.#held.push({ start: this.end - piece.bytes.length, piece })
  }

  /** The bytes from `from` up to at most `end` that one piece has. The caller releases them. Throws when the tail does not hold `from`. */
  slice(from: number, end: number): Piece {
    const held = this.#held[this.#at(from)]
    if (held === undefined || from < held.start) throw new RangeError('these bytes are not held')
    const { start, piece } = held
    return piece.slice(from - start, Math.min(piece.bytes.length, end - start))
  }

  /** At most `wanted` bytes from `from` on, in pieces that the caller releases. */
  slices(from: number, wanted: number): Piece[] {
    const pieces: Piece[] = []
    const end = Math.min(this.end, from + wanted)
    for (let at = from; at < end && pieces.length < mostPieces; ) {
      const piece = this.slice(at, end)
      pieces.push(piece)
      at += piece.bytes.length
    }
    return pieces
  }

  dropFirst(): void {
    this.#held.shift()?.piece.release()
  }

  clear(): void {
    for (const { piece } of this.#held) piece.release()
    this.#held = []
  }

  #copied(piece: Piece): Piece {
    const { bytes } = piece
    const alone = this.#held.length === 0 && bytes.length >= aloneBytes
    const rest = Math.max(bytes.length, this.#expected - this.end + bytes.length)
    const most = alone ? bytes.length : Math.min(copiedTogether, rest)
    if (this.#room.length < bytes.length) this.#room = Buffer.allocUnsafeSlow(most)
    const copy = this.#room.subarray(0, bytes.copy(this.#room))
    this.#room = this.#room.subarray(bytes.length)
    piece.release()
    return new Piece(copy)
  }

  /** The index of the piece that has the byte at `position`, found by binary search. */
  #at(position: number): number {
    let [low, high] = [0, this.#held.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.#held[middle]?.start ?? 0) <= position) low = middle
      else high = middle - 1
    }
    return low
  }
}
