/**
 * A compact table of the entries in memory: the place of each entry in the log, and the content that it names.
 *
 * # Representation
 * A row for each entry, 73 bytes in typed arrays:
 *
 *     word   0..1   name: the first 64 bits of the SHA-256 of the key
 *            2..3   position of the entry's line in the log, a double; -1 while it is not written
 *            4..5   bytes of its content, a double
 *            6      bytes of the line; 0 in a free row
 *            7      last use, seconds since the epoch
 *            8..15  SHA-256 of the content
 *            16     the next row of the same digest, or the next free one, plus one
 *            17     the row before in that list, plus one
 *
 * and a byte with the fraction of the second of the last use, in 1/256.
 *
 * One hash table finds a row by the name of its entry. Another one finds the first row of a digest, and the rows of one digest form a
 * list. So the table knows the last reference to a content, and its totals are exact without a walk.
 *
 * Two keys with the same name would replace each other in one row. The entry in the log has the whole key, so a request for one key never
 * gets the entry of the other.
 */
import type { Seconds } from '../../../async/clock.ts'

/** The facts of an entry that the table has. */
export interface Row {
  readonly name: string
  /** The position of its line in the log, or `unwrittenOffset`. */
  readonly offset: number
  /** Bytes of the line. */
  readonly length: number
  readonly used: Seconds
  readonly digest: string
  /** Bytes of the content. */
  readonly size: number
}

/** The offset of an entry that is not yet in the log. */
export const unwrittenOffset = -1

/** A row has `rowWords` words, which are `rowDoubles` doubles. The first `dumpedWords` of them are valid also outside this process. */
const rowWords = 18
const rowDoubles = 9
export const dumpedWords = 16

const digestAt = 32

export class EntryTable {
  count = 0
  /** The number of different contents, and their bytes. */
  contents = 0
  bytes = 0
  /** Bytes of the log's lines that have the entries of this table. */
  live = 0
  #memory = memoryFor(64)
  /** The rows by the low word of their name. */
  readonly #names = new RowTable()
  /** The first row of each digest, by its first word. */
  readonly #digests = new RowTable()
  readonly #scratch = memoryFor(1)
  /** The number of rows in use or freed, and the first free row plus one. */
  #end = 0
  #free = 0

  /** Reserves memory for this many entries, so that the table need not grow step by step. */
  reserve(entries: number): void {
    this.#names.reserve(entries)
    this.#digests.reserve(entries)
    const { words, fractions } = this.#memory
    if (entries <= fractions.length) return
    this.#memory = memoryFor(Math.max(entries, 2 * fractions.length))
    this.#memory.words.set(words)
    this.#memory.fractions.set(fractions)
  }

  find(name: string): number | undefined {
    const { words, bytes } = this.#scratch
    bytes.write(name, 0, 8, 'hex')
    return this.#find(words[0] ?? 0, words[1] ?? 0)
  }

  /** Adds or replaces an entry. Answers the digest that entries no longer name, if there is one. */
  put({ name, offset, length, used, digest, size }: Row): string | undefined {
    const { words, doubles, bytes } = this.#scratch
    bytes.write(name, 0, 8, 'hex')
    bytes.write(digest, digestAt, 32, 'hex')
    doubles[1] = offset
    doubles[2] = size
    words[6] = length
    words[7] = used
    return this.load(words, 0)
  }

  /** `put` with the first sixteen words of a row, as `dump` wrote them at `at`. */
  load(from: Uint32Array, at: number): string | undefined {
    const before = this.#find(from[at] ?? 0, from[at + 1] ?? 0)
    const row = before ?? this.#take()
    const same = before !== undefined && this.#sameDigest(row, from, at)
    const freed = before === undefined || same ? undefined : this.#unlink(row)
    if (before !== undefined) this.live -= this.#onDisk(row)
    const size = same ? this.size(row) : undefined
    for (let i = 0; i < dumpedWords; i += 1) this.#set(row, i, from[at + i] ?? 0)
    this.#memory.fractions[row] = 0
    if (size !== undefined) this.#memory.doubles[row * rowDoubles + 2] = size
    if (before === undefined) {
      this.count += 1
      this.#names.add(row, this.#word(row, 1))
    }
    if (!same) this.#link(row)
    this.live += this.#onDisk(row)
    return freed
  }

