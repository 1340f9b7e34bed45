/**
 * The latest pieces of a growing content, in memory, by reference. Knows positions, not readers or files.
 */
import { Piece } from '../../../bytes/piece.ts'

interface Held {
  readonly start: number
  piece: Piece
}

/**
 * A smaller piece that does not continue the one before is copied together with its neighbours: an origin that sends single
 * bytes as chunks would else cost a hundred times their memory.
 */
const smallPiece = 16 * 1024
const copiedTogether = 64 * 1024
const aloneBytes = 512

/** Buffers one write takes at most (IOV_MAX is 1,024). */
const mostPieces = 512

export class Tail {
  /** Position after the newest byte: the size of the content so far. */
  end: number
  #held: Held[] = []
  #room = Buffer.alloc(0)
  readonly #expected: number

  /** `end` is what there is already, elsewhere; `expected` the length of the whole. */
  constructor(end = 0, expected = Number.POSITIVE_INFINITY) {
    this.end = end
    this.#expected = expected
  }

  /** Position of the oldest byte that is still here. */
  get start(): number {
    return this.#held[0]?.start ?? this.end
  }

  get length(): number {
    return this.end - this.start
  }

  /** Position after the oldest piece, which goes as a whole; undefined when nothing is held. */
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

  /** Bytes from `from` up to at most `end`, as many as lie together, with a hold of their own. `from` must be here. */
  slice(from: number, end: number): Piece {
    const held = this.#held[this.#at(from)]
    if (held === undefined || from < held.start) throw new RangeError('these bytes are not held')
    const { start, piece } = held
    return piece.slice(from - start, Math.min(piece.bytes.length, end - start))
  }

  /** The bytes from `from` on, about `wanted` of them, in pieces with holds of their own. */
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
    // A first piece of some size is most likely all there is.
    const alone = this.#held.length === 0 && bytes.length >= aloneBytes
    const rest = Math.max(bytes.length, this.#expected - this.end + bytes.length)
    const most = alone ? bytes.length : Math.min(copiedTogether, rest)
    if (this.#room.length < bytes.length) this.#room = Buffer.allocUnsafeSlow(most)
    const copy = this.#room.subarray(0, bytes.copy(this.#room))
    this.#room = this.#room.subarray(bytes.length)
    piece.release()
    return new Piece(copy)
  }

  /** Which piece has the byte at `position`, by halving. */
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
