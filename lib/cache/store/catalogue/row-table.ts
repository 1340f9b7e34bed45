/**
 * A hash table of row numbers: finds the row with certain contents in constant time.
 *
 * Open addressing with linear probing; a removal moves later rows back, so that no marks of removed ones pile up. A slot has
 * the row and its hash, 32 well-mixed bits of what the row holds, so that few rows are looked at and none when it grows.
 */
export class RowTable {
  /** Pairs of a row number plus one, 0 where a slot is empty, and a hash. The number of pairs is a power of two. */
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

  /** The row with this hash of which `is` says that it is the one. */
  find(hash: number, is: (row: number) => boolean): number | undefined {
    const slots = this.#slots
    const mask = slots.length / 2 - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const row = (slots[slot * 2] ?? 0) - 1
      if (row < 0) return undefined
      if (slots[slot * 2 + 1] === hash && is(row)) return row
    }
  }

  /** Adds a row; it must not be there. */
  add(row: number, hash: number): void {
    this.#count += 1
    this.reserve(this.#count)
    this.#insert(row, hash)
  }

  /** Puts another row with the same hash in the place of this one, or with none empties it. */
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
