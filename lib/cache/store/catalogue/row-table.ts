/**
 * A hash table of row numbers: finds the row with certain contents in constant time and four bytes.
 *
 * Open addressing with linear probing; a removal moves later rows back, so that no marks of removed ones pile up. The contents
 * of a row are its owner's: `hash` asks for 32 well-mixed bits of it.
 */
export class RowTable {
  /** Row numbers plus one; 0 is an empty slot. The length is a power of two. */
  #slots = new Uint32Array(64)
  #count = 0
  readonly #hash: (row: number) => number

  constructor(hash: (row: number) => number) {
    this.#hash = hash
  }

  /** The row with this hash of which `is` says that it is the one. */
  find(hash: number, is: (row: number) => boolean): number | undefined {
    const mask = this.#slots.length - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const row = this.#at(slot) - 1
      if (row < 0) return undefined
      if (is(row)) return row
    }
  }

  /** Adds a row; it must not be there. */
  add(row: number): void {
    if (this.#count * 4 >= this.#slots.length * 3) this.#grow()
    this.#count += 1
    this.#insert(row)
  }

  /** Puts another row with the same hash in the place of this one, or with none empties it. */
  replace(row: number, by: number | undefined): void {
    const mask = this.#slots.length - 1
    let hole = this.#hash(row) & mask
    while (this.#at(hole) !== row + 1) hole = (hole + 1) & mask
    if (by !== undefined) {
      this.#slots[hole] = by + 1
      return
    }
    this.#count -= 1
    for (let next = (hole + 1) & mask; this.#at(next) !== 0; next = (next + 1) & mask) {
      const home = this.#hash(this.#at(next) - 1) & mask
      if (((next - home) & mask) < ((next - hole) & mask)) continue
      this.#slots[hole] = this.#at(next)
      hole = next
    }
    this.#slots[hole] = 0
  }

  #at(slot: number): number {
    return this.#slots[slot] ?? 0
  }

  #insert(row: number): void {
    const mask = this.#slots.length - 1
    let slot = this.#hash(row) & mask
    while (this.#at(slot) !== 0) slot = (slot + 1) & mask
    this.#slots[slot] = row + 1
  }

  #grow(): void {
    const before = this.#slots
    this.#slots = new Uint32Array(before.length * 2)
    for (const row of before) if (row !== 0) this.#insert(row - 1)
  }
}
