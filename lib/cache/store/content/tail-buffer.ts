/**
 * The most recent bytes of a growing content, in memory. Copies what it is given, for a block is only lent; what it hands out
 * is never written again.
 */

/** Bytes of a chunk. Single bytes from a dribbling origin share one, so memory stays near the bytes it holds. */
const chunkBytes = 64 * 1024

interface Chunk {
  /** Where its first byte stands in the content. */
  readonly start: number
  readonly memory: Buffer
  used: number
}

export class Window {
  readonly #expected: number | undefined
  #chunks: Chunk[] = []
  #start = 0
  #end = 0

  /** `expected` is the length of the whole content when it is known: small content then gets no more memory than it needs. */
  constructor(expected: number | undefined) {
    this.#expected = expected
  }

  /** Position of the oldest byte that is still here. */
  get start(): number {
    return this.#start
  }

  /** Position after the newest byte: the size of the content so far. */
  get end(): number {
    return this.#end
  }

  /** Bytes held. */
  get length(): number {
    return this.#end - this.#start
  }

  /** Position after the oldest chunk: how far everybody must have read before it can go. */
  get firstEnd(): number {
    const first = this.#chunks[0]
    return first === undefined ? this.#end : first.start + first.used
  }

  append(block: Buffer): void {
    for (let at = 0; at < block.length; ) {
      const chunk = this.#room()
      const copied = block.copy(chunk.memory, chunk.used, at)
      chunk.used += copied
      at += copied
      this.#end += copied
    }
  }

  /** Bytes from `from` up to at most `end`, as many as lie together. `from` must be in the window. */
  slice(from: number, end: number): Buffer {
    const chunk = this.#chunks.find(one => from < one.start + one.used)
    if (chunk === undefined || from < chunk.start) throw new RangeError('not in the window')
    const till = Math.min(chunk.used, end - chunk.start)
    return chunk.memory.subarray(from - chunk.start, till)
  }

  /** All bytes from `from` up to at most `end`, in pieces. */
  pieces(from: number, end: number): Buffer[] {
    const pieces: Buffer[] = []
    for (let at = from; at < end; ) {
      const piece = this.slice(at, end)
      pieces.push(piece)
      at += piece.length
    }
    return pieces
  }

  /** Lets the oldest chunks go while more than `limit` bytes are held and the chunk ends at or before `needed`. */
  trim(limit: number, needed: number): void {
    while (this.length > limit) {
      const first = this.#chunks[0]
      if (first === undefined || first.start + first.used > needed) return
      this.#chunks.shift()
      this.#start = first.start + first.used
    }
  }

  clear(): void {
    this.#chunks = []
    this.#start = this.#end
  }

  #room(): Chunk {
    const last = this.#chunks.at(-1)
    if (last !== undefined && last.used < last.memory.length) return last
    const missing = (this.#expected ?? Number.POSITIVE_INFINITY) - this.#end
    const size = missing > 0 ? Math.min(chunkBytes, missing) : chunkBytes
    const chunk = { start: this.#end, memory: Buffer.allocUnsafeSlow(size), used: 0 }
    this.#chunks.push(chunk)
    return chunk
  }
}
