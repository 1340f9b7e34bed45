/**
 * Moves content from an origin into a download, as fast as the download accepts it. After a broken connection the transfer continues
 * where it stopped, and readers of the download do not notice. This file also stores complete content, and gives up downloads for which
 * no client waits.
 *
 * The request for the rest names the file by a validator, and the response is checked to be the rest of the same file (RFC 9110 sections
 * 13.1.5 and 14).
 *
 * # Facts
 * - An entity tag names one representation. A date does not, because reproducible builds give two contents the same date. So a request
 *   uses a date only when the archive promises a digest, which then decides.
 * - The servers of one archive often have different entity tags for the same file. So the beginning of a response with the whole file is
 *   compared byte for byte.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { pause } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Piece } from '../../bytes/piece.ts'
import { prefixedSource, type Source, type Take } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import { formatDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import {
  formatEntityTag,
  isLastModifiedStrong,
  strongMatch,
  type Validators,
  validatorsOf,
} from '../../http/message/precondition.ts'
import { parseContentRange } from '../../http/message/range.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import type { NearPlace } from '../rfc9111/outcome.ts'
import { type EntryDraft, finishedEntry } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Store } from '../store/store.ts'
import { fetchFailure, isUpstream } from './failures.ts'
import type { BegunContent, ContentOutcome } from './fetch-outcome.ts'
import { type Answer, originName, type Question } from './mirrors.ts'
import { proofOf, type WantedFile } from './wanted-file.ts'

interface TransferOptions {
  readonly clock: Clock
  readonly lifetime: Lifetime
  /** Whether the archive promises a digest of the file. */
  readonly promised: boolean
  /** Asks the origins of the same target again, each with the fields that `more` makes for it. */
  readonly again: (
    question: Pick<Question, 'except'> & { readonly more: (place: TargetUri) => Fields },
  ) => Promise<Answer>
  readonly onBroken: (place: TargetUri) => void
  /** Called at the end of each connection with the bytes that arrived over it. `near` is their source when that was no origin. */
  readonly onReceived: (bytes: number, near: NearPlace | undefined) => void
  /** Called for each continuation, for the log. */
  readonly onResume: (received: number, error: unknown) => void
}

interface Search {
  /** The origins that have another file with this name, by `originName`. */
  readonly unfit: Set<string>
  /** Whether only whole files are accepted and compared, because a redirect led to another server. */
  wholeOnly: boolean
  /** The number of successive connections that brought no new byte. */
  fruitless: number
}

/** The number of successive tries without a new byte after which the transfer is given up. */
const mostFruitless = 3
const firstPause: Milliseconds = 200

/**
 * Transfers the content to its end. Resolves to the place that sent the end, and the caller then completes the download. Rejects with the
 * error that ended the transfer, and the caller then discards the download.
 */
export async function transfer(begun: BegunContent, options: TransferOptions): Promise<TargetUri> {
  const { download } = begun
  let { content } = begun
  let { place, near } = begun.from
  const search: Search = { unfit: new Set(), wholeOnly: false, fruitless: 0 }
  for (;;) {
    const before = download.size
    try {
      await pour(content, download, options.lifetime)
      options.onReceived(download.size - before, near)
      return place
    } catch (error) {
      content.close()
      options.onReceived(download.size - before, near)
      search.fruitless = download.size > before ? 0 : search.fruitless + 1
      if (options.lifetime.over || !isUpstream(error)) throw error
      if (near === undefined) options.onBroken(place)
      if (isFinal(error) || search.fruitless >= mostFruitless) throw error
      options.onResume(download.size, error)
      const found = await rest(begun, search, options)
      content = found.content
      place = found.place
      near = found.near
    }
  }
}

/** Gives the download every piece of a source. Rejects with an error of either, and at the end of the lifetime. */
function pour(source: Source, download: Download, lifetime: Lifetime): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false
    const end = (error: unknown): void => {
      if (over) return
      over = true
      lifetime.forget(end)
      if (error === undefined) resolve()
      else reject(error)
    }
    // A loop avoids a recursion when pieces are available at once.
    let pulling = false
    let wanted = false
    const pull = (): void => {
      wanted = true
      if (pulling) return
      pulling = true
      while (wanted && !over) {
        wanted = false
        source.next(take)
      }
      pulling = false
    }
    const take: Take = (error, piece) => {
      if (over) return piece?.release()
      if (piece === undefined) return end(error)
      try {
        if (download.take(piece)) pull()
        else download.whenReady(pull)
      } catch (failure) {
        end(failure)
      }
    }
    lifetime.onceOver(end)
    pull()
  })
}

