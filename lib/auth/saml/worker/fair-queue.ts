/**
 * Orders the jobs that wait for a thread, so that strangers who send many do not keep others out.
 *
 * # Rules
 * - A client that began a login here goes before one that did not.
 * - Among equals the client addresses take turns, one job each: an address with 300 jobs delays another by one job at a time. There is
 *   no quota for each address, because all people of an office may share one.
 * - When the queue is full, the newest job of the address with the most jobs is dropped, and not the job that comes.
 */

/** On whose behalf a job is done. */
export interface Client {
  /** The client's address, or the network that counts as one client. */
  readonly address: string
  /** Whether it has begun a login at this gateway. */
  readonly known: boolean
}

/** Jobs by address; the first of the map is the next whose turn it is. */
type Lines<Item> = Map<string, Item[]>

export class FairQueue<Item> {
  readonly #known: Lines<Item> = new Map()
  readonly #strangers: Lines<Item> = new Map()

  /** Puts an item at the end of its client's line. */
  push(item: Item, { address, known }: Client): void {
    const lines = known ? this.#known : this.#strangers
    const line = lines.get(address)
    if (line === undefined) lines.set(address, [item])
    else line.push(item)
  }

  /** Takes out the item whose turn it is. */
  shift(): Item | undefined {
    return takeFirst(this.#known) ?? takeFirst(this.#strangers)
  }

  /** Takes out the newest item of the longest line, of strangers as long as there are any. */
  drop(): Item | undefined {
    const lines = this.#strangers.size > 0 ? this.#strangers : this.#known
    let longest: [string, Item[]] | undefined
    for (const each of lines) if (each[1].length > (longest?.[1].length ?? 0)) longest = each
    if (longest === undefined) return undefined
    const [address, line] = longest
    const dropped = line.pop()
    if (line.length === 0) lines.delete(address)
    return dropped
  }

  /** Takes out an item; false when it does not wait any more. */
  delete(item: Item): boolean {
    for (const lines of [this.#known, this.#strangers]) {
      for (const [address, line] of lines) {
        const at = line.indexOf(item)
        if (at < 0) continue
        line.splice(at, 1)
        if (line.length === 0) lines.delete(address)
        return true
      }
    }
    return false
  }
}

/** The first item of the first line, which then goes behind the others. */
function takeFirst<Item>(lines: Lines<Item>): Item | undefined {
  for (const [address, line] of lines) {
    const item = line.shift()
    lines.delete(address)
    if (line.length > 0) lines.set(address, line)
    return item
  }
  return undefined
}
