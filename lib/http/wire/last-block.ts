/**
 * The last bytes that were read, with what they meant: a peer says the same about itself in each message, and to compare bytes
 * costs less than to read them.
 */

/** Longer blocks are read anew each time. */
const longestKept = 8192

export class LastBlock<T> {
  #meaning: T | undefined
  #bytes: Buffer = none
  /** Where the bytes lie; used again for others. */
  #memory: Buffer = none

  /** How many bytes there are. */
  get length(): number {
    return this.#bytes.length
  }

  /** What the bytes at `from` mean, when the next `length` of them are those kept. */
  meaningAt(bytes: Buffer, from: number): T | undefined {
    const kept = this.#bytes
    const end = from + kept.length
    if (this.#meaning === undefined || end > bytes.length) return undefined
    return bytes.compare(kept, 0, kept.length, from, end) === 0 ? this.#meaning : undefined
  }

  /** Keeps a copy of the bytes between `from` and `end`: their memory may be one that others share. */
  keep(bytes: Buffer, from: number, end: number, meaning: T): void {
    const length = end - from
    if (length > longestKept) return
    if (length > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(length)
    bytes.copy(this.#memory, 0, from, end)
    this.#bytes = this.#memory.subarray(0, length)
    this.#meaning = meaning
  }
}

const none = Buffer.alloc(0)
