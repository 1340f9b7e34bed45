/**
 * Bytes of several reads in one piece of memory. The memory doubles when it is full, so each byte is copied a bounded number of times,
 * however many reads bring them.
 */
export class GatheredBytes {
  #memory: Buffer = none
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Copies more bytes after the others and returns all of them. Later calls may write to the returned memory. */
  add(bytes: Buffer): Buffer {
    const length = this.#length + bytes.length
    if (length > this.#memory.length) {
      const larger = Buffer.allocUnsafeSlow(2 * length)
      this.#memory.copy(larger, 0, 0, this.#length)
      this.#memory = larger
    }
    bytes.copy(this.#memory, this.#length)
    this.#length = length
    return this.#memory.subarray(0, length)
  }

  /** All bytes followed by `bytes`; it is `bytes` itself when there are no others. The answer is valid until `keep`. */
  followedBy(bytes: Buffer): Buffer {
    return this.#length === 0 ? bytes : this.add(bytes)
  }

  /** Keeps the result of `followedBy` from byte `from` on. */
  keep(bytes: Buffer, from: number): void {
    if (from === bytes.length) this.clear()
    else if (this.#length === 0) this.add(bytes.subarray(from))
    else {
      this.#memory.copyWithin(0, from, this.#length)
      this.#length -= from
    }
  }

  /** Returns all bytes, and keeps none. */
  take(): Buffer {
    const bytes = this.#memory.subarray(0, this.#length)
    this.clear()
    return bytes
  }

  clear(): void {
    this.#memory = none
    this.#length = 0
  }
}

const none: Buffer = Buffer.alloc(0)
