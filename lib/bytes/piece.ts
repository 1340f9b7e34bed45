/**
 * A piece of content: bytes, and a hold on their block.
 */
import type { Block } from './block-pool.ts'

export class Piece {
  readonly bytes: Buffer
  readonly #block: Block | undefined

  /** Takes over one hold on `block`. Without a block the bytes are ordinary memory that no longer changes. */
  constructor(bytes: Buffer, block?: Block) {
    this.bytes = bytes
    this.#block = block
  }

  get keepsBlock(): boolean {
    return this.#block !== undefined
  }

  /** Bytes from `from` to before `to` as a piece with a hold of its own. */
  slice(from = 0, to = this.bytes.length): Piece {
    this.#block?.retain()
    const whole = from === 0 && to === this.bytes.length
    return new Piece(whole ? this.bytes : this.bytes.subarray(from, to), this.#block)
  }

  /** Whether `next` continues these bytes in the same memory and the same block. */
  precedes(next: Piece): boolean {
    const { bytes } = this
    return (
      this.#block === next.#block &&
      bytes.buffer === next.bytes.buffer &&
      bytes.byteOffset + bytes.length === next.bytes.byteOffset
    )
  }

  /** This piece and `next`, which follows it in memory, as one piece with one hold. Neither may be used afterwards. */
  joined(next: Piece): Piece {
    const { buffer, byteOffset, length } = this.bytes
    next.release()
    return new Piece(Buffer.from(buffer, byteOffset, length + next.bytes.length), this.#block)
  }

  /** Releases the hold. To be called exactly once. */
  release(): void {
    this.#block?.release()
  }
}
