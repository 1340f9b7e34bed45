/**
 * Values of a fetch: what is asked for, what is found, what the content must be, and what was found to be wrong.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Piece } from '../../bytes/piece.ts'
import { bytesSource, prefixedSource, type Source } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { isLastModifiedStrong, validatorsOf } from '../../http/message/validator.ts'
import { recentEntries } from '../../recent.ts'
import {
  type ArchivePath,
  type Impostor,
  impostor,
  isPage,
  promisesNothing,
  tellingBytes,
} from '../archive/path.ts'
import type { NearPlace } from '../rfc9111/outcome.ts'
import type { EntryDraft, UnstorableReason } from '../rfc9111/stored-response.ts'
import type { ExpectedContent } from '../store/content/checks.ts'
import type { Download } from '../store/content/download.ts'
import { type Entry, type EntryProof, neverConfirmed } from '../store/entry.ts'
import type { Claim } from '../suites/suites.ts'
import type { Answer } from './origin-question.ts'

/** A claim; of a generation that is not adopted yet, it is known only where it lies. */
type PlainClaim = Omit<Claim, 'generation'> & Partial<Pick<Claim, 'generation'>>

/** What is to be fetched. */
export interface WantedFile {
  readonly key: string
  readonly uri: TargetUri
  readonly archive: ArchivePath
  /** What an adopted index says it must be. */
  readonly claim?: PlainClaim | undefined
  /** The claim, when the index that may make it is still being read; nothing is stored then. Never rejects. */
  readonly awaited?: Promise<Claim | undefined> | undefined
  /** What the store has; the origin is then asked whether it still holds. */
  readonly stored: Entry | undefined
  /** Fields of content that the origin sent and that is not the file: it need not be sent again, and a 304 is the answer. */
  readonly unless?: Fields | undefined
  /** The proxies that the client's request has passed, as `viaChain` has them. */
  readonly via?: string | undefined
  /** No origin is asked when what the nodes of a bucket share does not have it. */
  readonly onlyNear?: boolean | undefined
  /** The client insists on the origin's own word, so caches on the way must not answer. */
  readonly insist: boolean
}

/** Content on its way: its head is known, its bytes are arriving. */
export interface IncomingContent {
  readonly draft: EntryDraft
  readonly length: number | undefined
  /** What the content is verified by before its last block leaves. */
  readonly verified: EntryProof | undefined
  readonly download: Download
  /** The parent proxy by which it comes. */
  readonly parent?: string | undefined
  /** Where it comes from, when it does not come from an origin. */
  readonly near?: NearPlace | undefined
  /** Whether the origin's head shows that this is not what is stored. */
  readonly changed: boolean
  /** Never rejects. */
  readonly settled: Promise<ContentOutcome>
}

/** A file on its way from its origin. */
export interface IncomingFile {
  readonly key: string
  readonly received: number
  readonly length: number | undefined
}

/** What came of a filling: stored, whole but not stored, or never whole. */
export type ContentOutcome =
  | {
      readonly kind: 'stored'
      readonly entry: Entry
      /** Whether the content has reached the store; until then it is read from memory. */
      readonly kept: Promise<boolean>
    }
  | { readonly kind: 'passed'; readonly entry: Entry }
  | { readonly kind: 'failed'; readonly failure: Failure }

/** The origin has something else to say than content. */
export interface OriginAnswer {
  readonly kind: 'answered'
  readonly status: number
  readonly fields: Fields
  /** Whether the next question would get the same answer. */
  readonly certain: boolean
  /** The parent proxy by which the origin was asked. */
  readonly parent?: string | undefined
}

/** What the origin's head amounts to. */
export type FetchOutcome =
  | { readonly kind: 'validated'; readonly entry: Entry }
  | { readonly kind: 'filling'; readonly filling: IncomingContent }
  | OriginAnswer
  | { readonly kind: 'failed'; readonly failure: Failure }

