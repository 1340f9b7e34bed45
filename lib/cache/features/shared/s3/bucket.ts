/**
 * A bucket of an object store with the protocol of Amazon S3. It sends the few needed requests with our own client for origins, which has a pool,
 * deadlines and back-pressure. The outcome of a request is a value; no method rejects.
 *
 * # Facts
 * - A redirect is never followed, because it would send credentials to a server that the operator has not named.
 * - The time in a signature may be wrong by 15 minutes. The Date of the store's answers shows its clock, and we sign with that clock's time.
 * - A store also answers 404 for a missing bucket. A store that does not allow listing answers 403 for a missing object. The code in the content
 *   tells them apart, but HEAD has no content.
 * - A store without conditional writes answers 501 (Swift), or 400 with NotImplemented, or ignores the condition and writes (conditions.ts).
 * - A copy may answer 200 and have an error in its content.
 * - Amazon answers 400 for expired credentials and for a wrong region.
 * - A server between may compress contents (Content-Encoding), so that their bytes are not the stored ones. It may also change Accept-Encoding,
 *   so that field is not signed.
 * - Engines close unused connections. A request with content over such a connection fails and is sent once more.
 */
import { hash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../../../async/clock.ts'
import { Lifetime } from '../../../../async/lifetime.ts'
import { bytesAtMost, iterate, type Source, tappedSource } from '../../../../bytes/source.ts'
import { attempt, explainError } from '../../../../errors.ts'
import type {
  OriginClient,
  OriginDeadlines,
  OriginRequest,
  OriginResponse,
} from '../../../../http/client/client.ts'
import { OriginFailure } from '../../../../http/client/errors.ts'
import { parseDate } from '../../../../http/message/date.ts'
import { Fields } from '../../../../http/message/field.ts'
import { type Content, lengthOf, noContent } from '../../../../http/message/message.ts'
import { formatAuthority, type TargetUri } from '../../../../http/message/target.ts'
import { types } from '../objects.ts'
import { pacedSource } from '../pace.ts'
import { type SharedOperation, type SharedOutcome, sharedPatience } from '../shared-store.ts'
import {
  type AwsCredentials,
  amzDate,
  authorization,
  digestOfNothing,
  escapedPath,
} from './sigv4.ts'

interface BucketPlace {
  /** In path style the first segment of the path is the bucket, in host style the first label of the host. The rest of the path is a prefix of all names. */
  readonly uri: TargetUri
  readonly style: 'path' | 'host'
  readonly region: string
}

export interface BucketParts {
  readonly clock: Clock
  readonly client: OriginClient
  readonly place: BucketPlace
  /** The credentials, which are asked for before each request, so that a reload counts. */
  readonly credentials: () => AwsCredentials
  readonly onOutcome: (
    operation: SharedOperation,
    outcome: SharedOutcome,
    reason: OutcomeReason,
  ) => void
}

/** The reason for the outcome of a request. */
export interface OutcomeReason {
  /** The reason in words for the log; "" for a success. */
  readonly because: string
  /** Whether the outcome concerns the store, and not this node, the reader, or one object. */
  readonly telling: boolean
}

/** An outcome other than success, with the reason in words for the log. */
export interface BucketRefusal {
  readonly outcome: Exclude<SharedOutcome, 'done'>
  readonly because: string
  /** The code in the answer of the store; "" when there is none. */
  readonly code: string
}

/** An object whose content the caller reads from `source`. */
interface FoundObject extends ObjectFacts {
  readonly outcome: 'done'
  readonly source: Source
}

interface ObjectFacts {
  /** Bytes of the whole object. */
  readonly size: number
  /** The entity tag of this version; "" when the store gives none. */
  readonly etag: string
  /** When it was written, by the store's clock; undefined when the store does not say. */
  readonly modified: Milliseconds | undefined
}

interface SmallObject extends ObjectFacts {
  readonly outcome: 'done'
  readonly bytes: Buffer
}

interface Done {
  readonly outcome: 'done'
  readonly etag: string
}

/** An object to write. */
export interface ObjectWrite {
  readonly name: string
  /** SHA-256 of the content, lower-case hex. */
  readonly digest: string
  readonly content: Content
  readonly type: string
  /**
   * The condition of the write: the object must not exist (`If-None-Match: *`), or must have this version (`If-Match`). `tag` is sent as it is,
   * `etag` in the form that the store takes.
   */
  readonly only?: 'new' | { readonly etag: string } | { readonly tag: string } | undefined
}

interface Asked {
  readonly operation: SharedOperation
  readonly name: string
  readonly fields?: ReadonlyArray<readonly [name: string, value: string]>
  readonly put?: Pick<ObjectWrite, 'digest' | 'content'>
  readonly only?: ObjectWrite['only']
  /** The longest time from the beginning to the head of the response, or to its end when it is read whole. */
  readonly patience?: Milliseconds
  /** The most bytes of a response that is read whole; undefined when the caller reads the content. */
  readonly whole?: number
  readonly lifetime?: Lifetime
}

interface Answered {
  readonly outcome: 'done'
  readonly response: OriginResponse
  /** The content of a response that was read whole; empty for any other. */
  readonly bytes: Buffer
}

type Answer = Answered | BucketRefusal

/** The number of bytes of an error that are read. Its code is at the beginning. */
const errorBytes = 4096

/** The longest time for a small upload, from its beginning to the answer of the store. */
const uploadPatience: Milliseconds = 60_000
/** A large upload gets one more millisecond for each `slowestUpload` bytes. */
const slowestUpload = 50

/** The longest entity tag. A longer one is dropped, because tags are kept in memory. */
const longestTag = 256

const methods: Readonly<Record<SharedOperation, string>> = {
  get: 'GET',
  head: 'HEAD',
  put: 'PUT',
  delete: 'DELETE',
  copy: 'PUT',
}

const deadlines: Partial<OriginDeadlines> = {
  queue: sharedPatience,
  lookup: sharedPatience,
  connect: sharedPatience,
  tls: sharedPatience,
  send: 10_000,
  fields: uploadPatience,
  content: sharedPatience,
}

export class Bucket {
  readonly #parts: BucketParts
  /** The form of entity tags in `If-Match` that the store takes. */
  tags: 'quoted' | 'bare' = 'quoted'
  readonly #base: string
  #ahead: Milliseconds = 0
  #received = 0
  #sent = 0

  constructor(parts: BucketParts) {
    this.#parts = parts
    const { path } = parts.place.uri
    // A path that is not UTF-8 stays as it is.
    this.#base = escapedPath(attempt(() => decodeURIComponent(path)) ?? path).replace(/\/+$/, '')
  }

  /** The store's clock minus the clock of this node. */
  get ahead(): Milliseconds {
    return this.#ahead
  }

  /** The present moment by the store's clock. */
  now(): Milliseconds {
    return this.#parts.clock.now() + this.#ahead
  }

  /** Bytes of contents that were received from the bucket and sent to it. */
  get traffic(): { readonly received: number; readonly sent: number } {
    return { received: this.#received, sent: this.#sent }
  }

  async get(name: string, lifetime: Lifetime): Promise<FoundObject | BucketRefusal> {
    const answer = await this.#ask({ operation: 'get', name, lifetime })
    if (answer.outcome !== 'done') return answer
    const { response } = answer
    const facts = factsOf(response)
    const { length: size, status } = response
    if (size === undefined || status === 206) {
      response.content.close()
      return this.#unusable('get', 'an object without its length, or a part of it')
    }
    const content = pacedSource(response.content, this.#parts.clock, this.#parts.place.uri.host)
    return { outcome: 'done', ...facts, size, source: this.#watched(content) }
  }

  /** Reads a whole small object. The outcome is `unchanged` when it still has the version `etag`. */
  async read(
    name: string,
    { most, etag = '' }: { readonly most: number; readonly etag?: string },
  ): Promise<SmallObject | { readonly outcome: 'unchanged' } | BucketRefusal> {
    const fields = etag === '' ? [] : [['If-None-Match', etag] as const]
    const answer = await this.#ask({ operation: 'get', name, fields, whole: most })
    if (answer.outcome !== 'done') return answer
    const { response, bytes } = answer
    if (response.status === 304) return { outcome: 'unchanged' }
    this.#received += bytes.length
    return { outcome: 'done', ...factsOf(response), size: bytes.length, bytes }
  }

  async head(name: string): Promise<({ outcome: 'done' } & ObjectFacts) | BucketRefusal> {
    const answer = await this.#ask({ operation: 'head', name })
    if (answer.outcome !== 'done') return answer
    const { response } = answer
    response.content.close()
    const size = Number(response.fields.get('Content-Length') ?? Number.NaN)
    if (!Number.isSafeInteger(size)) return this.#unusable('head', 'an object without its length')
    return { outcome: 'done', ...factsOf(response), size }
  }

  async put(write: ObjectWrite): Promise<Done | BucketRefusal> {
    const { name, content, type, only } = write
    const answer = await this.#ask({
      operation: 'put',
      name,
      put: write,
      fields: [['Content-Type', type]],
      only,
      whole: errorBytes,
      patience: content.kind === 'stream' ? timeToSend(content) : sharedPatience,
    })
    return writtenBy(answer)
  }

  /** Writes a small object that is JSON. */
  putJson(name: string, bytes: Buffer, only: ObjectWrite['only']): Promise<Done | BucketRefusal> {
    const content = { kind: 'bytes', bytes } as const
    return this.put({ name, digest: hash('sha256', bytes), content, type: types.json, only })
  }

  async remove(name: string): Promise<Done | BucketRefusal> {
    return writtenBy(await this.#ask({ operation: 'delete', name, whole: errorBytes }))
  }

  /** Makes the store copy an object onto itself, so that its age begins again. */
  async renew(name: string, type: string): Promise<Done | BucketRefusal> {
    const answer = await this.#ask({
      operation: 'copy',
      name,
      fields: [
        ['x-amz-copy-source', this.#copySource(name)],
        ['x-amz-metadata-directive', 'REPLACE'],
        ['Content-Type', type],
      ],
      patience: uploadPatience,
      whole: errorBytes,
    })
    if (answer.outcome !== 'done') return answer
    const text = answer.bytes.toString('latin1')
    if (/<Error[ >]/.test(text)) {
      const because = `an error within 200: ${codeIn(text)}`
      return this.#refused('copy', 'failed', { because })
    }
    return { outcome: 'done', etag: '' }
  }

  /** The source of a copy: `/bucket/name` in both styles. */
  #copySource(name: string): string {
    const { uri, style } = this.#parts.place
    const path = `${this.#base}/${escapedPath(name)}`
    return style === 'path' ? path : `/${escapedPath(uri.host.replace(/\..*$/, ''))}${path}`
  }

  /** Sends a request, and sends it again when the clocks differ or an idle connection was dead. Both share the time of `patience`. */
  async #ask(asked: Asked): Promise<Answer> {
    const { operation, lifetime, patience: longest = sharedPatience } = asked
    const within = new Lifetime()
    const end = (reason: Error): void => within.end(reason)
    lifetime?.onceOver(end)
    const cancel = this.#parts.clock.after(longest, () => within.end(late))
    const why = (error: unknown) =>
      within.reason === late ? `no answer within ${longest} ms` : explainError(error)
    try {
      for (const attempt of ['first', 'second'] as const) {
        const answer = await this.#send(asked, within, attempt)
        if (answer !== 'again') return answer
      }
      const because =
        'it refuses the time of our requests, although that agrees with the Date of its answers'
      return this.#refused(operation, 'denied', { because })
    } catch (error) {
      lifetime?.forget(end)
      const waited = error instanceof OriginFailure && error.phase === 'queue'
      const telling = within.reason === late ? !waited : !within.over && !waited && !isEnded(error)
      return this.#refused(operation, 'away', { because: why(error), telling })
    } finally {
      cancel()
    }
  }

  /** Sends a request once. `again` when it may be sent a second time. Throws what the client throws. */
  async #send(
    asked: Asked,
    within: Lifetime,
    attempt: 'first' | 'second',
  ): Promise<Answer | 'again'> {
    const { operation, whole, put } = asked
    // A stream can be read only once.
    const readOnce = put?.content.kind === 'stream'
    let response: OriginResponse
    try {
      response = await this.#parts.client.request(this.#signed(asked, within, attempt))
    } catch (error) {
      const died = error instanceof OriginFailure && brokenOff.includes(error.code)
      if (died && attempt === 'first' && put !== undefined && !readOnce) return 'again'
      throw error
    }
    this.#learn(response.fields.get('Date'))
    const { status, content } = response
    if (isSuccess(status) && isCoded(response)) {
      content.close()
      return this.#unusable(operation, 'content in another coding (Content-Encoding)')
    }
    if (isSuccess(status)) {
      const bytes = whole === undefined ? nothing : await bytesAtMost(iterate(content), whole)
      if (bytes === undefined) return this.#unusable(operation, `more than ${whole} bytes`)
      this.#parts.onOutcome(operation, 'done', { because: '', telling: true })
      this.#sent += (put && lengthOf(put.content)) ?? 0
      return { outcome: 'done', response, bytes }
    }
    const code = codeIn(await beginning(content))
    const skewed = status === 403 && code === 'RequestTimeTooSkewed'
    if (skewed && attempt === 'first' && !readOnce) return 'again'
    const outcome = outcomeOf(status, code, asked.only !== undefined)
    const telling = tellsOfStore(operation, status, code)
    return this.#refused(operation, outcome, { because: reasonOf(response, code), telling, code })
  }

  #signed(asked: Asked, within: Lifetime, attempt: 'first' | 'second'): OriginRequest {
    const { place, credentials } = this.#parts
    const { operation, name, put } = asked
    const method = methods[operation]
    const moment = this.now()
    const given = credentials()
    const { token } = given
    const digest = put?.digest ?? digestOfNothing
    const path = `${this.#base}/${escapedPath(name)}`
    const ours: Array<readonly [string, string]> = [
      ['x-amz-content-sha256', digest],
      ['x-amz-date', amzDate(moment)],
      ...(token === undefined ? [] : [['x-amz-security-token', token] as const]),
    ]
    const fields = [...(asked.fields ?? []), ...this.#condition(asked.only), ...ours]
    const signed = authorization(
      {
        method,
        path,
        digest,
        fields: [['host', formatAuthority(place.uri, place.uri.scheme)], ...fields],
      },
      { region: place.region, credentials: given, moment },
    )
    return {
      method,
      uri: { ...place.uri, path, query: undefined },
      fields: Fields.of(...fields, ['Accept-Encoding', 'identity']),
      content: put?.content ?? noContent,
      authorization: signed,
      trusted: true,
      within,
      fresh: attempt === 'second',
      deadlines,
    }
  }

  #condition(only: ObjectWrite['only']): ReadonlyArray<readonly [string, string]> {
    if (only === undefined) return []
    if (only === 'new') return [['If-None-Match', '*']]
    if ('tag' in only) return [['If-Match', only.tag]]
    return [['If-Match', this.tags === 'bare' ? bareTag(only.etag) : only.etag]]
  }

  /** Learns the store's clock from the Date of an answer. A missing or malformed Date has no effect. */
  #learn(date: string | undefined): void {
    const now = this.#parts.clock.now()
    const theirs = date === undefined ? undefined : parseDate(date, now)
    if (theirs === undefined || theirs < 0) return
    // Date has whole seconds, so a difference below two seconds counts as none.
    const ahead = theirs - now
    this.#ahead = Math.abs(ahead) < 2000 ? 0 : ahead
  }

  /** Counts the bytes of a content, and notes when it breaks off. */
  #watched(source: Source): Source {
    return tappedSource(source, {
      onPiece: bytes => {
        this.#received += bytes
      },
      onOver: error => {
        if (error === undefined) return
        this.#refused('get', 'away', { because: explainError(error), telling: !isEnded(error) })
      },
    })
  }

  #unusable(operation: SharedOperation, what: string): BucketRefusal {
    // The node that wrote the object may have caused this, so it does not concern the store.
    return this.#refused(operation, 'failed', { because: `it sent ${what}`, telling: false })
  }

  #refused(
    operation: SharedOperation,
    outcome: BucketRefusal['outcome'],
    {
      because,
      telling = true,
      code = '',
    }: Pick<BucketRefusal, 'because'> & Partial<OutcomeReason & BucketRefusal>,
  ): BucketRefusal {
    this.#parts.onOutcome(operation, outcome, { because, telling })
    return { outcome, because, code }
  }
}