/** Whether another try cannot help, because the content is too long or has changed. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof ContentChanged || (error instanceof Failure && error.code === 'wrong-size')
  )
}

type Rest = Pick<BegunContent, 'content'> & Pick<Answer, 'place' | 'near'>

async function rest(begun: BegunContent, search: Search, options: TransferOptions): Promise<Rest> {
  let delay = firstPause * 2 ** search.fruitless
  for (let attempt = 1; ; ) {
    await pause(options.clock, delay, options.lifetime.signal)
    if (options.lifetime.over) throw options.lifetime.reason
    try {
      const found = await askForRest(begun, search, options)
      if (found !== undefined) return found
    } catch (error) {
      if (options.lifetime.over || !isUpstream(error)) throw error
      if (isFinal(error) || attempt >= mostFruitless) throw error
      attempt += 1
      delay *= 2
    }
  }
}

/**
 * Asks for the rest. Undefined when another question may find it. Each origin of an archive makes its own validators, so a part from
 * another origin is accepted only when a digest is promised. Otherwise the whole file is requested, and its beginning is compared. A
 * beginning that came from no origin has no validators of an origin, so a promised digest alone decides.
 */
async function askForRest(
  { draft, download, length, from }: BegunContent,
  search: Search,
  { promised, clock, again }: TransferOptions,
): Promise<Rest | undefined> {
  const { size } = download
  const digestAlone = promised && from.near !== undefined
  const fields = digestAlone ? Fields.empty : Fields.of(...draft.fields)
  const beginning = { size, length, fields, promised, received: draft.stored }
  const range = Fields.of(['Range', size === 0 ? undefined : `bytes=${size}-`])
  const part = (digestAlone ? range : restFields(beginning)) ?? Fields.empty
  const isFirst = (place: TargetUri): boolean => originName(place) === originName(from.place)
  const { response, place, source, near } = await again({
    except: search.unfit,
    more: to => (promised || (isFirst(to) && !search.wholeOnly) ? part : Fields.empty),
  })
  const { status, content } = response
  try {
    if (status === 206) {
      if (!promised && !isSamePlace(source, from.source)) {
        if (search.wholeOnly) throw new ContentChanged('another server sent a part')
        search.wholeOnly = true
        content.close()
        return undefined
      }
      checkRest(beginning, response.fields, clock.now())
      return { content, place, near }
    }
    if (mayPass(status)) throw fetchFailure('ORIGIN_REFUSES_REST', { status })
    if (status !== 200) {
      throw new ContentChanged(`the origin answered ${status} when asked for the rest`)
    }
    if (!digestAlone) checkWhole(beginning, response, clock.now())
    if (size === 0) return { content, place, near }
    const rest = await restOf(content, { size, sha256: download.digestSoFar() })
    return { content: rest, place, near }
  } catch (error) {
    content.close()
    if (!(error instanceof ContentChanged) || isFirst(place)) throw error
    search.unfit.add(originName(place))
    return undefined
  }
}

/** A file whose first bytes have arrived. */
interface PartialFile {
  readonly size: number
  /** The length of the whole file, when the origin named it. */
  readonly length: number | undefined
  readonly fields: Fields
  /** Whether the archive promises a digest, which shows wrong bytes. */
  readonly promised: boolean
  readonly received: Milliseconds
}

/** The fields of a request for the rest; undefined when only the whole file can be requested. */
function restFields(begun: PartialFile): Fields | undefined {
  return begun.size === 0 ? undefined : partFields(begun, `bytes=${begun.size}-`)
}

/** The fields of a request for a part; undefined when the file has no validator for If-Range. */
export function partFields(
  { fields, promised, received }: Pick<PartialFile, 'fields' | 'promised' | 'received'>,
  wanted: string,
): Fields | undefined {
  const validators = validatorsOf(fields, received)
  const { etag, lastModified } = validators
  const range = ['Range', wanted] as const
  if (etag !== undefined && !etag.weak) return Fields.of(range, ['If-Range', formatEntityTag(etag)])
  return promised && lastModified !== undefined && isLastModifiedStrong(validators)
    ? Fields.of(range, ['If-Range', formatDate(lastModified)])
    : undefined
}

/**
 * Checks that a 206 with these fields is the rest, and returns the size of the whole file. Throws ContentChanged when the part begins
 * elsewhere, does not reach the end, or belongs to another representation.
 */
function checkRest(begun: PartialFile, part: Fields, now: Milliseconds): number {
  const range = parseContentRange(part.get('Content-Range') ?? '')
  if (range?.first !== begun.size) {
    throw new ContentChanged('the part the origin sent does not begin where the content broke off')
  }
  if (begun.length !== undefined && range.size !== undefined && range.size !== begun.length) {
    throw new ContentChanged('the part the origin sent belongs to content of another length')
  }
  const size = begun.length ?? range.size
  if (size === undefined || range.last !== size - 1) {
    throw new ContentChanged('the part the origin sent does not reach the end')
  }
  const before = validatorsOf(begun.fields, begun.received)
  if (contradict(before, validatorsOf(part, now)) || hasOtherCoding(begun.fields, part)) {
    throw new ContentChanged('the part the origin sent belongs to another representation')
  }
  return size
}

/** Whether a 206 has another Content-Encoding. It may leave the field out (RFC 9110 section 15.3.7). */
export function hasOtherCoding(before: Fields, part: Fields): boolean {
  const coding = part.get('Content-Encoding')
  return coding !== undefined && coding !== before.get('Content-Encoding')
}

