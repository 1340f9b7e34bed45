/**
 * The interface of a store that several nodes share in a bucket: contents by digest, entries by key, and the Release file of each suite.
 * `opening.ts` makes the store; only a program with the setting `shared_store` loads it.
 *
 * # Rules
 * 1. Without the store a client gets everything as if there were none: no method rejects, and a client waits at most `sharedPatience` for each.
 * 2. The digest alone says whether a content is right, and the reader of `blob` compares it.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Lifetime } from '../../../async/lifetime.ts'
import type { Source } from '../../../bytes/source.ts'
import type { Entry } from '../../store/entry.ts'

/** The longest time for which a client waits for an answer of the store, and for each piece of a content. */
export const sharedPatience: Milliseconds = 2000

export interface SharedStore {
  /** The content of a digest; undefined when it is missing, when it does not have `size` bytes, or when the store rests. */
  blob(digest: string, options: BlobOptions): Promise<SharedContent | undefined>
  /** The entry that another node has stored under a key. Only its key and its form were checked, and its content may be gone. */
  entry(key: string): Promise<Entry | undefined>
  /** The adopted generation of a suite. It is remembered for a second; `fresh` asks the store in any case. */
  suite(id: string, options?: { readonly fresh?: boolean }): Promise<SuitePointer | undefined>
  /** Compare and swap: `lost` when the pointer is no longer `from`. */
  swap(id: string, from: SuitePointer | undefined, to: SuiteRecord): Promise<SwapResult>
  /**
   * Has a stored content and its entry uploaded in the background. The entry of the key is read from the local store when its turn comes.
   * With `first` the given entry itself is uploaded, before the others. Settles with true when it is in the bucket, and with false when the
   * upload was given up.
   */
  offer(entry: Entry, options?: { readonly first?: boolean }): Promise<boolean>
  /** Notes that the bytes do not have the digest: the object is removed from the bucket and counted. */
  wrong(digest: string): void
  readonly state: SharedState
}

export interface BlobOptions {
  /** Bytes of the whole content, if they are known. */
  readonly size?: number | undefined
  /** The end of the lifetime closes the content. */
  readonly lifetime: Lifetime
}

export interface SharedContent {
  /** Bytes of the whole content. */
  readonly size: number
  /** The caller must read it to its end or close it. It fails with an OriginFailure. */
  readonly source: Source
}

/** The generation of a suite that a node has adopted. */
export interface SuiteRecord {
  /** The entries of InRelease, or of Release and Release.gpg. */
  readonly release: readonly Entry[]
  /** The signed Date of the Release file, milliseconds since the epoch. */
  readonly date: Milliseconds
  /** When it was adopted, by the clock of the node. */
  readonly adopted: Milliseconds
  readonly node: string
}

export interface SuitePointer extends SuiteRecord {
  /** The entity tag of this version of the pointer; "" when the store gives none. */
  readonly etag: string
}

/**
 * - swapped: the pointer was replaced
 * - lost: another node was first
 * - away: the store failed
 */
export type SwapResult = 'swapped' | 'lost' | 'away'

/** The state of the store for status, page and metrics. */
export interface SharedState {
  /** Its URL, without credentials. */
  readonly url: string
  /** The reason why the store rests; undefined when it answers. */
  readonly resting: string | undefined
  /** The reason why it takes no writes now; undefined when it takes them. */
  readonly unwritable: string | undefined
  /** Whether the store obeys conditions of writes; `unknown` until it has been tried. */
  readonly conditionalWrites: 'on' | 'off' | 'unknown'
  /** The number of requests by operation and outcome. */
  readonly requests: ReadonlyMap<SharedOperation, ReadonlyMap<SharedOutcome, number>>
  /** Bytes of contents that were received, and bytes that were sent. */
  readonly received: number
  readonly sent: number
  readonly uploads: {
    readonly waiting: number
    readonly done: number
    /** Uploads that were given up. */
    readonly dropped: number
  }
  /** The number of contents that did not have their digest. */
  readonly wrong: number
  readonly renewed: number
  /** Bytes of the largest content that is shared. */
  readonly largest: number
  /** The store's clock minus the clock of this node, by the Date of its answers. */
  readonly ahead: Milliseconds
}

export type SharedOperation = 'get' | 'head' | 'put' | 'delete' | 'copy'

/**
 * - done: the request succeeded, or the object has not changed
 * - absent: there is no such object
 * - precondition: another node was first
 * - unsupported: the engine does not know this kind of request
 * - denied: the credentials do not allow the request
 * - full: the store has no room
 * - failed: the store answered with an error, or with a response that cannot be used
 * - away: the store did not answer in time
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
