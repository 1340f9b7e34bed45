/**
 * A collection in the order of arrival, such as the requests under way.
 *
 * A `Set` leaves too much behind: V8 gives a set a new table after a few changes, and the old table keeps all its members, and all that
 * they refer to, alive until the next full collection. Here a place is emptied and used again.
 */

/** A member, which one `Members` at a time may hold. */
export interface Member {
  /** Its place, which belongs to its Members. */
  place: number
}

export class Members<T extends Member> implements Iterable<T> {
  readonly #places: Array<T | undefined> = []
  /** The number of places in use: all places after them are empty. */
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

  /** Removes the member. Answers whether it was held. */
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

  /** The member that came last. */
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

  /** Moves all members to the front. */
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
