/**
 * Answers GET and HEAD with a file, stored or arriving. It evaluates the preconditions (RFC 9110 section 13), then the ranges
 * (section 14), then sends the content. Each response has Age, X-Cache, Cache-Status (RFC 9211) and Via. The fields of a stored file
 * are made once and kept, because hits are frequent.
 */
import { randomBytes } from 'node:crypto'
import { continueWhenReady } from '../../async/ready.ts'
import { bytesSource, concatenatedSource, type Source } from '../../bytes/source.ts'
import type { Facts } from '../../errors.ts'
import type { RequestDirectives } from '../../http/message/cache-control.ts'
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import { type Content, noContent, type Request, type Response } from '../../http/message/message.ts'
import {
  ifRangeHolds,
  statusByPreconditions,
  type Validators,
  validatorsOf,
} from '../../http/message/precondition.ts'
import {
  type ByteRange,
  contentRange,
  frameByteRanges,
  selectRange,
  unsatisfiedRange,
} from '../../http/message/range.ts'
import { textResponse } from '../../http/message/reply.ts'
import type { FileDestination } from '../request/destination.ts'
import { currentAge, type StoreReason } from '../rfc9111/lookup.ts'
import type { HitReason, OutcomeFacts } from '../rfc9111/outcome.ts'
import type { Entry, EntryProof } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Claim } from '../suites/generation.ts'

/** The name of this cache in Cache-Status. */
export const cacheName = 'cachesvc'

/** A request that the policy has admitted, with all values that its answer needs. */
export interface AllowedRequest {
  readonly request: Request
  readonly file: FileDestination
  /** Whether the origin may be at a private address. */
  readonly trusted: boolean
  readonly directives: RequestDirectives
  /** The content that an adopted index names for the file. */
  readonly claim?: Claim | undefined
  /** The promise of a claim, while an index that may name the file is still being read. */
  readonly awaited?: Promise<Claim | undefined> | undefined
  /** The reason for which the origin has not confirmed the stored file that answers, as `OriginTrouble` has it. */
  readonly failure?: string | undefined
  /** The reason for which the origin is asked about the stored file that answers. */
  readonly revalidation?: string | undefined
  /** The notes of a step around the answer, such as a build that records it. */
  readonly notes?: AnswerNotes | undefined
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The member of Via for this proxy, such as `1.1 cachesvc`. All answers of a service have the same. */
  readonly via: string
}

/** The functions by which a step around an answer (answer-step.ts) learns of it. */
export interface AnswerNotes {
  /** The client gets this entry or a part of it, or has it already. */
  readonly given: (entry: Entry) => void
  /** The answer is not whole, with the reason in words. */
  readonly failed: (because: string) => void
}

/** A file with all values that its responses need. */
export interface Representation {
  /** The size in bytes; undefined while it is unknown. */
  readonly size: number | undefined
  readonly validators: Validators
  /** All fields of a 200 except Content-Length. */
  readonly fields: Fields
  readonly facts: Facts
  /** Opens the bytes from `first` to `last`, both included, or to the end when `last` is undefined. Undefined when they are missing. */
  readonly open: (
    first: number,
    last: number | undefined,
  ) => Content | undefined | Promise<Content | undefined>
}

/** The response: 200, 206, 304, 412 or 416. Undefined when the bytes are missing. */
export function represent(
  { request, now }: Pick<AllowedRequest, 'request' | 'now'>,
  representation: Representation,
): Response | undefined | Promise<Response | undefined> {
  const { size, validators, fields, facts, open } = representation
  const status = statusByPreconditions(request, { validators, role: 'cache' }, now)
  if (status !== 200) {
    // RFC 9110 section 15.4.5: a 304 repeats validators and freshness, and leaves out fields that describe content.
    const about = fields.without('Content-Type', 'Content-Encoding', 'Accept-Ranges')
    return { status, fields: about, content: noContent, facts }
  }
  if (request.method === 'HEAD') {
    return { status: 200, fields, content: noContent, announcedLength: size, facts }
  }
  const selection =
    size !== undefined && request.fields.has('Range')
      ? selectRange(request, size, ifRangeHolds(request.fields, validators, now))
      : whole
  if (selection.send === 'whole' || size === undefined) {
    return continueWhenReady(
      open(0, undefined),
      content => content && { status: 200, fields, content, facts },
    )
  }
  if (selection.send === 'unsatisfiable') {
    const made = [...fields].filter(([name]) => madeHere.has(name))
    return textResponse(416, `The file has ${size} bytes; the range asked for lies behind them.`, {
      fields: Fields.of(...made, ['Content-Range', unsatisfiedRange(size)]),
      facts,
    })
  }
  const [only, ...others] = selection.ranges
  if (others.length > 0) return severalRanges(representation, size, selection.ranges)
  return continueWhenReady(
    open(only.first, only.last),
    content =>
      content && {
        status: 206,
        fields: fields.plus('Content-Range', contentRange(only, size)),
        content,
        facts,
      },
  )
}

const whole = { send: 'whole' } as const