  /** Copies the words of a row that are valid outside this process. */
  dump(row: number, into: Uint32Array, at: number): void {
    const from = row * rowWords
    into.set(this.#memory.words.subarray(from, from + dumpedWords), at)
  }

  /** Removes an entry. Answers the digest that entries no longer name, if there is one. */
  remove(row: number): string | undefined {
    this.live -= this.#onDisk(row)
    this.count -= 1
    this.#names.replace(row, this.#word(row, 1), undefined)
    const freed = this.#unlink(row)
    this.#set(row, 6, 0)
    this.#set(row, 16, this.#free)
    this.#free = row + 1
    return freed
  }

  /** All rows in use. A row that is added or removed during the walk may come or not. */
  *rows(): Generator<number> {
    for (let row = 0; row < this.#end; row += 1) if (this.length(row) > 0) yield row
  }

  name(row: number): string {
    return this.#hex(row, 0, 8)
  }

  digest(row: number): string {
    return this.#hex(row, digestAt, 32)
  }

  offset(row: number): number {
    return this.#memory.doubles[row * rowDoubles + 1] ?? 0
  }

  size(row: number): number {
    return this.#memory.doubles[row * rowDoubles + 2] ?? 0
  }

  length(row: number): number {
    return this.#word(row, 6)
  }

  used(row: number): Seconds {
    return this.#word(row, 7)
  }

  /** Sets the last use of an entry, seconds with their fraction. */
  use(row: number, at: number): void {
    this.#set(row, 7, Math.floor(at))
    this.#memory.fractions[row] = Math.floor((at % 1) * 256)
  }

  /** The last use of an entry, seconds with a fraction that a restart forgets. */
  exactUse(row: number): number {
    return this.used(row) + (this.#memory.fractions[row] ?? 0) / 256
  }

  /** The last use of a content by any of its entries, seconds with their fraction. */
  recency(row: number): number {
    let latest = 0
    for (const one of this.sharing(row)) latest = Math.max(latest, this.exactUse(one))
    return latest
  }

  /** Whether this row is the first of the rows that name its content. Each content has one first row. */
  isFirst(row: number): boolean {
    return this.#word(row, 17) === 0
  }

  /** This row and the rows after it in the list of its content: all of them when it is the first. */
  *sharing(row: number): Generator<number> {
    for (let one = row; one >= 0; one = this.#word(one, 16) - 1) yield one
  }

  /** Sets the place of an entry's line in the log. */
  place(row: number, offset: number, length: number): void {
    this.live -= this.#onDisk(row)
    this.#memory.doubles[row * rowDoubles + 1] = offset
    this.#set(row, 6, length)
    this.live += this.#onDisk(row)
  }

  references(digest: string): boolean {
    return this.#first(digest) !== undefined
  }

  /** The rows that name a content. */
  referring(digest: string): readonly number[] {
    return [...this.sharing(this.#first(digest) ?? -1)]
  }

  #find(high: number, low: number): number | undefined {
    return this.#names.find(low, row => this.#word(row, 0) === high && this.#word(row, 1) === low)
  }

  #first(digest: string): number | undefined {
    const { words, bytes } = this.#scratch
    bytes.write(digest, digestAt, 32, 'hex')
    return this.#digests.find(words[8] ?? 0, row => this.#sameDigest(row, words, 0))
  }

  #sameDigest(row: number, words: Uint32Array, at: number): boolean {
    for (let i = 8; i < 16; i += 1) if (this.#word(row, i) !== words[at + i]) return false
    return true
  }

  /** Adds a row to the list of its digest. It takes the size of the first row, so that all rows of a digest have one size. */
  #link(row: number): void {
    const { words } = this.#scratch
    this.dump(row, words, 0)
    const first = this.#digests.find(this.#word(row, 8), one => this.#sameDigest(one, words, 0))
    this.#set(row, 16, first === undefined ? 0 : this.#word(first, 16))
    this.#set(row, 17, (first ?? -1) + 1)
    if (first === undefined) {
      this.contents += 1
      this.bytes += this.size(row)
      this.#digests.add(row, this.#word(row, 8))
      return
    }
    this.#memory.doubles[row * rowDoubles + 2] = this.size(first)
    const next = this.#word(first, 16) - 1
    if (next >= 0) this.#set(next, 17, row + 1)
    this.#set(first, 16, row + 1)
  }

  #unlink(row: number): string | undefined {
    const [next, before] = [this.#word(row, 16) - 1, this.#word(row, 17) - 1]
    if (next >= 0) this.#set(next, 17, before + 1)
    if (before >= 0) {
      this.#set(before, 16, next + 1)
      return undefined
    }
    this.#digests.replace(row, this.#word(row, 8), next >= 0 ? next : undefined)
    if (next >= 0) return undefined
    this.contents -= 1
    this.bytes -= this.size(row)
    return this.digest(row)
  }

  #take(): number {
    if (this.#free > 0) {
      const row = this.#free - 1
      this.#free = this.#word(row, 16)
      return row
    }
    this.#end += 1
    this.reserve(this.#end)
    return this.#end - 1
  }

  #onDisk(row: number): number {
    return this.offset(row) < 0 ? 0 : this.length(row)
  }

  #word(row: number, word: number): number {
    return this.#memory.words[row * rowWords + word] ?? 0
  }

  #set(row: number, word: number, value: number): void {
    this.#memory.words[row * rowWords + word] = value
  }

