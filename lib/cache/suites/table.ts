/**
 * The table of an index: the size and the digest of each path, found by the digest of the path. This file is pure and works on bytes in
 * memory.
 *
 * # Format
 * - The header has 32 bytes: `cachesvc-table-2`, the number of rows, the CRC-32 of everything after the header, the length of the common
 *   directory in bytes, and the number of rows with a SHA-512.
 * - The common directory follows as UTF-8.
 * - The rows follow in order: the first 16 bytes of SHA-256(path), the size (6 bytes), the SHA-256 of the content (32 bytes). When the
 *   index gives a SHA-512 and no SHA-256, the row has the first half of the SHA-512, and the highest bit of the size is set.
 * - The numbers of the rows (4 bytes each) follow in the order of their digests.
 *
 * Numbers are big-endian.
 */
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { NamedContent } from './generation.ts'

const magic = Buffer.from('cachesvc-table-2')
const headerBytes = 32
const nameBytes = 16
const rowBytes = nameBytes + 6 + 32
const digestAt = nameBytes + 6
const numberBytes = 4
/** The mark that is added to the size when the digest is half a SHA-512. No size that is read is that large. */
const sha512Mark = 2 ** 47
/** The largest table. It has more than a million rows, and no index needs that many. */
const largestTable = 64 * 1024 * 1024

/** Most bytes of a table when all tables have this much memory. A larger table would be read from disk again and again. */
export function mostTableBytes(memory: number): number {
  return Math.min(largestTable, memory / 2)
}

/** The digest by which a table finds a path. */
export function pathName(path: string): Buffer {
  return hash('sha256', path, 'buffer')
}

/** The name of a path in a table, as a text for sets. */
export function nameText(name: Buffer): string {
  return name.toString('latin1', 0, nameBytes)
}

/** The names that were written one after the other. */
export function* namesFrom(names: Buffer): Generator<string> {
  for (let at = 0; at < names.length; at += nameBytes) yield nameText(names.subarray(at))
}

/** A path that two tables name with different contents, by its name. */
export interface Disagreement {
  readonly name: string
  /** The positions of the two tables. */
  readonly between: readonly [number, number]
}

/** The paths that some of these tables name with different contents, each once. Digests of different algorithms are not compared. */
export function disagreements(tables: readonly Table[], most: number): readonly Disagreement[] {
  const found: Disagreement[] = []
  const next = tables.map(() => 0)
  for (let prefix = 0; prefix < 0x1_0000 && found.length < most; prefix += 1) {
    const first = new Map<string, { readonly n: number; readonly content: string }>()
    const said = new Set<string>()
    for (const [n, table] of tables.entries()) {
      let row = next[n] ?? 0
      for (; row < table.count && table.prefix(row) === prefix; row += 1) {
        const { name, content, by } = table.row(row)
        const other = first.get(name + by)
        if (other === undefined) first.set(name + by, { n, content })
        else if (other.content !== content && !said.has(name)) {
          said.add(name)
          found.push({ name, between: [other.n, n] })
        }
      }
      next[n] = row
    }
  }
  return found.slice(0, most)
}

/** Makes a table from the paths that are added. */
export class TableBuilder {
  readonly #mostBytes: number
  #rows = Buffer.alloc(1024 * rowBytes)
  #count = 0
  #sha512s = 0
  #common: string | undefined

  constructor(mostBytes = largestTable) {
    this.#mostBytes = mostBytes
  }

  /** Adds a path. Throws a RangeError when the table would have too many bytes. */
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

  /** The bytes of the table. A path that was added with different contents is left out. */
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

  /** The longest directory that has all added paths; empty when there is none. */
  get common(): string {
    return this.#common ?? ''
  }
}

/** The longest directory that has a path and the paths before it. `before` is the result for those; undefined when there are none. */
export function commonDirectory(before: string | undefined, path: string): string {
  let common = before ?? path.slice(0, Math.max(0, path.lastIndexOf('/')))
  while (common !== '' && !(path.startsWith(common) && path[common.length] === '/')) {
    common = common.slice(0, Math.max(0, common.lastIndexOf('/')))
  }
  return common
}

/** A table that can be searched. */
export class Table {
  readonly bytes: number
  /** The longest directory that has all its paths; empty when there is none. */
  readonly common: string
  readonly count: number
  /** Whether the table names contents by their SHA-512. `names` does not find these contents. */
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

  /** Reads the table in a file; undefined when the file is damaged or is not a table. */
  static read(file: Buffer): Table | undefined {
    if (file.length < headerBytes) return undefined
    if (!file.subarray(0, magic.length).equals(magic)) return undefined
    const rows = headerBytes + file.readUInt32BE(24)
    const count = file.readUInt32BE(16)
    if (file.length !== rows + count * (rowBytes + numberBytes)) return undefined
    if (crc32(file.subarray(headerBytes)) !== file.readUInt32BE(20)) return undefined
    return new Table(file, rows, count)
  }

  /** The content that the index names for a path, by its `pathName`. */
  find(name: Buffer): NamedContent | undefined {
    const at = this.#search(name.subarray(0, nameBytes), row => row * rowBytes)
    if (at === undefined) return undefined
    const size = this.#rows.readUIntBE(at + nameBytes, 6)
    const digest = this.#rows.toString('hex', at + digestAt, at + rowBytes)
    return size < sha512Mark ? { size, digest } : { size: size - sha512Mark, digest, by: 'sha512' }
  }

  /** The first two bytes of the name in a row. Rows are in the order of their names. */
  prefix(row: number): number {
    return this.#rows.readUInt16BE(row * rowBytes)
  }

  /** The name of a path as `nameText` gives it, and a text that differs when the content differs. */
  row(row: number): { readonly name: string; readonly content: string; readonly by: string } {
    const at = row * rowBytes
    const [size, isHalf] = [at + nameBytes, (this.#rows[at + nameBytes] ?? 0) >= 0x80]
    return {
      name: this.#rows.toString('latin1', at, size),
      content: this.#rows.toString('latin1', size, at + rowBytes),
      by: isHalf ? 'sha512' : 'sha256',
    }
  }

  /** Whether the index names a content with this SHA-256, given in bytes. */
  names(digest: Buffer): boolean {
    const place = (i: number): number => this.#byContent.readUInt32BE(i * numberBytes) * rowBytes
    return this.#search(digest, i => place(i) + digestAt) !== undefined
  }

  /**
   * The offset of a digest in the rows. `place` answers the offset of the n-th digest, in order. Digests are spread evenly, so the search
   * computes the likely place. An archive could choose its paths so that they are not, so after some steps it tries the middle.
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
