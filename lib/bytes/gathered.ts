/**
 * Bytes of several reads in one piece of memory, which doubles when it is full.
 */
export class Gathered {
  #memory: Buffer = none
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Copies more bytes behind the others and answers with all of them, in memory that later calls may write to. */
  add(bytes: Buffer): Buffer {
    const length = this.#length + bytes.length
    if (length > this.#memory.length) {
      const larger = Buffer.allocUnsafe(2 * length)
      this.#memory.copy(larger, 0, 0, this.#length)
      this.#memory = larger
    }
    bytes.copy(this.#memory, this.#length)
    this.#length = length
    return this.#memory.subarray(0, length)
  }

  /** Forgets them. */
  clear(): void {
    this.#memory = none
    this.#length = 0
  }
}

const none = Buffer.alloc(0)