/** Whether two sets of validators cannot belong to one representation. */
export function contradict(a: Validators, b: Validators): boolean {
  if (a.etag !== undefined && b.etag !== undefined && !strongMatch(a.etag, b.etag)) return true
  const dates = [a.lastModified, b.lastModified].filter(date => date !== undefined)
  return dates.length === 2 && dates[0] !== dates[1]
}

/** Throws ContentChanged when a second 200 with these fields has another file. If there is a date, it decides. */
function checkWhole(
  begun: PartialFile,
  whole: { readonly fields: Fields; readonly length: number | undefined },
  now: Milliseconds,
): void {
  const before = validatorsOf(begun.fields, begun.received)
  const after = validatorsOf(whole.fields, now)
  const dated = before.lastModified !== undefined || after.lastModified !== undefined
  const replaced = dated ? before.lastModified !== after.lastModified : contradict(before, after)
  if (replaced || whole.fields.get('Content-Encoding') !== begun.fields.get('Content-Encoding')) {
    throw new ContentChanged('the file was replaced')
  }
  if (begun.length !== undefined && whole.length !== undefined && begun.length !== whole.length) {
    throw new ContentChanged('the content has another length now')
  }
}

/**
 * The bytes after the first `size` bytes of a source, once those have proved to have this SHA-256. Rejects with ContentChanged when they
 * do not, and with the error that breaks the source off.
 */
function restOf(
  whole: Source,
  { size, sha256 }: { readonly size: number; readonly sha256: string },
): Promise<Source> {
  const hash = createHash('sha256')
  let seen = 0
  return new Promise((resolve, reject) => {
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (error !== undefined) return reject(error)
      if (piece === undefined) return reject(new ContentChanged('the content is shorter now'))
      const use = Math.min(piece.bytes.length, size - seen)
      seen += use
      hash.update(piece.bytes.subarray(0, use))
      const rest = use < piece.bytes.length ? [piece.slice(use)] : []
      piece.release()
      if (seen < size) return whole.next(step)
      if (hash.digest('hex') === sha256) return resolve(prefixedSource(rest, whole))
      for (const left of rest) left.release()
      reject(new ContentChanged('the content begins differently now'))
    }
    whole.next(step)
  })
}

/** The origin has other content now, so the received bytes cannot be completed. */
class ContentChanged extends Failure {
  constructor(message: string) {
    super(message, {
      code: 'ORIGIN_CONTENT_CHANGED',
      fault: 'upstream',
      publicText: 'The origin changed the file while it was being fetched.',
    })
  }
}

/** Whether two places have the same origin and path. Queries are ignored, because each can have another signature. */
export function isSamePlace(a: TargetUri, b: TargetUri): boolean {
  return originName(a) === originName(b) && a.path === b.path
}

/** Whether an origin with this status may have the file again soon. */
function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 429
}

/**
 * Completes a download whose content is complete, and stores its entry. Throws the errors of `Download.complete`.
 */
export function keepEntry(
  wanted: WantedFile,
  { draft, download }: { readonly draft: EntryDraft; readonly download: Download },
  { store, log }: { readonly store: Store; readonly log: Logger },
): ContentOutcome {
  const { stored: storing } = download
  const completed = download.complete()
  const entry = finishedEntry(draft, completed, wanted.stored, proofOf(wanted))
  const put = storing && store.put(entry).stored
  const kept = completed.kept.then(kept => {
    if (!kept.stored && storing) log.warn('not stored', { key: wanted.key, because: kept.because })
    return kept.stored
  })
  return put ? { kind: 'stored', entry, kept } : { kind: 'passed', entry }
}

/** The time between two looks. apt comes back within seconds. */
const interval: Milliseconds = 30_000
/** A download without readers is abandoned if its rest would take longer than this at the pace of the last interval. */
const longest: Milliseconds = 15 * 60_000

/**
 * Calls `abandon` once no client has read for a whole interval, and the end is too far off or unknown. Returns a function that stops
 * watching. Most downloads without clients are worth finishing, because apt comes back. An origin that sends a few bytes at a time, or
 * without end, would keep a connection and fill the disk for no client.
 */
export function watchAbandoned(
  download: Pick<Download, 'size' | 'length' | 'readers' | 'stored'>,
  clock: Clock,
  abandon: (reason: Failure) => void,
): () => void {
  let before = { size: download.size, readers: 1 }
  const look = (): void => {
    const { size, readers } = download
    if (readers === 0 && before.readers === 0 && !isWorthFinishing(download, size - before.size)) {
      abandon(fetchFailure('ABANDONED', {}))
      return
    }
    before = { size, readers }
    cancel = clock.after(interval, look)
  }
  let cancel = clock.after(interval, look)
  return () => cancel()
}

function isWorthFinishing(
  { size, length, stored }: Pick<Download, 'size' | 'length' | 'stored'>,
  gained: number,
): boolean {
  return stored && length !== undefined && length - size <= gained * (longest / interval)
}