const nothing = Buffer.alloc(0)

function writtenBy(answer: Answer): Done | BucketRefusal {
  if (answer.outcome !== 'done') return answer
  return { outcome: 'done', etag: etagIn(answer.response.fields) }
}

function isSuccess(status: number): boolean {
  return (status >= 200 && status < 300) || status === 304
}

/** Whether the bytes of a response are not the stored ones. `aws-chunked` is the coding of an upload, and some engines repeat it. */
function isCoded({ fields }: OriginResponse): boolean {
  const coding = fields.get('Content-Encoding')?.trim().toLowerCase() ?? ''
  return !['', 'identity', 'aws-chunked'].includes(coding)
}

/** The longest time for an upload, so that an engine that takes a byte now and then does not block other uploads. */
function timeToSend(content: Content): Milliseconds {
  return uploadPatience + (lengthOf(content) ?? 0) / slowestUpload
}

/** The codes of a 400 that concern the credentials or the region. */
const refusedCodes: readonly string[] = [
  ...['ExpiredToken', 'InvalidToken', 'TokenRefreshRequired'],
  ...['AuthorizationHeaderMalformed', 'InvalidRegion', 'IllegalLocationConstraintException'],
]

/** Whether a refusal concerns the store, and not only one object. */
function tellsOfStore(operation: SharedOperation, status: number, code: string): boolean {
  if (code === 'NoSuchBucket' || status >= 500 || status === 429 || status === 408)
    return status !== 501
  if (refusedCodes.includes(code)) return true
  // A store that does not allow listing answers 403 for missing objects. The answer to HEAD has no code.
  const reads = operation === 'get' || operation === 'head'
  if (status === 401 || status === 403) return !reads || !['', 'AccessDenied'].includes(code)
  return status >= 300 && status < 400
}

