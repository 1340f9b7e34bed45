/**
 * What is nearer than the origins of an archive, where several machines share a bucket (`shared_store`): a content that another node has
 * stored, and one that another node is fetching now. The fetcher asks for it before it asks an origin. Interfaces alone:
 * shared/misses/nearer.ts has them.
 */
import type { Lifetime } from '../../async/lifetime.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import type { ExpectedContent } from '../store/content/expectation.ts'
import type { Entry } from '../store/entry.ts'
import type { WantedFile } from './found.ts'
import type { Answer } from './mirrors.ts'

export interface Nearer {
  /** Whether the file may be shared, and an origin need not be asked about it. */
  serves(wanted: WantedFile): boolean
  /** Waits two seconds at most where no other node is fetching the file. Never rejects. */
  find(wanted: WantedFile, question: NearQuestion): Promise<Nearest>
  /** A content of the bucket was not what its digest says. */
  wrong(digest: string): void
}

export interface NearQuestion {
  /** The first byte that is wanted. */
  readonly first: number
  /** What clients have got under this key before: another content does not get its date. */
  readonly previous: EntryDraft | undefined
  readonly lifetime: Lifetime
}

/**
 * - content: it comes from there
 * - stale: a node has stored it, and the origin has to be asked whether it still holds
 * - origin: the origin is asked, by this node alone while it has the lease
 */
export type Nearest =
  | NearContent
  | StaleContent
  | { readonly kind: 'origin'; readonly lease?: { release(): void } | undefined }

export interface NearContent {
  readonly kind: 'content'
  readonly draft: EntryDraft
  readonly expected: ExpectedContent
  /** Of the content in the bucket, its SHA-256. */
  readonly digest?: string | undefined
  /** Bytes of the whole content. */
  readonly size: number | undefined
  /** As an origin would answer: 200, or 206 with the rest. */
  readonly answer: Answer
}

export interface StaleContent {
  readonly kind: 'stale'
  readonly entry: Entry
  /** Whether it may be given when the origin fails. */
  readonly givenStale: boolean
  /** The content with this draft; undefined when it is gone. Never rejects. */
  open(draft: EntryDraft): Promise<NearContent | undefined>
}
