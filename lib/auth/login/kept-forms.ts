/**
 * Keeps forms that came without a session, until their senders have logged in.
 *
 * They stay in memory, sealed with a key that only the sender's cookie has. Each is handed out once, to the user who sent it
 * and for its address. In a browser that has not been signed in before, the sender is the user who signs in by that very login.
 * Size, number and time are bounded.
 *
 * Instances that share a store put each form there as well, since the browser may come back to another of them. The store then
 * decides which instance gets a form. While it is away, each instance has the forms that came to it.
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
  /** The Sec-Fetch-Site of such a form; undefined when the browser sent none. */
  readonly site?: string
}

/** The owner and the address of a form. */
interface Place {
  /** The sender (`ownerOf`). In a browser never signed in before it is undefined: the sender is the user who signs in there. */
  readonly owner: string | undefined
  /** Path and query it was posted to. */
  readonly target: string
}

/** Why a form is not sent: none is kept, or another user is signed in now. */
export type WithheldForm = { readonly because: 'gone' | 'other-user' }

export interface SealedForm extends Place, Omit<Form, 'content'> {
  readonly sealed: string
  /** The network of the client whose user is not known. */
  readonly network: string
}

/** A form in the memory of this instance. */
interface Shelved extends SealedForm {
  /** Whether the shared store has the form too. */
  inStore: boolean
}

/** The store in which instances share their forms. No call throws or takes long. */
export interface FormStore {
  /** Puts a form into the store; false when the store does not have it afterwards. */
  put(id: string, kept: SealedForm, lifetime: Milliseconds): Promise<boolean>
  /** The address and the owner of a form. A form without an owner becomes that of `owner`. */
  bind(id: string, owner: string): Promise<Place | undefined | 'away'>
  /** Takes a form out of the store. When several instances ask, one gets it. */
  take(id: string): Promise<SealedForm | undefined | 'away'>
  forget(id: string): void
}

/** Bytes an entry costs in addition to its texts. */
const OVERHEAD = 512
/** The bytes and the number of all forms, of known users and of others. Forms of others never displace those of known users. */
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
      // The forms of one instance in the store have the same bounds as those in its memory.
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
   * The address of the form of a login, if `owner` may send it. A form of another user is deleted; a form without a known user
   * becomes that of `owner`.
   */
  async placeOf(id: string, owner: string): Promise<{ readonly target: string } | WithheldForm> {
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

  /** Hands a form out once. The form is deleted even when its owner or address does not fit. */
  async take(
    id: string,
    key: string,
    { owner, target }: { readonly owner: string; readonly target: string },
  ): Promise<Form | WithheldForm> {
    const kept = await this.#claim(id)
    if (kept === undefined) return { because: 'gone' }
    if ((kept.owner ?? owner) !== owner) return { because: 'other-user' }
    const form = kept.target === target ? opened(kept, id, key) : undefined
    return form ?? { because: 'gone' }
  }

  /** The bytes of all forms in memory. */
  get bytes(): number {
    return this.#known.calculatedSize + this.#unknown.calculatedSize
  }

  /** Takes a form out, here and in the store. */
  async #claim(id: string): Promise<SealedForm | undefined> {
    const own = this.#find(id)
    // The form is deleted before the first wait, or two requests could get it.
    this.#delete(id)
    const found = this.#decides(own) ? await this.#store?.take(id) : 'away'
    return found === 'away' ? own : found
  }

  /** Whether the store decides about a form: the store has the form, or this instance does not. */
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

  /** Deletes a form here and in the store. */
  #remove(id: string): void {
    this.#delete(id)
    this.#store?.forget(id)
  }
}

function opened(
  { sealed, contentType, origin, site }: SealedForm,
  id: string,
  key: string,
): Form | undefined {
  const bytes = Buffer.from(key, 'base64url')
  if (bytes.length !== 32) return undefined
  const content = unseal(sealed, purposeOf(id), [{ kid: 'form', key: bytes }])
  return (
    content && {
      contentType,
      content,
      ...(origin === undefined ? {} : { origin }),
      ...(site === undefined ? {} : { site }),
    }
  )
}

function purposeOf(id: string): string {
  return `authproxy form 1 ${id}`
}
