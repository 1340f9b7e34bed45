/**
 * Keeps forms that came without a session, until their senders have logged in.
 *
 * They are held in memory, sealed with a key that only the sender's cookie has, and handed out once, to the user who sent them,
 * for the address they were for. In a browser that has not been signed in before the sender is the user who signs in there by
 * that very login. Bounded in size, number and time.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { seal, unseal } from '../keys/seal.ts'

/** A form post, to be sent again after the login. */
export interface Form {
  /** Content-Type as it came: application/x-www-form-urlencoded, multipart/form-data or text/plain. */
  readonly contentType: string
  readonly content: Buffer
  /** The origin whose page posted it, when that is not ours; `null` when the browser does not say. */
  readonly origin?: string
}

/** What a form belongs to. */
interface Place {
  /** Who sent it (owner.ts). Undefined in a browser that has not been signed in before: the user who signs in there now. */
  readonly owner: string | undefined
  /** Path and query it was posted to. */
  readonly target: string
}

/** Why a form is not sent: none is kept, or another user is signed in now. */
export type Withheld = { readonly because: 'gone' | 'other-user' }

interface Kept extends Place, Omit<Form, 'content'> {
  readonly sealed: string
  /** The network of the client whose user is not known. */
  readonly network: string
}

/** Bytes an entry costs besides its texts. */
const OVERHEAD = 512
/** Bytes and number of all forms together, of users we know and of others: these displace none of those. */
const KNOWN = { maxSize: 32 * 1024 * 1024, max: 1000 }
const UNKNOWN = { maxSize: 16 * 1024 * 1024, max: 500 }
/** Forms of one user, or of one network when the user is not known, so that they do not displace those of others. */
const MOST_OF_ONE = 4

export class KeptForms {
  readonly #random: (size: number) => Buffer
  /** Forms by the ID of the login; the oldest go first, since only `set` counts as use. */
  readonly #known: LRUCache<string, Kept>
  readonly #unknown: LRUCache<string, Kept>

  constructor(clock: Clock, random: (size: number) => Buffer) {
    this.#random = random
    const common = {
      sizeCalculation: ({ sealed, contentType }: Kept) =>
        sealed.length + contentType.length + OVERHEAD,
      ttlResolution: 0,
      perf: clock,
    }
    this.#known = new LRUCache({ ...KNOWN, ...common })
    this.#unknown = new LRUCache({ ...UNKNOWN, ...common })
  }

  /** Keeps a form under the ID of a login and answers its key. `network` is that of the client. */
  put(
    id: string,
    { content, ...about }: Form,
    place: Place & { readonly network: string },
    lifetime: Milliseconds,
  ): string {
    const { owner, network } = place
    const key = this.#random(32)
    const sealed = seal(content, purposeOf(id), [{ kid: 'form', key }], this.#random)
    const shelf = owner === undefined ? this.#unknown : this.#known
    const own = [...shelf].filter(([, kept]) =>
      owner === undefined ? kept.network === network : kept.owner === owner,
    )
    for (const [oldest] of own.slice(MOST_OF_ONE - 1)) shelf.delete(oldest)
    shelf.set(id, { ...place, ...about, sealed }, { ttl: lifetime })
    return key.toString('base64url')
  }

  /** Keeps the form of a login under the ID of the one that takes its place; undefined when there is none. */
  move(id: string, key: string, to: string, lifetime: Milliseconds): string | undefined {
    const kept = this.#find(id)
    this.#delete(id)
    const form = kept && opened(kept, id, key)
    return form && this.put(to, form, kept, lifetime)
  }

  /**
   * Where the form of a login goes, if `owner` may send it. A form of another user is thrown away; one whose user was not known
   * is `owner`'s from now on.
   */
  placeOf(id: string, owner: string): { readonly target: string } | Withheld {
    const kept = this.#find(id)
    if (kept === undefined) return { because: 'gone' }
    if (kept.owner === undefined) this.#unknown.set(id, { ...kept, owner }, { noUpdateTTL: true })
    if ((kept.owner ?? owner) === owner) return { target: kept.target }
    this.#delete(id)
    return { because: 'other-user' }
  }

  /** Hands a form out, once; it is gone afterwards even when something does not fit. */
  take(
    id: string,
    key: string,
    { owner, target }: { readonly owner: string; readonly target: string },
  ): Form | Withheld {
    const kept = this.#find(id)
    this.#delete(id)
    if (kept === undefined) return { because: 'gone' }
    if ((kept.owner ?? owner) !== owner) return { because: 'other-user' }
    const form = kept.target === target ? opened(kept, id, key) : undefined
    return form ?? { because: 'gone' }
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#known.calculatedSize + this.#unknown.calculatedSize
  }

  #find(id: string): Kept | undefined {
    return this.#known.peek(id) ?? this.#unknown.peek(id)
  }

  #delete(id: string): void {
    this.#known.delete(id)
    this.#unknown.delete(id)
  }
}

function opened({ sealed, contentType, origin }: Kept, id: string, key: string): Form | undefined {
  const bytes = Buffer.from(key, 'base64url')
  if (bytes.length !== 32) return undefined
  const content = unseal(sealed, purposeOf(id), [{ kid: 'form', key: bytes }])
  return content && { contentType, content, ...(origin === undefined ? {} : { origin }) }
}

function purposeOf(id: string): string {
  return `authproxy form 1 ${id}`
}
