/**
 * Bytes of several reads in one piece of memory, which doubles when it is full: each byte is copied a bounded number of times, in
 * however many reads it comes.
 */
export class GatheredBytes {
  #memory: Buffer = none
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Copies more bytes behind the others and answers with all of them, in memory that later calls may write to. */
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

  /** All of it with `bytes` behind: those themselves when there is nothing before them. Valid until `keep`. */
  followedBy(bytes: Buffer): Buffer {
    return this.#length === 0 ? bytes : this.add(bytes)
  }

  /** Keeps what `followedBy` gave, from byte `from` on. */
  keep(bytes: Buffer, from: number): void {
    if (from === bytes.length) this.clear()
    else if (this.#length === 0) this.add(bytes.subarray(from))
    else {
      this.#memory.copyWithin(0, from, this.#length)
      this.#length -= from
    }
  }

  /** All of it, and none is left. */
  take(): Buffer {
    const bytes = this.#memory.subarray(0, this.#length)
    this.clear()
    return bytes
  }

  /** Forgets them. */
  clear(): void {
    this.#memory = none
    this.#length = 0
  }
}

const none: Buffer = Buffer.alloc(0)
