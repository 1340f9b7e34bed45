/**
 * What a fetch is asked for and what it finds, as values.
 */
import { Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Entry } from '../store/entry.ts'

/** What is to be fetched. */
export interface Wanted {
  readonly key: string
  readonly uri: TargetUri
  readonly archive: ArchivePath
  /** What the store has; the origin is then asked whether it still holds. */
  readonly stored: Entry | undefined
  /** The client insists on the origin's own word, so caches on the way must not answer. */
  readonly insist: boolean
}

/** Content on its way: its head is known, its bytes are arriving. */
export interface Filling {
  readonly draft: EntryDraft
  readonly length: number | undefined
  readonly download: Download
  /** Whether the origin's head shows that this is not what is stored. */
  readonly changed: boolean
  /** Never rejects. */
  readonly settled: Promise<Settled>
}

/** What came of a filling: stored, whole but not stored, or never whole. */
export type Settled =
  | { readonly kind: 'stored'; readonly entry: Entry }
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed' }

/** The origin has something else to say than content. */
export interface Answered {
  readonly kind: 'answered'
  readonly status: number
  readonly fields: Fields
  /** Whether the next question would get the same answer. */
  readonly certain: boolean
}

/** What the origin's head amounts to. */
export type Found =
  | { readonly kind: 'validated'; readonly entry: Entry }
  | { readonly kind: 'filling'; readonly filling: Filling }
  | Answered
  | { readonly kind: 'failed'; readonly failure: Failure }

export interface Fetching {
  /** Never rejects. */
  readonly found: Promise<Found>
  /** Whether another request had begun it. */
  readonly joined: boolean
}

/** RFC 9111 section 4.3.1: ask with every validator the origin itself gave. */
export function conditionalFields(wanted: Wanted): Fields {
  const insist = wanted.insist ? 'max-age=0' : undefined
  if (wanted.stored === undefined) return Fields.of(['Cache-Control', insist])
  const stored = Fields.of(...wanted.stored.fields)
  return Fields.of(
    ['Cache-Control', insist],
    ['If-None-Match', stored.get('ETag')],
    ['If-Modified-Since', stored.get('Last-Modified')],
  )
}

/** Whether a head alone shows other content than is stored: by its length, or a validator the origin gave both times. */
export function differs(draft: EntryDraft, length: number | undefined, stored: Entry): boolean {
  if (length !== undefined && length !== stored.size) return true
  const now = Fields.of(...draft.fields)
  const before = Fields.of(...stored.fields)
  return ['ETag', 'Last-Modified'].some(name => {
    const [a, b] = [before.get(name), now.get(name)]
    return a !== undefined && b !== undefined && a !== b
  })
}

/** Fetches under way at once. Clients may ask for any number of files, and leave. */
export const mostFetches = 4096

/** What is found when there are as many. */
export const full: Found = {
  kind: 'failed',
  failure: new Failure(`${mostFetches} fetches are under way`, {
    code: 'TOO_MANY_FETCHES',
    fault: 'upstream',
    publicText: 'This proxy is fetching as much as it can; try again.',
  }),
}
