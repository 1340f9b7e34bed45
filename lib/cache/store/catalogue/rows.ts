/**
 * The rows of the table: numbers and digests in typed arrays that grow by chunks, 73 bytes for each entry.
 *
 *     word   0..1   name: the first 64 bits of the SHA-256 of the key
 *            2..3   position of the entry's line in the log, a double; -1 while it is not written
 *            4..5   bytes of its content, a double
 *            6      bytes of the line; 0 in a row that is free
 *            7      last use, seconds since the epoch
 *            8..15  SHA-256 of the content
 *            16     the next row of the same digest, or the next free one, plus one
 *            17     the row before in that list, plus one
 *
 * and a byte with the fraction of the second of the last use, in 1/256.
 */

/** Words of a row, and of those that say something outside this process. */
const rowWords = 18
export const dumpedWords = 16

/** Where the digest begins in a row, in bytes. */
export const digestAt = 32

const chunkBits = 13
const inChunk = (1 << chunkBits) - 1

interface Chunk {
  readonly words: Uint32Array
  readonly doubles: Float64Array
  readonly bytes: Buffer
  readonly fractions: Uint8Array
}

export class Rows {
  readonly #chunks: Chunk[] = []

  /** Makes room for this row; those before it are there. */
  reserve(row: number): void {
    if ((row & inChunk) === 0) this.#chunks.push(chunkOf(inChunk + 1))
  }

  /** Sets the words that mean something elsewhere, as `dump` wrote them at `at`. */
  load(row: number, from: Uint32Array, at: number): void {
    const { words, fractions } = this.#chunkOf(row)
    const to = (row & inChunk) * rowWords
    for (let i = 0; i < dumpedWords; i += 1) words[to + i] = from[at + i] ?? 0
    fractions[row & inChunk] = 0
  }

  /** Writes the words that mean something elsewhere. */
  dump(row: number, into: Uint32Array, at: number): void {
    const from = (row & inChunk) * rowWords
    into.set(this.#chunkOf(row).words.subarray(from, from + dumpedWords), at)
  }

  word(row: number, word: number): number {
    return this.#chunkOf(row).words[(row & inChunk) * rowWords + word] ?? 0
  }

  set(row: number, word: number, value: number): void {
    this.#chunkOf(row).words[(row & inChunk) * rowWords + word] = value
  }

  /** Words `2 * double` and the next. */
  double(row: number, double: number): number {
    return this.#chunkOf(row).doubles[((row & inChunk) * rowWords) / 2 + double] ?? 0
  }

  setDouble(row: number, double: number, value: number): void {
    this.#chunkOf(row).doubles[((row & inChunk) * rowWords) / 2 + double] = value
  }

  /** Part of a second. */
  fraction(row: number): number {
    return (this.#chunkOf(row).fractions[row & inChunk] ?? 0) / 256
  }

  setFraction(row: number, fraction: number): void {
    this.#chunkOf(row).fractions[row & inChunk] = Math.floor(fraction * 256)
  }

  hex(row: number, at: number, length: number): string {
    const from = (row & inChunk) * rowWords * 4 + at
    return this.#chunkOf(row).bytes.toString('hex', from, from + length)
  }

  #chunkOf(row: number): Chunk {
    const chunk = this.#chunks[row >>> chunkBits]
    if (chunk === undefined) throw new RangeError(`there is no row ${row}`)
    return chunk
  }
}

export function chunkOf(rows: number): Chunk {
  const memory = new ArrayBuffer(rows * rowWords * 4)
  return {
    words: new Uint32Array(memory),
    doubles: new Float64Array(memory),
    bytes: Buffer.from(memory),
    fractions: new Uint8Array(rows),
  }
}
