/**
 * The table of an index: for each path its size and digest, found by the digest of the path. Pure: bytes in memory.
 *
 * # Format
 * 32 bytes of header: `cachesvc-table-2`, the number of rows, the CRC-32 of all that follows, the length of the common directory
 * in bytes, the number of rows with a SHA-512. Then the common directory as UTF-8, then the rows in order: the first 16 bytes of
 * SHA-256(path), the size (6 bytes), the SHA-256 of the content (32 bytes). Where the index gives a SHA-512 and no SHA-256, its
 * first half stands in its place, and the highest bit of the size is set. Then the numbers of the rows (4 bytes) in the order of
 * their digests. Numbers are big-endian. Version 1 had no rows with a SHA-512: a table of it without rows may lack some.
 */
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { NamedContent } from './generation.ts'

const magic = Buffer.from('cachesvc-table-2')
const earlier = Buffer.from('cachesvc-table-1')
const headerBytes = 32
const nameBytes = 16
const rowBytes = nameBytes + 6 + 32
const digestAt = nameBytes + 6
const numberBytes = 4
/** Added to the size where the digest is of a SHA-512: no size that is read has so many digits. */
const sha512Mark = 2 ** 47
/** No index needs more, by far: these are more than a million rows. */
const largestTable = 64 * 1024 * 1024

/** Bytes a table may have when tables get so much memory: a larger one would be read from disk again and again. */
export function mostTableBytes(memory: number): number {
  return Math.min(largestTable, memory / 2)
}

/** The name a path has in a table. */
export function pathName(path: string): Buffer {
  return hash('sha256', path, 'buffer')
}

/** Makes a table of what is added. */
export class TableBuilder {
  readonly #mostBytes: number
  #rows = Buffer.alloc(1024 * rowBytes)
  #count = 0
  #sha512s = 0
  #common: string | undefined

  constructor(mostBytes = largestTable) {
    this.#mostBytes = mostBytes
  }

