/**
 * The rules of continuing a broken download: the fields of the request for the rest, and the check that the response is the rest of the
 * same file (RFC 9110 sections 13.1.5 and 14). transfer.ts follows them when a connection breaks, fetch.ts when a crash or a stop has
 * left the beginning on disk.
 *
 * # Facts
 * - An entity tag names one representation. A date does not, because reproducible builds give two contents the same date. So a request
 *   uses a date only when the archive promises a digest, which then decides.
 * - The servers of one archive often have different entity tags for the same file. So the beginning of a response with the whole file is
 *   compared byte for byte.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Piece } from '../../bytes/piece.ts'
import { prefixedSource, type Source } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
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
import { draftEntry, type EntryDraft } from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { ResumableDownload } from '../store/content/downloads.ts'
import { expectedContent, type WantedFile } from './found.ts'
import type { Answer, Ask } from './origin-question.ts'

/** A file whose first bytes have arrived. */
export interface PartialFile {
  readonly size: number
  /** The length of the whole file, when the origin named it. */
  readonly length: number | undefined
  readonly fields: Fields
  /** Whether the archive promises a digest, which shows wrong bytes. */
  readonly promised: boolean
  readonly received: Milliseconds
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

interface ResumptionOptions {
  readonly ask: Ask
  readonly clock: Clock
  readonly log: Logger
  readonly lifetime: Lifetime
}

/**
 * Continues a download that a crash or a stop broke off. Resolves to undefined when the file must be fetched as a whole. Rejects when
 * the request fails.
 */
export async function resumedContent(
  wanted: WantedFile,
  left: ResumableDownload,
  { clock, log, ask, lifetime }: ResumptionOptions,
): Promise<BegunContent | undefined> {
  const { key, uri } = wanted
  const requested = clock.now()
  const fields = Fields.of(...Object.entries(left.fields))
  const { size, length } = left
  const expected = expectedContent(wanted)
  const begun = { size, length, fields, promised: expected !== undefined, received: requested }
  const rest = restFields(begun)
  if (rest === undefined) return undefined
  // The origin that sent the beginning is unknown. With several origins, only a promised digest would show a part of another file.
  const more = (_: TargetUri, others: boolean): Fields =>
    others && !begun.promised ? Fields.empty : rest
  const answer = await ask({ uri, stored: undefined, lifetime, via: wanted.via, more })
  const { status, content, fields: part } = answer.response
  try {
    const whole = status === 206 ? checkRest(begun, part, clock.now()) : undefined
    const download = whole === undefined ? undefined : await left.resume(expected)
    if (download !== undefined) {
      log.info('continues a fetch that a stop broke off', { key, received: size })
      const draft = draftEntry(key, fields, { requested, received: clock.now() })
      return { draft, download, length: whole, content, from: answer }
    }
  } catch (error) {
    log.warn('cannot continue a fetch that a stop broke off', { key, error })
  }
  content.close()
  return undefined
}

/** The fields of a request for the rest; undefined when only the whole file can be requested. */
export function restFields(begun: PartialFile): Fields | undefined {
  const { size, fields, promised, received } = begun
  if (size === 0) return undefined
  const validators = validatorsOf(fields, received)
  const { etag, lastModified } = validators
  const range = ['Range', `bytes=${size}-`] as const
  if (etag !== undefined && !etag.weak) return Fields.of(range, ['If-Range', formatEntityTag(etag)])
  return promised && lastModified !== undefined && isLastModifiedStrong(validators)
    ? Fields.of(range, ['If-Range', formatDate(lastModified)])
    : undefined
}

/**
 * Checks that a 206 with these fields is the rest, and returns the size of the whole file. Throws ContentChanged when the part begins
 * elsewhere, does not reach the end, or belongs to another representation.
 */
export function checkRest(begun: PartialFile, part: Fields, now: Milliseconds): number {
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
  if (contradict(before, validatorsOf(part, now)) || recoded(begun.fields, part)) {
    throw new ContentChanged('the part the origin sent belongs to another representation')
  }
  return size
}

/** Whether a 206 has another Content-Encoding. It may leave the field out (RFC 9110 section 15.3.7). */
function recoded(before: Fields, part: Fields): boolean {
  const coding = part.get('Content-Encoding')
  return coding !== undefined && coding !== before.get('Content-Encoding')
}

/** Whether two sets of validators cannot belong to one representation. */
function contradict(a: Validators, b: Validators): boolean {
  if (a.etag !== undefined && b.etag !== undefined && !strongMatch(a.etag, b.etag)) return true
  const dates = [a.lastModified, b.lastModified].filter(date => date !== undefined)
  return dates.length === 2 && dates[0] !== dates[1]
}

/** Throws ContentChanged when a second 200 with these fields has another file. If there is a date, it decides. */
export function checkWhole(
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
export function restOf(
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
export class ContentChanged extends Failure {
  constructor(message: string) {
    super(message, {
      code: 'ORIGIN_CONTENT_CHANGED',
      fault: 'upstream',
      publicText: 'The origin changed the file while it was being fetched.',
    })
  }
}
