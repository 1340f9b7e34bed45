/**
 * Keeps forms whose session had ended, until their senders have logged in again.
 *
 * They are held in memory, sealed with a key that only the sender's cookie has, and handed out once, to the user who sent them,
 * for the address they were for. Bounded in size, number and time.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { seal, unseal } from '../keys/seal.ts'

/** A form post, to be sent again after the login. */
export interface Form {
  /** Content-Type as it came: application/x-www-form-urlencoded, multipart/form-data or text/plain. */
  readonly contentType: string
  readonly content: Buffer
}

/** What a form belongs to. */
interface Place {
  /** Who sent it (owner.ts). */
  readonly owner: string
  /** Path and query it was posted to. */
  readonly target: string
}

/** Why a form is not sent: none is kept, or another user is signed in now. */
export type Withheld = { readonly because: 'gone' | 'other-user' }

interface Kept extends Place {
  readonly contentType: string
  readonly sealed: string
}

/** Bytes an entry costs besides its texts. */
const OVERHEAD = 512
/** Bytes of all forms together. */
const MOST_BYTES = 32 * 1024 * 1024
const MOST = 1000
/** Forms of one user, so that they do not displace those of others. */
const MOST_OF_ONE = 4

export class KeptForms {
  readonly #random: (size: number) => Buffer
  /** By the ID of the login; the oldest go first, since only `set` counts as use. */
  readonly #kept: LRUCache<string, Kept>

  constructor(clock: Clock, random: (size: number) => Buffer) {
    this.#random = random
    this.#kept = new LRUCache({
      max: MOST,
      maxSize: MOST_BYTES,
      sizeCalculation: ({ sealed, contentType }) => sealed.length + contentType.length + OVERHEAD,
      ttlResolution: 0,
      perf: clock,
    })
  }

  /** Keeps a form under the ID of a login and answers its key. */
  put(id: string, { contentType, content }: Form, place: Place, lifetime: Milliseconds): string {
    const key = this.#random(32)
    const sealed = seal(content, purposeOf(id), [{ kid: 'form', key }], this.#random)
    const own = [...this.#kept].filter(([, { owner }]) => owner === place.owner)
    for (const [oldest] of own.slice(MOST_OF_ONE - 1)) this.#kept.delete(oldest)
    this.#kept.set(id, { ...place, contentType, sealed }, { ttl: lifetime })
    return key.toString('base64url')
  }

  /** Where the form of a login goes, if `owner` may send it. A form of another user is thrown away. */
  placeOf(id: string, owner: string): { readonly target: string } | Withheld {
    const kept = this.#kept.peek(id)
    if (kept === undefined) return { because: 'gone' }
    if (kept.owner === owner) return { target: kept.target }
    this.#kept.delete(id)
    return { because: 'other-user' }
  }

  /** Hands a form out, once; it is gone afterwards even when something does not fit. */
  take(id: string, key: string, { owner, target }: Place): Form | Withheld {
    const kept = this.#kept.peek(id)
    this.#kept.delete(id)
    if (kept === undefined) return { because: 'gone' }
    if (kept.owner !== owner) return { because: 'other-user' }
    const bytes = Buffer.from(key, 'base64url')
    if (bytes.length !== 32 || kept.target !== target) return { because: 'gone' }
    const content = unseal(kept.sealed, purposeOf(id), [{ kid: 'form', key: bytes }])
    return content === undefined ? { because: 'gone' } : { contentType: kept.contentType, content }
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#kept.calculatedSize
  }
}

function purposeOf(id: string): string {
  return `authproxy form 1 ${id}`
}