/** The fields that this cache makes itself. No stored file has them. */
const madeHere: ReadonlySet<string> = new Set(['Age', 'X-Cache', 'Cache-Status', 'Via'])

/** A response with several ranges as multipart/byteranges. Each part is opened when the parts before it have been sent. */
function severalRanges(
  { fields, facts, open }: Representation,
  size: number,
  ranges: readonly ByteRange[],
): Response {
  const frame = frameByteRanges({
    ranges,
    size,
    contentType: fields.get('Content-Type'),
    boundary: randomBytes(16).toString('hex'),
  })
  const of = async (first: number, last: number): Promise<Source> => {
    const content = await open(first, last)
    if (content === undefined) throw new Error('the stored content is gone')
    if (content.kind === 'stream') return content.open()
    return bytesSource(content.kind === 'bytes' ? content.bytes : Buffer.alloc(0))
  }
  const parts = frame.parts.flatMap(({ head, range }) => [
    () => bytesSource(head),
    () => of(range.first, range.last),
  ])
  return {
    status: 206,
    fields: fields.with('Content-Type', frame.contentType),
    content: {
      kind: 'stream',
      length: frame.length,
      open: () => concatenatedSource([...parts, () => bytesSource(frame.end)]),
    },
    facts,
  }
}

/** The reason why a stored file is the answer: that of a hit, or that the content has just arrived for this request. */
export type StoredReason = HitReason | 'changed'

/** The representation of a stored entry. `because` is the reason for the answer. */
export function storedRepresentation(
  entry: Entry,
  because: StoredReason,
  {
    file,
    now,
    via,
    failure,
    revalidation,
  }: Pick<AllowedRequest, 'file' | 'now' | 'via' | 'failure' | 'revalidation'>,
  store: Pick<Store, 'content'>,
): Representation {
  const { validators, base, byReason } = answersOf(entry)
  const reason = failure === undefined ? because : `${because} ${failure}`
  let fields = byReason.get(reason)
  if (fields === undefined) {
    const cache = because === 'changed' ? 'MISS' : 'HIT'
    const status = cacheStatus(entry, because, failure)
    fields = base.followedBy(['X-Cache', cache, 'Cache-Status', status, 'Via', via])
    byReason.set(reason, fields)
  }
  return {
    size: entry.size,
    validators,
    fields: fields.followedBy(['Age', String(currentAge(entry, now))]),
    facts: {
      outcome: because === 'changed' ? 'miss' : 'hit',
      because,
      ...(failure !== undefined && { failure }),
      ...(revalidation !== undefined && { revalidation }),
      ...file.about,
    } satisfies OutcomeFacts,
    open: (first, last) => store.content(entry, first, last ?? entry.size - 1),
  }
}

/** The parts of answers that are the same for all answers from one entry. */
interface StoredAnswers {
  readonly validators: Validators
  readonly base: Fields
  readonly byReason: Map<string, Fields>
}

const allAnswers = new WeakMap<Entry, StoredAnswers>()

function answersOf(entry: Entry): StoredAnswers {
  const known = allAnswers.get(entry)
  if (known !== undefined) return known
  const validators = givenValidators(entry, entry.validated)
  const made = { validators, base: baseFields(entry), byReason: new Map() }
  allAnswers.set(entry, made)
  return made
}

function cacheStatus(
  { verified }: Entry,
  because: StoredReason,
  failure: string | undefined,
): string {
  const remarks = { detail: because, verified: verifiedWord(verified), failure }
  if (withoutQuestion.has(because)) return formatCacheStatus(cacheName, { hit: true, ...remarks })
  const changed = because === 'changed' && { forwardStatus: 200, stored: true }
  return formatCacheStatus(cacheName, { hit: false, forward: 'stale', ...changed, ...remarks })
}

/** The reasons for which the origin was not asked. */
const withoutQuestion: ReadonlySet<StoredReason> = new Set<StoreReason>([
  'immutable',
  'fresh',
  'validated-just-now',
  'max-stale',
  'offline',
  'as-released',
  'recorded',
])

/** One word for Cache-Status that says how the content was verified; undefined when it was not. */
export function verifiedWord(verified: EntryProof | undefined): string | undefined {
  return verified?.signer === undefined ? verified?.by : 'signature'
}

/** The fields of a stored or arriving file, without those that say where the response came from. */
export function baseFields(of: Pick<Entry, 'fields' | 'lastModified'>): Fields {
  return Fields.of(...of.fields)
    .without('Last-Modified')
    .plus('Last-Modified', of.lastModified)
    .plus('Accept-Ranges', 'bytes')
}

/**
 * The validators that clients get. A Last-Modified of this cache belongs to one digest, so it counts as strong, independent of Date.
 */
export function givenValidators(
  of: Pick<Entry, 'fields' | 'lastModified'>,
  now: number,
): Validators {
  const given = Fields.of(...of.fields).with('Last-Modified', of.lastModified)
  const { etag, lastModified } = validatorsOf(given, now)
  return { etag, lastModified }
}
