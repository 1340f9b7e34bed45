/**
 * Remembers which Release of a suite a client was given last: its update ends with the indexes that Release names, and for days it
 * installs what they name.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Peer } from '../../http/message/message.ts'
import { recentEntries } from '../../recent.ts'

/** An update takes minutes at most, over the slowest line. */
const lifetime: Milliseconds = 10 * 60 * 1000
/** The most that are remembered, two for a client and a suite. */
const capacity = 32_768

/** Stands in place of the SHA-256 of a Release that the client has from elsewhere. */
const another = 'another'

/** Where a client is. */
export type Client = Pick<Peer, 'address' | 'port'>

export class GivenReleases {
  readonly #clock: Clock
  readonly #given = recentEntries<string, { readonly digest: string; readonly at: Milliseconds }>(
    capacity,
  )

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A client gets the Release with this SHA-256 of the suite in the directory with this key. */
  note(client: Client, suite: string, digest: string): void {
    const given = { digest, at: this.#clock.elapsed() }
    for (const name of namesOf(client, suite)) this.#given.set(name, given)
  }

  /** A client has a Release of the suite that was not given to it. Nothing is known of what that one names. */
  noteAnother(client: Client, suite: string): void {
    this.note(client, suite, another)
  }

  /** SHA-256 of the Release the client has, no digest for one from elsewhere; undefined when it was given none lately. */
  to(client: Client, suite: string): string | undefined {
    for (const name of namesOf(client, suite)) {
      const given = this.#given.get(name)
      if (given !== undefined && this.#clock.elapsed() - given.at <= lifetime) return given.digest
    }
    return undefined
  }

  /** Whether the client has a Release of the suite, however old, as far as that is still remembered. */
  has(client: Client, suite: string): boolean {
    return namesOf(client, suite).some(name => this.#given.has(name))
  }
}

/** The names under which a client is known: its connection, which lasts for an update, and its address, which clients may share. */
function namesOf({ address, port }: Client, suite: string): readonly string[] {
  return [`${address} ${port} ${suite}`, `${address} ${suite}`]
}
