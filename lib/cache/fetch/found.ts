/**
 * The values of a fetch: the wanted file, the outcome, the expected content, and the memory of wrong content.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Piece } from '../../bytes/piece.ts'
import { bytesSource, prefixedSource, type Source } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import { isLastModifiedStrong, validatorsOf } from '../../http/message/precondition.ts'
import { parseUri, type TargetUri } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import {
  type ArchivePath,
  classify,
  type Impostor,
  impostor,
  isPage,
  promisesNothing,
  tellingBytes,
} from '../archive/path.ts'
import type { EntryDraft, UnstorableReason } from '../rfc9111/stored-response.ts'
import type { ExpectedContent } from '../store/content/checks.ts'
import type { Download } from '../store/content/download.ts'
import { type Entry, type EntryProof, neverConfirmed } from '../store/entry.ts'
import type { Claim, NamedContent } from '../suites/generation.ts'
import type { Answer, Question } from './origin-question.ts'

/** A claim. It has no generation when it comes from one that is not adopted yet. */
type PlainClaim = Omit<Claim, 'generation'> & Partial<Pick<Claim, 'generation'>>

export interface WantedFile extends Pick<Question, 'uri' | 'stored' | 'via'> {
  readonly key: string
  readonly archive: ArchivePath
  /** The content that an index names for the file. */
  readonly claim?: PlainClaim | undefined
  /** The promise of a claim, while an index that may name the file is still being read. Then the file is not stored. Never rejects. */
  readonly awaited?: Promise<Claim | undefined> | undefined
  /** The fields of wrong content that the origin sent before. They make the request conditional, so that the origin can answer 304. */
  readonly unless?: Fields | undefined
  /** Whether the fetch fails, and asks no origin, when the shared store does not have the file. */
  readonly onlyNear?: boolean | undefined
  /** Whether the origin itself must answer, not a cache on the way. */
  readonly insist: boolean
}

/** The file with this key; undefined when the key is no URL. */
export function fileUnder(key: string): Pick<WantedFile, 'key' | 'uri' | 'archive'> | undefined {
  const uri = parseUri(key)
  return 'problem' in uri ? undefined : { key, uri, archive: classify(uri.path) }
}

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

/**
 * RFC 9111 section 4.3.1: the request has every validator that the origin itself gave. A date alone is left out while it is weak: the
 * file may have changed later in the same second, and the origin, which knows whole seconds, would confirm a content that it has
 * replaced (RFC 9110 section 8.8.2.2).
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

/** Whether the stored file has other content than an index names. Then the origin need not confirm it. */
export function isSuperseded({ stored, claim }: Pick<WantedFile, 'stored' | 'claim'>): boolean {
  return stored !== undefined && claim !== undefined && stored.digest !== claim.digest
}

/**
 * Whether the stored file is a version of a package that an index has named. An archive that has removed it has no other content for
 * this name, and clients that have not updated since still want it. It does not count when a client or an operator insists on the
 * origin's answer.
 */
export function isOldVersion({ stored, archive, insist }: WantedFile): boolean {
  if (archive.kind !== 'pool' || insist || stored?.validated === neverConfirmed) return false
  return stored?.verified?.by === 'index'
}

type Promised = Pick<WantedFile, 'archive' | 'claim'>

/** The content that an index or the name of a file promises; undefined when neither does. */
export function expectedContent({ archive, claim }: Promised): ExpectedContent | undefined {
  if (claim === undefined) return archive.digest && { digest: archive.digest }
  const { others, contradicting } = claim
  return {
    ...promiseOf(claim),
    ...(others && { others: others.map(promiseOf) }),
    ...(contradicting && { contradicted: true }),
  }
}

function promiseOf({ size, digest, by }: NamedContent) {
  return { size, digest: { algorithm: by ?? ('sha256' as const), hex: digest } }
}

/** A text of all contents that a claim allows. Two claims with the same text are fulfilled by the same contents. */
export function claimText(claim: PlainClaim | undefined): string | undefined {
  return (
    claim &&
    [claim, ...(claim.others ?? [])]
      .map(({ digest }) => digest)
      .sort()
      .join(' ')
  )
}

/** A text that differs when other content is expected. */
function expectedText({ archive, claim }: Promised): string | undefined {
  return claimText(claim) ?? archive.digest?.hex
}

/** The expected content when a download begins. An awaited claim can still change it. */
export function expectedAtStart(wanted: WantedFile): ExpectedContent | undefined {
  return wanted.awaited === undefined ? expectedContent(wanted) : { later: true }
}

/** The proof for the entry, once the content has proved to be the expected one. */
export function proofOf({ archive, claim }: Promised): EntryProof | undefined {
  if (claim === undefined) return archive.digest && { by: 'name' }
  const { by: signer, is } = claim.generation?.signature ?? {}
  const signed = is === 'good' && signer !== undefined && { signer }
  return { by: 'index', suite: claim.suite, ...signed }
}