/** The reason with which a request is ended that had no answer in time. */
const late = new Error('too late')

/** The codes of failures in which the connection broke. */
const brokenOff: readonly string[] = ['ORIGIN_SEND_FAILED', 'ORIGIN_CLOSED']

/** Whether this node ended the request itself: its reader left, or the local disk did not give the content to send. */
function isEnded(error: unknown): boolean {
  return error instanceof OriginFailure && error.code === 'ORIGIN_ABORTED'
}

/** An entity tag without its quotes. */
export function bareTag(etag: string): string {
  return etag.replace(/^"(.*)"$/, '$1')
}

function factsOf({ fields }: OriginResponse): Pick<ObjectFacts, 'etag' | 'modified'> {
  const modified = fields.get('Last-Modified')
  return {
    etag: etagIn(fields),
    // Only a date with a two-digit year would need the present moment.
    modified: modified === undefined ? undefined : parseDate(modified, 0),
  }
}

function etagIn(fields: Fields): string {
  const etag = fields.get('ETag') ?? ''
  return etag.length > longestTag ? '' : etag
}

/** The code in an error of the store; "" when there is none. */
function codeIn(text: string): string {
  return /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(text)?.[1] ?? ''
}

function reasonOf({ status, fields }: OriginResponse, code: string): string {
  if (status >= 300 && status < 400) {
    const region = fields.get('x-amz-bucket-region') ?? ''
    const known = /^[a-z0-9-]{1,40}$/.test(region) ? `; the bucket is in ${region}` : ''
    return `it redirects (${status}), which is not followed${known}`
  }
  return code === '' ? `it answers ${status}` : `it answers ${status} ${code}`
}

const fullCodes = /^(?:.*Quota.*|.*StorageFull|InsufficientCapacity|NoSpace.*)$/

function outcomeOf(status: number, code: string, conditional: boolean): BucketRefusal['outcome'] {
  if (status === 507 || fullCodes.test(code)) return 'full'
  if (status === 404) return code === 'NoSuchBucket' ? 'failed' : 'absent'
  if (status === 412 || (status === 409 && conditional)) return 'precondition'
  if (status === 501 || (status === 400 && conditional && code === 'NotImplemented')) {
    return 'unsupported'
  }
  return status === 401 || status === 403 || refusedCodes.includes(code) ? 'denied' : 'failed'
}

/** The first bytes of a content as text. The rest is not read. */
async function beginning(source: Source): Promise<string> {
  let text = ''
  for await (const block of iterate(source)) {
    text += block.toString('latin1', 0, errorBytes - text.length)
    if (text.length >= errorBytes) break
  }
  return text
}
