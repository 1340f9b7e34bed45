/**
 * What several nodes share by way of a bucket: contents by digest, entries by key, who fetches what, and which Release file each suite has.
 * Interfaces alone: `opening.ts` makes one, and is loaded where `shared_store` is set.
 *
 * # Rules
 * 1. Losing the store costs no client what it has without one: no method rejects, and none takes longer than `patience`.
 * 2. A lease saves a fetch and decides nothing. What a content is, its digest says; the reader of `blob` compares.
 * 3. Moments of leases are by the store's clock, which is one for all nodes.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Source } from '../../bytes/source.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Entry } from '../store/entry.ts'

/** The longest time for which a client waits for an answer of the store, and for each piece of a content. */
export const patience: Milliseconds = 2000

export interface SharedStore {
  /** The content of a digest from byte `first` on; undefined: it is not there, it has not `size` bytes, or the store rests. */
  blob(digest: string, options: BlobOptions): Promise<SharedContent | undefined>
  /** What another node has stored under a key; its content may be gone. The key and the shape were checked, nothing besides. */
  entry(key: string): Promise<Entry | undefined>
  /** Asks for the right to fetch a key. */
  lease(key: string): Promise<Lease>
  /** The adopted generation of a suite. It is remembered for a second, but for a `fresh` question. */
  suite(id: string, options?: { readonly fresh?: boolean }): Promise<SuitePointer | undefined>
  /** Compare and swap: `lost` when the pointer is not `from` any more. */
  swap(id: string, from: SuitePointer | undefined, to: SuiteRecord): Promise<Swapped>
  /**
   * Has a stored content and its entry uploaded behind the answers. What stands under the key when its turn comes is read from the local
   * store; with `first` this content goes before the others, whatever stands there. Settles when it is in the bucket, or with false when
   * the upload was given up.
   */
  offer(entry: Entry, options?: { readonly first?: boolean }): Promise<boolean>
  /** The bytes were not what the digest says: the object is removed from the bucket and counted. */
  wrong(digest: string): void
  readonly state: SharedState
}

export interface BlobOptions {
  /** The first byte that is wanted; 0 unless told. */
  readonly first?: number
  /** Bytes of the whole content, where they are known. */
  readonly size?: number
  /** Its end closes the content. */
  readonly lifetime: Lifetime
}

export interface SharedContent {
  /** Bytes of the whole content. */
  readonly size: number
  /** The first byte that `source` gives. */
  readonly first: number
  /** Read it to its end or close it. It breaks off with an OriginFailure. */
  readonly source: Source
}

/**
 * - held: this node fetches. It is renewed until `release`, which lets go of it once what was offered under the key is uploaded.
 * - taken: another node fetches, and the lease lasts until then unless it is renewed. `peer` is its `peer_url`.
 * - none: leases are off, or the store rests: the origin is asked.
 */
export type Lease =
  | { readonly kind: 'held'; release(): void }
  | { readonly kind: 'taken'; readonly peer: TargetUri | undefined; readonly left: Milliseconds }
  | { readonly kind: 'none' }

/** The generation of a suite that a node has adopted. */
export interface SuiteRecord {
  /** The entries of InRelease, or of Release and Release.gpg. */
  readonly release: readonly Entry[]
  /** The signed Date of the Release file, milliseconds since the epoch. */
  readonly date: Milliseconds
  /** When it was adopted, by the clock of the node. */
  readonly adopted: Milliseconds
  /** The name of the node. */
  readonly node: string
}

export interface SuitePointer extends SuiteRecord {
  /** What the store calls this version of the pointer; "" when it gives none. */
  readonly etag: string
}

export type Swapped = 'swapped' | 'lost' | 'away'

/** What is known of the store: for status, the page and metrics. */
export interface SharedState {
  /** Its URL, without credentials. */
  readonly url: string
  /** Why it rests; undefined when it answers. */
  readonly resting: string | undefined
  /** Why nothing is written to it now; undefined when it takes what is written. */
  readonly unwritable: string | undefined
  /** `unknown` until the engine has been tried. */
  readonly leases: 'on' | 'off' | 'unknown'
  /** Requests by what they did and what came of them. */
  readonly requests: ReadonlyMap<SharedOperation, ReadonlyMap<SharedOutcome, number>>
  /** Bytes of contents. */
  readonly received: number
  readonly sent: number
  readonly uploads: {
    readonly waiting: number
    readonly done: number
    /** Given up because too many waited. */
    readonly dropped: number
  }
  /** Contents that were not what their digests say. */
  readonly wrong: number
  /** Objects whose time in the bucket was begun anew. */
  readonly renewed: number
  /** Bytes of the largest content that is shared. */
  readonly largest: number
  /** How far the store's clock is ahead of ours, as its Date says. */
  readonly ahead: Milliseconds
}

export type SharedOperation = 'get' | 'head' | 'put' | 'delete' | 'copy'

/**
 * - done: it did what it was asked, or has not changed
 * - absent: there is no such object
 * - precondition: another node was first
 * - unsupported: the engine does not know this kind of request
 * - denied: the credentials do not allow it
 * - full: it takes no more
 * - failed: it answered with an error, or with something that cannot be used
 * - away: no answer in time
 */
export type SharedOutcome =
  | 'done'
  | 'absent'
  | 'precondition'
  | 'unsupported'
  | 'denied'
  | 'full'
  | 'failed'
  | 'away'