  #hex(row: number, at: number, length: number): string {
    const from = row * rowWords * 4 + at
    return this.#memory.bytes.toString('hex', from, from + length)
  }
}

/** Memory for this many rows: one buffer seen as words, as doubles and as bytes, and the fractions. */
function memoryFor(rows: number) {
  const memory = new ArrayBuffer(rows * rowWords * 4)
  return {
    words: new Uint32Array(memory),
    doubles: new Float64Array(memory),
    bytes: Buffer.from(memory),
    fractions: new Uint8Array(rows),
  }
}

/**
 * A hash table of row numbers: finds a row by its hash in constant time.
 *
 * The table uses open addressing with linear probing. A removal moves later rows back, so the table needs no marks for removed rows. A
 * slot has the row and its hash, 32 well-mixed bits, so that a search looks at few rows and growing looks at none.
 */
export class RowTable {
  /** Pairs of a row number plus one and a hash; the first is 0 in an empty slot. The number of pairs is a power of two. */
  #slots = new Uint32Array(2 * 64)
  #count = 0

  reserve(rows: number): void {
    let pairs = this.#slots.length / 2
    while (rows * 4 >= pairs * 3) pairs *= 2
    if (pairs * 2 === this.#slots.length) return
    const before = this.#slots
    this.#slots = new Uint32Array(pairs * 2)
    for (let at = 0; at < before.length; at += 2) {
      const row = (before[at] ?? 0) - 1
      if (row >= 0) this.#insert(row, before[at + 1] ?? 0)
    }
  }

  /** The row with this hash that `is` accepts. */
  find(hash: number, is: (row: number) => boolean): number | undefined {
    const slots = this.#slots
    const mask = slots.length / 2 - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const row = (slots[slot * 2] ?? 0) - 1
      if (row < 0) return undefined
      if (slots[slot * 2 + 1] === hash && is(row)) return row
    }
  }

  /** Adds a row, which must not be in the table. */
  add(row: number, hash: number): void {
    this.#count += 1
    this.reserve(this.#count)
    this.#insert(row, hash)
  }

  /** Replaces this row by `by`, which has the same hash, or removes it when `by` is undefined. */
  replace(row: number, hash: number, by: number | undefined): void {
    const slots = this.#slots
    const mask = slots.length / 2 - 1
    let hole = hash & mask
    while (slots[hole * 2] !== row + 1) hole = (hole + 1) & mask
    if (by !== undefined) {
      slots[hole * 2] = by + 1
      return
    }
    this.#count -= 1
    for (let next = (hole + 1) & mask; slots[next * 2] !== 0; next = (next + 1) & mask) {
      const home = (slots[next * 2 + 1] ?? 0) & mask
      if (((next - home) & mask) < ((next - hole) & mask)) continue
      slots.copyWithin(hole * 2, next * 2, next * 2 + 2)
      hole = next
    }
    slots[hole * 2] = 0
  }

  #insert(row: number, hash: number): void {
    const slots = this.#slots
    const mask = slots.length / 2 - 1
    let slot = hash & mask
    while (slots[slot * 2] !== 0) slot = (slot + 1) & mask
    slots[slot * 2] = row + 1
    slots[slot * 2 + 1] = hash
  }
}