  /** Throws a RangeError when an index names more than can be. */
  add(path: string, { size, digest, by }: NamedContent): void {
    const room = this.#mostBytes - headerBytes - Buffer.byteLength(path)
    if ((this.#count + 1) * (rowBytes + numberBytes) > room) {
      throw new RangeError(
        `the index names too many files: its table would have more than ${this.#mostBytes} bytes`,
      )
    }
    const at = this.#count * rowBytes
    if (at === this.#rows.length) {
      const larger = Buffer.alloc(this.#rows.length * 2)
      this.#rows.copy(larger)
      this.#rows = larger
    }
    pathName(path).copy(this.#rows, at, 0, nameBytes)
    this.#rows.writeUIntBE(by === undefined ? size : size + sha512Mark, at + nameBytes, 6)
    if (by !== undefined) this.#sha512s += 1
    this.#rows.write(digest, at + digestAt, 'hex')
    this.#count += 1
    this.#common = commonDirectory(this.#common, path)
  }

  /** The table. A path that was named twice with different contents is in it no more. */
  finish(): Buffer {
    const rows = this.#rows
    const compare = (a = 0, b = 0, begin = 0, end = rowBytes): number => {
      const [one, other] = [a * rowBytes, b * rowBytes]
      return rows.compare(rows, other + begin, other + end, one + begin, one + end)
    }
    const sorted = Array.from({ length: this.#count }, (_, row) => row).sort((a, b) =>
      compare(a, b),
    )
    const distinct = sorted.filter((row, i) => i === 0 || compare(row, sorted[i - 1]) !== 0)
    const isNamesake = (row: number, other: number | undefined): boolean =>
      other !== undefined && compare(row, other, 0, nameBytes) === 0
    const kept = distinct.filter(
      (row, i) => !isNamesake(row, distinct[i - 1]) && !isNamesake(row, distinct[i + 1]),
    )
    const byContent = kept.map((_, i) => i).sort((a, b) => compare(kept[a], kept[b], digestAt))
    const common = Buffer.from(this.common)
    const begin = headerBytes + common.length
    const numbers = begin + kept.length * rowBytes
    const table = Buffer.alloc(numbers + kept.length * numberBytes)
    common.copy(table, headerBytes)
    for (const [i, row] of kept.entries()) {
      rows.copy(table, begin + i * rowBytes, row * rowBytes, (row + 1) * rowBytes)
    }
    for (const [i, row] of byContent.entries()) {
      table.writeUInt32BE(row, numbers + i * numberBytes)
    }
    magic.copy(table)
    table.writeUInt32BE(kept.length, 16)
    table.writeUInt32BE(crc32(table.subarray(headerBytes)), 20)
    table.writeUInt32BE(common.length, 24)
    table.writeUInt32BE(this.#sha512s, 28)
    return table
  }

  /** The longest directory that all paths so far lie in; empty when there is none. */
  get common(): string {
    return this.#common ?? ''
  }
}

/** The longest directory that a path and those before it lie in. */
export function commonDirectory(before: string | undefined, path: string): string {
  let common = before ?? path.slice(0, Math.max(0, path.lastIndexOf('/')))
  while (common !== '' && !(path.startsWith(common) && path[common.length] === '/')) {
    common = common.slice(0, Math.max(0, common.lastIndexOf('/')))
  }
  return common
}

/** A table for looking things up. */
export class Table {
  /** Bytes of memory. */
  readonly bytes: number
  /** The directory all its paths lie in; empty when there is none. */
  readonly common: string
  readonly count: number
  /** Whether it names contents by their SHA-512: `names` does not know these. */
  readonly hasSha512: boolean
  readonly #rows: Buffer
  readonly #byContent: Buffer

  private constructor(file: Buffer, rows: number, count: number) {
    const numbers = rows + count * rowBytes
    this.bytes = file.length
    this.common = file.toString('utf8', headerBytes, rows)
    this.#rows = file.subarray(rows, numbers)
    this.#byContent = file.subarray(numbers)
    this.count = count
    this.hasSha512 = file.readUInt32BE(28) > 0
  }

  /** The table in a file; undefined when the file is damaged or none. */
  static read(file: Buffer): Table | undefined {
    if (file.length < headerBytes) return undefined
    const begin = file.subarray(0, magic.length)
    const isEarlier = begin.equals(earlier) && file.readUInt32BE(16) > 0
    if (!begin.equals(magic) && !isEarlier) return undefined
    const rows = headerBytes + file.readUInt32BE(24)
    const count = file.readUInt32BE(16)
    if (file.length !== rows + count * (rowBytes + numberBytes)) return undefined
    if (crc32(file.subarray(headerBytes)) !== file.readUInt32BE(20)) return undefined
    return new Table(file, rows, count)
  }

  /** What the index says about a path, given its `pathName`. */
  find(name: Buffer): NamedContent | undefined {
    const at = this.#search(name.subarray(0, nameBytes), row => row * rowBytes)
    if (at === undefined) return undefined
    const size = this.#rows.readUIntBE(at + nameBytes, 6)
    const digest = this.#rows.toString('hex', at + digestAt, at + rowBytes)
    return size < sha512Mark ? { size, digest } : { size: size - sha512Mark, digest, by: 'sha512' }
  }

  /** Whether the index names content with this SHA-256, in bytes. */
  names(digest: Buffer): boolean {
    const place = (i: number): number => this.#byContent.readUInt32BE(i * numberBytes) * rowBytes
    return this.#search(digest, i => place(i) + digestAt) !== undefined
  }

  /**
   * Where in the rows a digest stands, of digests in order; `place` tells where the n-th of them stands. They are spread evenly,
   * so where one must be can be computed. An archive could choose its paths so that they are not: after some steps the middle is
   * tried.
   */
  #search(digest: Buffer, place: (n: number) => number): number | undefined {
    const rows = this.#rows
    const wanted = digest.readUInt32BE(0)
    let [low, high] = [0, this.count - 1]
    let [least, most] = [0, 0x1_0000_0000]
    for (let step = 0; low <= high; step += 1) {
      const share = step < 8 && most > least ? (wanted - least) / (most - least) : 0.5
      const n = Math.min(high, low + Math.floor(share * (high - low + 1)))
      const at = place(n)
      const order = digest.compare(rows, at, at + digest.length)
      if (order === 0) return at
      const found = rows.readUInt32BE(at)
      if (order < 0) [high, most] = [n - 1, found]
      else [low, least] = [n + 1, found]
    }
    return undefined
  }
}