/** Why a response of an origin is passed on and not stored: its fields forbid it, or it is plainly not the file. */
export type NotStoredReason = UnstorableReason | Impostor

/** All of them. Whatever else is a reason for not storing is a sentence about the disk or the room on it. */
export const notStoredReasons: ReadonlySet<string> = new Set<NotStoredReason>([
  ...(['private', 'no-store', 'vary', 'partial', 'page', 'empty', 'format'] as const),
])

/** What the fetcher tells the rest of the service. */
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

/**
 * RFC 9111 section 4.3.1: ask with every validator the origin itself gave. A date alone is left out while it is weak: the file may have
 * changed later in the same second, and the origin, which knows whole seconds, would confirm what it does not have any more
 * (RFC 9110 section 8.8.2.2).
 */
export function conditionalFields(wanted: WantedFile, now: Milliseconds): Fields {
  const superseded = isSuperseded(wanted)
  const insist = wanted.insist || superseded ? 'max-age=0' : undefined
  const stored = superseded ? Fields.empty : Fields.of(...(wanted.stored?.fields ?? []))
  const known = wanted.unless ?? stored
  const [etag, lastModified] = [known.get('ETag'), known.get('Last-Modified')]
  const dated = etag !== undefined || isLastModifiedStrong(validatorsOf(known, now))
  return Fields.of(
    ['Cache-Control', insist],
    ['If-None-Match', etag],
    ['If-Modified-Since', dated ? lastModified : undefined],
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

/** Whether what is stored has other content than an index says: then the origin need not confirm it. */
export function isSuperseded({ stored, claim }: Pick<WantedFile, 'stored' | 'claim'>): boolean {
  return stored !== undefined && claim !== undefined && stored.digest !== claim.digest
}

/**
 * Whether the stored file is a version of a package that an index has named: an archive that has it no more has no other content
 * for this name, and clients that have not updated since want it. A client or an operator that insists gets the origin's own word.
 */
export function isOldVersion({ stored, archive, insist }: WantedFile): boolean {
  if (archive.kind !== 'pool' || insist || stored?.validated === neverConfirmed) return false
  return stored?.verified?.by === 'index'
}

type Promised = Pick<WantedFile, 'archive' | 'claim'>

/** What the content must turn out to be, by an index or by its name; undefined when nothing says so. */
export function expectedOf({ archive, claim }: Promised): ExpectedContent | undefined {
  if (claim === undefined) return archive.digest && { digest: archive.digest }
  return { size: claim.size, digest: { algorithm: claim.by ?? 'sha256', hex: claim.digest } }
}

/** The same when a download begins. */
export function expectedFirst(wanted: WantedFile): ExpectedContent | undefined {
  return wanted.awaited === undefined ? expectedOf(wanted) : { later: true }
}

/** What stands in the entry once the content has turned out so. */
export function verifiedBy({ archive, claim }: Promised): EntryProof | undefined {
  if (claim === undefined) return archive.digest && { by: 'name' }
  const { by: signer, is } = claim.generation?.signature ?? {}
  const signed = is === 'good' && signer !== undefined && { signer }
  return { by: 'index', suite: claim.suite, ...signed }
}

/*
 * Finds content that is plainly not the file, and remembers files of which an origin has just sent content that the archive does
 * not promise: for some seconds they are not fetched again for each client, and the next content never gets the date of the wrong
 * one. The right content ends that.
 *
 * # Facts
 * - apt keeps the beginning of what broke off and asks for the rest with the date it came with. With the same date the right
 *   content would be joined to the wrong beginning.
 * - apt tries again after 1, 2 and 4 seconds when a transfer is cut, which shows no cause: the pause must be longer than the first
 *   delay, so that the next try is told the cause, and shorter than all of them together.
 */

const pause: Milliseconds = 2000
const capacity = 4096

interface Wrong {
  readonly failure: Failure
  readonly expected: string | undefined
  readonly until: Milliseconds
  readonly draft: EntryDraft | undefined
}

export class WrongContent {
  readonly #clock: Clock
  readonly #wrong = recentEntries<string, Wrong>(capacity)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a failure says that content was not what was promised. */
  static is(error: unknown): boolean {
    return error instanceof Failure && ['wrong-digest', 'wrong-size'].includes(error.code)
  }

  /** Content that began as in `draft` was wrong. What came from no origin is no reason not to ask one at once. */
  note(
    wanted: WantedFile,
    failure: Failure,
    { draft, near }: { readonly draft?: EntryDraft | undefined; readonly near?: boolean },
  ): void {
    this.#wrong.set(wanted.key, {
      failure,
      expected: expectedOf(wanted)?.digest?.hex,
      until: this.#clock.elapsed() + (near === true ? 0 : pause),
      draft: draft ?? this.#wrong.get(wanted.key)?.draft,
    })
  }

  /** The right content came: from here on its date is the one that the next content must not have. */
  forget({ key }: WantedFile): void {
    this.#wrong.delete(key)
  }

  /** Why it is not worth while to fetch this now. */
  recent(wanted: WantedFile): Failure | undefined {
    const wrong = this.#wrong.get(wanted.key)
    if (wrong === undefined || wrong.until <= this.#clock.elapsed()) return undefined
    return wrong.expected === expectedOf(wanted)?.digest?.hex ? wrong.failure : undefined
  }

  /** What clients have seen the beginning of under this key. */
  before(key: string): EntryDraft | undefined {
    return this.#wrong.get(key)?.draft
  }
}

/**
 * The content of a 200, whole, and why it is not the file. What promises nothing is not waited for, nor is what a digest judges,
 * unless it is a page and another origin may have the file.
 */
export async function examinedContent(
  { response, others }: Pick<Answer, 'response' | 'others'>,
  wanted: WantedFile,
): Promise<{ readonly content: Source; readonly found?: Impostor | undefined }> {
  const { fields, content } = response
  const { archive, uri } = wanted
  const promised = expectedOf(wanted) !== undefined
  if (promisesNothing(archive) || (promised && !others)) return { content }
  const name = uri.path.slice(uri.path.lastIndexOf('/') + 1)
  const judged = (first: Buffer): Impostor | undefined => {
    if (!promised) return impostor(archive, name, fields, first)
    return isPage(first) ? 'page' : undefined
  }
  const bytes = content.whole?.()
  if (bytes !== undefined) return { content: bytesSource(bytes), found: judged(bytes) }
  const { first, broken, whole } = await opening(content, tellingBytes)
  return { content: whole, found: broken ? undefined : judged(first) }
}

interface Opening {
  /** As many bytes as were asked for, or all there are; or, when the content broke off, as many as came. */
  readonly first: Buffer
  /** Whether it broke off so early that `first` says nothing. */
  readonly broken: boolean
  readonly whole: Source
}

/** Reads the first `count` bytes. A content that breaks off so early breaks off again. */
function opening(content: Source, count: number): Promise<Opening> {
  return new Promise(resolve => {
    const pieces: Piece[] = []
    let size = 0
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (piece !== undefined) {
        pieces.push(piece)
        size += piece.bytes.length
        if (size < count) return content.next(step)
      }
      const first = Buffer.concat(pieces.map(({ bytes }) => bytes.subarray(0, count)))
      const ended: Source = { next: take => take(error, undefined), close: () => content.close() }
      const whole = prefixedSource(pieces, piece === undefined ? ended : content)
      resolve({ first: first.subarray(0, count), broken: error !== undefined, whole })
    }
    content.next(step)
  })
}

/*
 * What is nearer than the origins of an archive, where several machines share a bucket (`shared_store`): a content that another node has
 * stored, and one that another node is fetching now. The fetcher asks for it before it asks an origin. Interfaces alone:
 * shared/misses/nearer.ts has them.
 */

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
