/**
 * What comes of a fetch: stored, arriving, answered without content, or failed; and the events on the way.
 */
import type { Source } from '../../bytes/source.ts'
import type { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Impostor } from '../archive/path.ts'
import type { EntryDraft, UnstorableReason } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Entry, EntryProof } from '../store/entry.ts'
import type { Answer } from './mirrors.ts'

/** A download and the content for it. */
export interface BegunContent {
  readonly draft: EntryDraft
  readonly download: Download
  readonly length: number | undefined
  /** The digest of a content from the shared store; undefined for content of an origin. */
  readonly digest?: string | undefined
  /** The bytes that have not arrived yet. */
  readonly content: Source
  readonly from: Pick<Answer, 'place' | 'source' | 'near'> & {
    readonly response: Pick<OriginResponse, 'parent'>
  }
}

/** Content that is arriving, whose head is known. */
export interface IncomingContent extends Omit<BegunContent, 'content'> {
  /** The proof by which the content is verified before its last block goes to clients. */
  readonly verified: EntryProof | undefined
  /** Whether the origin's head shows other content than the stored one. */
  readonly changed: boolean
  /** Never rejects. */
  readonly settled: Promise<ContentOutcome>
}

/** A file that is arriving, for the pages. */
export interface IncomingFile {
  readonly key: string
  readonly received: number
  readonly length: number | undefined
}

/** The end of arriving content: it was stored, was complete but not stored, or failed. */
export type ContentOutcome =
  | {
      readonly kind: 'stored'
      readonly entry: Entry
      /** Resolves to whether the content was written to the store. Until then it is read from memory. */
      readonly kept: Promise<boolean>
    }
  | { readonly kind: 'passed'; readonly entry: Entry }
  | { readonly kind: 'failed'; readonly failure: Failure }

/** An answer of the origin without content for the file. */
export interface OriginAnswer {
  readonly kind: 'answered'
  readonly status: number
  readonly fields: Fields
  /** Whether another question would get the same answer. */
  readonly certain: boolean
  /** The parent proxy through which the origin was asked. */
  readonly parent?: string | undefined
}

/** The outcome of a fetch, once the origin's head is known. */
export type FetchOutcome =
  | { readonly kind: 'validated'; readonly entry: Entry }
  | { readonly kind: 'filling'; readonly filling: IncomingContent }
  | OriginAnswer
  | { readonly kind: 'failed'; readonly failure: Failure }

/** The reason why a response is passed on and not stored: its fields forbid storing, or it is plainly not the file. */
export type NotStoredReason = UnstorableReason | Impostor

/** All these reasons. Any other reason for not storing a response is a sentence about the disk. */
export const notStoredReasons: ReadonlySet<string> = new Set<NotStoredReason>([
  ...(['private', 'no-store', 'vary', 'partial', 'page', 'empty', 'format'] as const),
])

/** The handlers for events of the fetcher. */
export interface FetchEvents {
  /** Called with the origin whose content broke off or was wrong. */
  readonly onBroken: (place: TargetUri) => void
  readonly onFetched: (bytes: number) => void
  /** Called for each response that was plainly not the file it was asked for. */
  readonly onImpostor: () => void
  /** Called for each response that is passed on and not stored. */
  readonly onNotStored: (because: NotStoredReason) => void
  /** Called for content that is not what its archive or its name promises. */
  readonly onWrong: (failure: Failure) => void
}

export interface FetchUnderWay {
  /** Never rejects. */
  readonly found: Promise<FetchOutcome>
  readonly joined: boolean
}

/** Whether a head alone shows other content than the stored one, by its length or by a validator that the origin sent both times. */
export function isOtherContent(
  draft: EntryDraft,
  length: number | undefined,
  stored: Entry,
): boolean {
  if (length !== undefined && length !== stored.size) return true
  const now = Fields.of(...draft.fields)
  const before = Fields.of(...stored.fields)
  return ['ETag', 'Last-Modified'].some(name => {
    const [a, b] = [before.get(name), now.get(name)]
    return a !== undefined && b !== undefined && a !== b
  })
}
