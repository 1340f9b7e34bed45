/**
 * Remembers when clients asked for indexes, how often they asked for indexes of each architecture, and which client asked for which.
 * This file is pure.
 *
 * # Facts
 * - apt asks for an index once after each change of its Release file, under its plain name or its digest. So the number of requests for
 *   one architecture is about the number of machines that use it.
 * - apt asks for packages over another connection than for indexes, days later, so a client is known by its address alone. Several
 *   clients may share it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { recentEntries } from '../../recent.ts'

const mostIndexes = 10_000
const mostArchitectures = 10_000
/** At most this many pairs of a client and the directory of an index are remembered. */
const mostByClients = 65_536

export class AskedIndexes {
  /** When a client last asked for an index, by the key of the index. */
  readonly #at = recentEntries<string, Milliseconds>(mostIndexes)
  /** How often clients asked, by the key of the architecture's directory. */
  readonly #times = recentEntries<string, number>(mostArchitectures)

  /** The directories of the indexes for which clients have asked, each after the address of the client. */
  readonly #byClients = recentEntries<string, true>(mostByClients)

  note(key: string, now: Milliseconds): void {
    this.#at.set(key, now)
    const directory = architectureOf(key)
    if (directory !== undefined) this.#times.set(directory, this.times(key) + 1)
  }

  /** When a client last asked for the index with this key; undefined when that is not remembered. */
  at(key: string): Milliseconds | undefined {
    return this.#at.get(key)
  }

  /** Notes that a client asks for an index, or for a patch of it. */
  noteClient(address: string, key: string): void {
    this.#byClients.set(`${address} ${indexDirectory(key)}`, true)
  }

  /** Whether a client has asked for an index in the directory with this key, in any packing or as a patch. */
  askedBy(address: string, directory: string): boolean {
    return this.#byClients.has(`${address} ${directory}`)
  }

  forget(key: string): void {
    this.#at.delete(key)
  }

  /** How often clients have asked for indexes of the architecture of this index. */
  times(key: string): number {
    return this.#times.get(architectureOf(key) ?? '') ?? 0
  }
}

/** The directory with the indexes of one architecture: `…/main/binary-amd64` or `…/main/source`. */
function architectureOf(key: string): string | undefined {
  return /^.*\/(?:binary-[^/]+|source)(?=\/)/.exec(key)?.[0]
}

/** The directory of an index, of which the key may be a name by digest or that of a patch. */
function indexDirectory(key: string): string {
  return key.replace(/\/(?:by-hash\/.*|[^/]+\.diff\/.*|[^/]*)$/, '')
}

/** The directory of the component, which has the directories of its architectures: `…/main`. */
export function componentOf(key: string): string {
  const directory = architectureOf(key) ?? ''
  return directory.slice(0, directory.lastIndexOf('/'))
}
