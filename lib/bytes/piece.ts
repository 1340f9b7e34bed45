/**
 * A piece of content: bytes, and the hold on the block they lie in.
 */
import type { Block } from './block-pool.ts'

export class Piece {
  readonly bytes: Buffer
  readonly #block: Block | undefined

  /** Takes over one hold on `block`. Without a block the bytes are ordinary memory that is never written again. */
  constructor(bytes: Buffer, block?: Block) {
    this.bytes = bytes
    this.#block = block
  }

  /** Whether it keeps a block from being used again. */
  get keepsBlock(): boolean {
    return this.#block !== undefined
  }

  /** Bytes `from` up to and without `to` as a piece with a hold of its own. */
  slice(from = 0, to = this.bytes.length): Piece {
    this.#block?.retain()
    const whole = from === 0 && to === this.bytes.length
    return new Piece(whole ? this.bytes : this.bytes.subarray(from, to), this.#block)
  }

  /** Whether `next` continues these bytes in the same memory, with the same hold. */
  precedes(next: Piece): boolean {
    const { bytes } = this
    return (
      this.#block === next.#block &&
      bytes.buffer === next.bytes.buffer &&
      bytes.byteOffset + bytes.length === next.bytes.byteOffset
    )
  }

  /** This piece and `next`, which it precedes, as one piece. Both holds become one: neither is used again. */
  joined(next: Piece): Piece {
    const { buffer, byteOffset, length } = this.bytes
    next.release()
    return new Piece(Buffer.from(buffer, byteOffset, length + next.bytes.length), this.#block)
  }

  /** Lets go of the bytes. To be called exactly once. */
  release(): void {
    this.#block?.release()
  }
}
