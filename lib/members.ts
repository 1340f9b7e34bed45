/**
 * The things that are under way, in the order they came.
 *
 * A `Set` would do, but for what it leaves behind: V8 gives a set a new table every few changes, and the old one keeps all it held
 * alive until the next full collection, with everything those hold. Here a place is emptied and used again.
 */

/** What can be held. In one `Members` at a time. */
export interface Member {
  /** Where it is held. Belongs to its Members. */
  place: number
}

export class Members<T extends Member> implements Iterable<T> {
  readonly #places: Array<T | undefined> = []
  /** Places in use: all behind are empty. */
  #end = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  has(member: T): boolean {
    return this.#places[member.place] === member
  }

  add(member: T): void {
    if (this.has(member)) return
    if (this.#end === this.#places.length && this.#end > 2 * this.#size) this.#closeRanks()
    this.#put(member)
    this.#size += 1
  }

  /** Whether it was held. */
  delete(member: T): boolean {
    if (!this.has(member)) return false
    this.#places[member.place] = undefined
    this.#size -= 1
    if (this.#size === 0) this.#end = 0
    return true
  }

  clear(): void {
    this.#places.fill(undefined)
    this.#size = 0
    this.#end = 0
  }

  /** The one that came last. */
  get newest(): T | undefined {
    for (let at = this.#end - 1; at >= 0; at -= 1) {
      const member = this.#places[at]
      if (member !== undefined) return member
    }
    return undefined
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = 0; at < this.#end; at += 1) {
      const member = this.#places[at]
      if (member !== undefined) yield member
    }
  }

  #put(member: T): void {
    member.place = this.#end
    this.#places[this.#end] = member
    this.#end += 1
  }

  /** Moves all to the front. */
  #closeRanks(): void {
    const end = this.#end
    this.#end = 0
    for (let at = 0; at < end; at += 1) {
      const member = this.#places[at]
      this.#places[at] = undefined
      if (member !== undefined) this.#put(member)
    }
  }
}
