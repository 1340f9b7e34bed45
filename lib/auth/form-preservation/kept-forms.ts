/**
 * Form posts whose session had ended, kept until their sender has logged in again. Held in memory, sealed with a key that only
 * the sender's cookie has; handed out once, to the one they are of, for the address they were for. Bounded in size, number
 * and time.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { seal, unseal } from '../saml/seal.ts'

/** A form post to be sent again after the login. */
export interface Stash {
  /** Content-Type as it came: application/x-www-form-urlencoded, multipart/form-data or text/plain. */
  readonly contentType: string
  readonly content: Buffer
}

/** What a stash belongs to. */
export interface StashPlace {
  /** Whose it is: see stash-owner.ts. */
  readonly owner: string
  /** Path and query it was posted to. */
  readonly target: string
}

export type Taken =
  | { readonly stash: Stash }
  /** Nothing is kept (any more), or somebody else is signed in now. */
  | { readonly because: 'gone' | 'other-user' }

interface Kept extends StashPlace {
  readonly contentType: string
  readonly sealed: string
  readonly until: Milliseconds
  /** What it costs, so that many small ones count for what they are. */
  readonly size: number
}

/** Bytes an entry costs besides its texts. */
const OVERHEAD = 512
/** Bytes of all stashes together. */
const MOST_BYTES = 32 * 1024 * 1024
const MOST = 1000
/** One person's forms take nobody else's room. */
const MOST_OF_ONE = 4

export class StashRoom {
  readonly #clock: Clock
  readonly #random: (size: number) => Buffer
  readonly #kept = new Map<string, Kept>()
  #bytes = 0

  constructor(clock: Clock, random: (size: number) => Buffer) {
    this.#clock = clock
    this.#random = random
  }

  /** Keeps a stash under the ID of a login and answers its key; the oldest go when there is no room. */
  put(id: string, stash: Stash, place: StashPlace, lifetime: Milliseconds): string {
    const key = this.#random(32)
    const sealed = seal(stash.content, purposeOf(id), [{ kid: 'stash', key }], this.#random)
    const { contentType } = stash
    const size = sealed.length + contentType.length + OVERHEAD
    this.#sweep(size, place.owner)
    const until = this.#clock.now() + lifetime
    const { owner, target } = place
    this.#kept.set(id, { owner, target, contentType, sealed, until, size })
    this.#bytes += size
    return key.toString('base64url')
  }

  /** Where the form of a login is to go to, if `owner` may send it. What is another's is thrown away. */
  placeOf(
    id: string,
    owner: string,
  ): { readonly target: string } | { readonly because: 'gone' | 'other-user' } {
    const kept = this.#kept.get(id)
    if (kept === undefined || kept.until <= this.#clock.now()) return { because: 'gone' }
    if (kept.owner === owner) return { target: kept.target }
    this.#drop(id, kept)
    return { because: 'other-user' }
  }

  /** Hands a stash out, once; whatever does not fit, it is gone afterwards. */
  take(id: string, key: string, { owner, target }: StashPlace): Taken {
    const kept = this.#kept.get(id)
    if (kept === undefined) return { because: 'gone' }
    this.#drop(id, kept)
    if (kept.owner !== owner) return { because: 'other-user' }
    const bytes = Buffer.from(key, 'base64url')
    const inTime = kept.until > this.#clock.now()
    if (!inTime || bytes.length !== 32 || kept.target !== target) return { because: 'gone' }
    const content = unseal(kept.sealed, purposeOf(id), [{ kid: 'stash', key: bytes }])
    if (content === undefined) return { because: 'gone' }
    return { stash: { contentType: kept.contentType, content } }
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes
  }

  #sweep(wanted: number, owner: string): void {
    const now = this.#clock.now()
    const own = [...this.#kept].filter(([, kept]) => kept.owner === owner)
    for (const [id, kept] of own.slice(0, Math.max(0, own.length - MOST_OF_ONE + 1))) {
      this.#drop(id, kept)
    }
    for (const [id, kept] of this.#kept) {
      const full = this.#bytes + wanted > MOST_BYTES || this.#kept.size >= MOST
      if (kept.until <= now || full) this.#drop(id, kept)
    }
  }

  #drop(id: string, kept: Kept): void {
    this.#kept.delete(id)
    this.#bytes -= kept.size
  }
}

function purposeOf(id: string): string {
  return `authproxy stash 1 ${id}`
}
