/**
 * Bytes of a connection that are read and not yet understood: the beginning of a head. Each byte is copied a bounded number of
 * times, in however many packets it comes.
 */
export class Unread {
  #memory: Buffer = nothing
  #length = 0

  get length(): number {
    return this.#length
  }

  /** All of it with `block` behind; valid until `keep`. */
  followedBy(block: Buffer): Buffer {
    if (this.#length === 0) return block
    const length = this.#length + block.length
    if (length > this.#memory.length) {
      const grown = Buffer.allocUnsafeSlow(2 * length)
      this.#memory.copy(grown, 0, 0, this.#length)
      this.#memory = grown
    }
    block.copy(this.#memory, this.#length)
    return this.#memory.subarray(0, length)
  }

  /** Keeps what `followedBy` gave, from byte `from` on. */
  keep(bytes: Buffer, from: number): void {
    const length = bytes.length - from
    if (length === 0) {
      this.#memory = nothing
    } else if (
      bytes.buffer === this.#memory.buffer &&
      bytes.byteOffset === this.#memory.byteOffset
    ) {
      if (from > 0) this.#memory.copyWithin(0, from, bytes.length)
    } else {
      this.#memory = Buffer.allocUnsafeSlow(Math.max(512, 2 * length))
      bytes.copy(this.#memory, 0, from)
    }
    this.#length = length
  }

  /** All of it, and none is left. */
  take(): Buffer {
    const bytes = this.#memory.subarray(0, this.#length)
    this.#memory = nothing
    this.#length = 0
    return bytes
  }
}

const nothing: Buffer = Buffer.alloc(0)
