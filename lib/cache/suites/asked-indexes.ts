/**
 * Remembers when clients asked for indexes, and how often for those of each architecture. Pure.
 *
 * # Facts
 * - apt asks for an index once after each change of its Release file, under its plain name or its digest. So the questions for one
 *   architecture are about as many as the machines that use it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { recentEntries } from '../../recent.ts'

const mostIndexes = 10_000
const mostArchitectures = 10_000

export class AskedIndexes {
  /** When a client last asked for an index, by the key of the index. */
  readonly #at = recentEntries<string, Milliseconds>(mostIndexes)
  /** How often clients asked, by the key of the architecture's directory. */
  readonly #times = recentEntries<string, number>(mostArchitectures)

  /** A client asks for the index with this key. */
  note(key: string, now: Milliseconds): void {
    this.#at.set(key, now)
    const directory = architectureOf(key)
    if (directory !== undefined) this.#times.set(directory, this.times(key) + 1)
  }

  /** When a client asked for the index with this key last, as far as that is remembered. */
  at(key: string): Milliseconds | undefined {
    return this.#at.get(key)
  }

  /** The index with this key counts as never asked for. */
  forget(key: string): void {
    this.#at.delete(key)
  }

  /** How often clients have asked for indexes of the architecture that an index is of. */
  times(key: string): number {
    return this.#times.get(architectureOf(key) ?? '') ?? 0
  }
}

/** `…/main/binary-amd64` or `…/main/source`: what the indexes of one architecture lie in. */
function architectureOf(key: string): string | undefined {
  return /^.*\/(?:binary-[^/]+|source)(?=\/)/.exec(key)?.[0]
}

/** What the directory of that architecture lies in, beside those of others: `…/main`. */
export function componentOf(key: string): string {
  const directory = architectureOf(key) ?? ''
  return directory.slice(0, directory.lastIndexOf('/'))
}
