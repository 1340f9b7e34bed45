/**
 * Remembers the last Release file of a suite that a client got. The client's update continues with the indexes that this Release file
 * names, and the client installs packages of these indexes for days.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Peer } from '../../http/message/message.ts'
import { recentEntries } from '../../recent.ts'

/** A client counts as updating for this time after it got a Release file. An update takes minutes at most. */
const lifetime: Milliseconds = 10 * 60 * 1000
/** At most this many records are remembered. A client and a suite have two of them. */
const capacity = 32_768

/** The text instead of the SHA-256 for a Release file that the client has from another server. The files that it names are not known. */
export const anotherRelease = 'another'

/** The text in place of the SHA-256 for a client that has learnt that there is no Release file. */
export const noRelease = 'none'

/** The address and the port of a client. */
export type Client = Pick<Peer, 'address' | 'port'>

export class GivenReleases {
  readonly #clock: Clock
  readonly #given = recentEntries<string, { readonly digest: string; readonly at: Milliseconds }>(
    capacity,
  )

  /** Whether a client has learnt so since the start. */
  hasUnreleased = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Notes that a client gets the Release file with this SHA-256 of the suite in the directory with this key. */
  note(client: Client, suite: string, digest: string): void {
    const given = { digest, at: this.#clock.elapsed() }
    if (digest === noRelease) this.hasUnreleased = true
    for (const name of namesOf(client, suite)) this.#given.set(name, given)
  }

  /** The SHA-256 of the Release file that the client got, or `anotherRelease`; undefined when it got none lately. */
  to(client: Client, suite: string): string | undefined {
    for (const name of namesOf(client, suite)) {
      const given = this.#given.get(name)
      if (given !== undefined && this.#clock.elapsed() - given.at <= lifetime) return given.digest
    }
    return undefined
  }

  /** Whether the last that is remembered of the client and the suite is that there is no Release file. */
  lacks(client: Client, suite: string): boolean {
    const names = namesOf(client, suite)
    const last = names.map(name => this.#given.get(name)).find(given => given !== undefined)
    return last?.digest === noRelease
  }

  /** Whether the client got a Release file of the suite at any time that is still remembered. */
  has(client: Client, suite: string): boolean {
    return namesOf(client, suite).some(name => this.#given.has(name))
  }
}

/** The names of a client's records: its connection, which lasts for an update, and its address, which several clients may share. */
function namesOf({ address, port }: Client, suite: string): readonly string[] {
  return [`${address} ${port} ${suite}`, `${address} ${suite}`]
}
