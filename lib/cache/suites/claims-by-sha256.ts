/**
 * Turns claims by SHA-512 into claims by SHA-256, which is the name of contents in the store.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { recentEntries } from '../../recent.ts'
import type { Entry } from '../store/entry.ts'
import type { Adoptions } from './adoptions.ts'
import { type Claim, type Content, halfOf, type NamedContent } from './generation.ts'

interface ClaimsParts {
  readonly clock: Clock
  /** How long a request waits for the SHA-512 of the stored content. */
  readonly wait: () => Milliseconds
}

/** The SHA-512 of at most this many contents are remembered. */
const mostHashed = 10_000

export class ClaimsBySha256 {
  readonly #parts: ClaimsParts
  readonly #adoptions: Pick<Adoptions, 'sha512'>
  /** The SHA-512 of contents by their SHA-256. A promise that found none is removed. */
  readonly #sha512s = recentEntries<string, Promise<string | undefined>>(mostHashed)

  constructor(parts: ClaimsParts, adoptions: Pick<Adoptions, 'sha512'>) {
    this.#parts = parts
    this.#adoptions = adoptions
  }

  /**
   * A claim by SHA-256, when its content is the stored one or is in use, else the claim as it was. Of several right contents the stored
   * one comes first. `unknown` when the stored content cannot be hashed in time.
   */
  of(claim: Claim, stored: Entry | undefined): Claim | 'unknown' | Promise<Claim | 'unknown'> {
    return claim.others === undefined
      ? this.#ofOne(claim, stored)
      : this.#ofSeveral(claim, claim.others, stored)
  }

  async #ofSeveral(
    { others: _, by, ...claim }: Claim,
    others: readonly NamedContent[],
    stored: Entry | undefined,
  ): Promise<Claim | 'unknown'> {
    const all: Claim[] = []
    for (const content of [{ ...claim, by }, ...others]) {
      const found = await this.#ofOne({ ...claim, by: undefined, ...content }, stored)
      if (found === 'unknown') return found
      all.push(found)
    }
    const place = all.findIndex(({ digest }) => digest === stored?.digest)
    const [first] = all.splice(Math.max(0, place), 1)
    return first === undefined ? 'unknown' : { ...first, others: all }
  }

  #ofOne(claim: Claim, stored: Entry | undefined): Claim | 'unknown' | Promise<Claim | 'unknown'> {
    if (claim.by === undefined) return claim
    const { by: _, ...bySha256 } = claim
    const inUse = claim.generation.contents.find(
      ({ sha512 }) => sha512 !== undefined && halfOf(sha512) === claim.digest,
    )
    if (inUse !== undefined) return { ...bySha256, digest: inUse.digest }
    if (stored === undefined || stored.size !== claim.size) return claim
    return this.#sha512Of(stored).then(sha512 => {
      if (sha512 === undefined) return 'unknown'
      return halfOf(sha512) === claim.digest ? { ...bySha256, digest: stored.digest } : claim
    })
  }

  #sha512Of({ digest, size }: Content): Promise<string | undefined> {
    const { clock, wait } = this.#parts
    let found = this.#sha512s.get(digest)
    if (found === undefined) {
      found = this.#adoptions.sha512([{ digest, size }]).then(
        sha512s => sha512s.get(digest),
        () => undefined,
      )
      this.#sha512s.set(digest, found)
      void found.then(sha512 => sha512 ?? this.#sha512s.delete(digest))
    }
    return resultInTime(found, clock, wait())
  }
}
