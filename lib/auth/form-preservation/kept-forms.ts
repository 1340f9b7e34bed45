/**
 * Keeps forms that came without a session, until their senders have logged in.
 *
 * They are held in memory, sealed with a key that only the sender's cookie has, and handed out once, to the user who sent them,
 * for the address they were for. In a browser that has not been signed in before the sender is the user who signs in there by
 * that very login. Bounded in size, number and time.
 *
 * Instances that share a store put each form there as well, since the browser may come back to another of them. The store then
 * decides who gets a form, which is handed out once; while it is away each instance has those that came to it.
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

export interface SealedForm extends Place, Omit<Form, 'content'> {
  readonly sealed: string
  /** The network of the client whose user is not known. */
  readonly network: string
}

/** A form on a shelf of this instance. */
interface Shelved extends SealedForm {
  /** Whether the shared store has it too. */
  inStore: boolean
}

/** Where instances share their forms. No call throws, or takes long. */
export interface FormStore {
  /** Puts a form there; false when it is not there in the end. */
  put(id: string, kept: SealedForm, lifetime: Milliseconds): Promise<boolean>
  /** Where a form goes and whose it is; `owner`'s when it was of no user. */
  bind(id: string, owner: string): Promise<Place | undefined | 'away'>
  /** Takes a form out: of several instances that ask one gets it. */
  take(id: string): Promise<SealedForm | undefined | 'away'>
  /** Removes a form. */
  forget(id: string): void
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
  readonly #store: FormStore | undefined
  /** Forms by the ID of the login; the oldest go first, since only `set` counts as use. */
  readonly #known: LRUCache<string, Shelved>
  readonly #unknown: LRUCache<string, Shelved>

  constructor(clock: Clock, random: (size: number) => Buffer, store?: FormStore) {
    this.#random = random
    this.#store = store
    const common = {
      sizeCalculation: ({ sealed, contentType }: Shelved) =>
        sealed.length + contentType.length + OVERHEAD,
      ttlResolution: 0,
      perf: clock,
      // What one instance has in the store is bounded as its shelves are.
      disposeAfter: ({ inStore }: Shelved, id: string, reason: LRUCache.DisposeReason) => {
        if (inStore && reason === 'evict') store?.forget(id)
      },
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
    for (const [oldest] of own.slice(MOST_OF_ONE - 1)) this.#remove(oldest)
    const kept: Shelved = { ...place, ...about, sealed, inStore: false }
    shelf.set(id, kept, { ttl: lifetime })
    void this.#store?.put(id, kept, lifetime).then(there => {
      if (!there) return
      const now = this.#find(id)
      if (now === undefined) this.#store?.forget(id)
      else now.inStore = true
    })
    return key.toString('base64url')
  }

  /** Keeps the form of a login under the ID of the one that takes its place; undefined when there is none. */
  async move(
    id: string,
    key: string,
    to: string,
    lifetime: Milliseconds,
  ): Promise<string | undefined> {
    const kept = await this.#claim(id)
    const form = kept && opened(kept, id, key)
    return form && this.put(to, form, kept, lifetime)
  }

  /**
   * Where the form of a login goes, if `owner` may send it. A form of another user is thrown away; one whose user was not known
   * is `owner`'s from now on.
   */
  async placeOf(id: string, owner: string): Promise<{ readonly target: string } | Withheld> {
    const own = this.#find(id)
    if (own !== undefined && own.owner === undefined) {
      this.#unknown.set(id, { ...own, owner }, { noUpdateTTL: true })
    }
    const asked = this.#decides(own) ? await this.#store?.bind(id, owner) : 'away'
    const place = asked === 'away' ? own : asked
    if (place === undefined) {
      this.#delete(id)
      return { because: 'gone' }
    }
    if ((place.owner ?? owner) === owner) return { target: place.target }
    this.#remove(id)
    return { because: 'other-user' }
  }

  /** Hands a form out, once; it is gone afterwards even when something does not fit. */
  async take(
    id: string,
    key: string,
    { owner, target }: { readonly owner: string; readonly target: string },
  ): Promise<Form | Withheld> {
    const kept = await this.#claim(id)
    if (kept === undefined) return { because: 'gone' }
    if ((kept.owner ?? owner) !== owner) return { because: 'other-user' }
    const form = kept.target === target ? opened(kept, id, key) : undefined
    return form ?? { because: 'gone' }
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#known.calculatedSize + this.#unknown.calculatedSize
  }

  /** Takes a form out, here and in the store. */
  async #claim(id: string): Promise<SealedForm | undefined> {
    const own = this.#find(id)
    // Before any wait, or two requests could have it.
    this.#delete(id)
    const found = this.#decides(own) ? await this.#store?.take(id) : 'away'
    return found === 'away' ? own : found
  }

  /** Whether the store decides about a form: it has it, or this instance does not. */
  #decides(own: Shelved | undefined): boolean {
    return this.#store !== undefined && own?.inStore !== false
  }

  #find(id: string): Shelved | undefined {
    return this.#known.peek(id) ?? this.#unknown.peek(id)
  }

  #delete(id: string): void {
    this.#known.delete(id)
    this.#unknown.delete(id)
  }

  /** Throws a form away. */
  #remove(id: string): void {
    this.#delete(id)
    this.#store?.forget(id)
  }
}

function opened(
  { sealed, contentType, origin }: SealedForm,
  id: string,
  key: string,
): Form | undefined {
  const bytes = Buffer.from(key, 'base64url')
  if (bytes.length !== 32) return undefined
  const content = unseal(sealed, purposeOf(id), [{ kid: 'form', key: bytes }])
  return content && { contentType, content, ...(origin === undefined ? {} : { origin }) }
}

function purposeOf(id: string): string {
  return `authproxy form 1 ${id}`
}