/*
 * Finds content that is plainly not the file, and remembers files for which an origin has just sent wrong content. For two seconds they
 * are not fetched again. The next content never gets the date of the wrong one. Right content ends the memory.
 *
 * # Facts
 * - apt keeps the beginning of a transfer that broke off, and asks for the rest with its date. With the same date, the right content
 *   would be joined to the wrong beginning.
 * - apt tries again after 1, 2 and 4 seconds when a transfer is cut, and does not learn the cause. The pause must be longer than the
 *   first delay, so that the next try gets the cause, and shorter than all of them together.
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

  /** Whether a failure says that content was not the promised one. */
  static is(error: unknown): boolean {
    return error instanceof Failure && ['wrong-digest', 'wrong-size'].includes(error.code)
  }

  /** Notes that content with this draft was wrong. After wrong content from `near`, an origin may be asked at once. */
  note(
    wanted: WantedFile,
    failure: Failure,
    { draft, near }: { readonly draft?: EntryDraft | undefined; readonly near?: boolean },
  ): void {
    this.#wrong.set(wanted.key, {
      failure,
      expected: expectedText(wanted),
      until: this.#clock.elapsed() + (near === true ? 0 : pause),
      draft: draft ?? this.#wrong.get(wanted.key)?.draft,
    })
  }

  /** Ends the memory of a file, because right content has arrived. */
  forget({ key }: WantedFile): void {
    this.#wrong.delete(key)
  }

  /** The failure of the last fetch, during the pause after wrong content; else undefined. */
  recent(wanted: WantedFile): Failure | undefined {
    const wrong = this.#wrong.get(wanted.key)
    if (wrong === undefined || wrong.until <= this.#clock.elapsed()) return undefined
    return wrong.expected === expectedText(wanted) ? wrong.failure : undefined
  }

  /** The draft of the wrong content of which clients may have the beginning. */
  before(key: string): EntryDraft | undefined {
    return this.#wrong.get(key)?.draft
  }
}

/**
 * Examines the first bytes of a 200. The result has the unchanged content, and the reason if it is not the file. It does not wait for the
 * bytes of a file whose name promises no format, nor of one with a digest, unless another origin may have the file.
 */
export async function examinedContent(
  { response, others }: Pick<Answer, 'response' | 'others'>,
  wanted: WantedFile,
): Promise<{ readonly content: Source; readonly found?: Impostor | undefined }> {
  const { fields, content } = response
  const { archive, uri } = wanted
  const promised = expectedContent(wanted) !== undefined
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

/**
 * Reads the first `count` bytes of a content, or fewer when it ends or breaks off before. `whole` is the content from its beginning,
 * including an error that broke it off.
 */
function opening(
  content: Source,
  count: number,
): Promise<{ readonly first: Buffer; readonly broken: boolean; readonly whole: Source }> {
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
 * The sources that are nearer than an origin when several machines share a bucket (`shared_store`): contents that another node has stored,
 * and contents that another node is fetching now. The fetcher asks them before an origin. Here are only the interfaces;
 * shared/misses/nearer.ts implements them.
 */

export interface NearSources {
  /** Whether the file may be shared, and the origin need not confirm it. */
  serves(wanted: WantedFile): boolean
  /** Finds a file near. It waits two seconds at most, unless another node is fetching the file. Never rejects. */
  find(wanted: WantedFile, question: NearQuestion): Promise<NearAnswer>
  /** Handles a content of the bucket that did not have its digest. */
  wrong(digest: string): void
}

export interface NearQuestion {
  /** The position of the first wanted byte. */
  readonly first: number
  /** The entry or draft that clients got under this key before. Other content must not get its date. */
  readonly previous: EntryDraft | undefined
  readonly lifetime: Lifetime
}

/**
 * The answer of the nearer sources:
 * - content: the file comes from there
 * - stale: a node has stored the file, and the origin has to be asked whether it is still current
 * - origin: the origin is asked, only by this node while it has the lease
 */
export type NearAnswer =
  | NearContent
  | StaleContent
  | { readonly kind: 'origin'; readonly lease?: { release(): void } | undefined }

export interface NearContent {
  readonly kind: 'content'
  readonly draft: EntryDraft
  readonly expected: ExpectedContent
  /** The SHA-256 of a content in the bucket. */
  readonly digest?: string | undefined
  /** The bytes of the whole content. */
  readonly size: number | undefined
  /** The answer in the form of an origin's: 200, or 206 with the rest. */
  readonly answer: Answer
}

export interface StaleContent {
  readonly kind: 'stale'
  readonly entry: Entry
  /** Whether the entry may be given when the origin fails. */
  readonly givenStale: boolean
  /** Opens the content with this draft. Resolves to undefined when it is gone. Never rejects. */
  open(draft: EntryDraft): Promise<NearContent | undefined>
}
