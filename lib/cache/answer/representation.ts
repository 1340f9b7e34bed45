/**
 * Answers GET and HEAD with a file, stored or arriving: preconditions (RFC 9110 section 13), then ranges (section 14), then
 * content. Each response has Age, X-Cache, Cache-Status (RFC 9211) and Via.
 */
import { whenReady } from '../../async/ready.ts'
import { iterate, sourceOf } from '../../bytes/source.ts'
import type { Facts } from '../../errors.ts'
import { frameByteRanges } from '../../http/message/byteranges.ts'
import type { RequestDirectives } from '../../http/message/cache-control.ts'
import type { Fields } from '../../http/message/field.ts'
import { type Content, noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions, ifRangeHolds } from '../../http/message/precondition.ts'
import {
  type ByteRange,
  contentRange,
  selectRange,
  unsatisfiedRange,
} from '../../http/message/range.ts'
import { textResponse } from '../../http/message/reply.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Validators } from '../../http/message/validator.ts'
import type { ArchivePath } from '../archive/path.ts'
import type { Claim } from '../suites/suites.ts'

/** The name of this cache in Cache-Status. */
export const cacheName = 'cachesvc'

/** What every answer about one target has in common. */
export interface About {
  readonly key: string
  readonly kind: string
  readonly origin: string
}

export interface AnswerTools {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** A boundary for multipart answers. */
  readonly boundary: () => string
  /** Our Via member, such as `1.1 cachesvc`. */
  readonly via: string
}

/** A request that may be answered, with everything its answer needs. */
export interface Allowed {
  readonly request: Request
  /** The target the origin is asked for. */
  readonly uri: TargetUri
  readonly key: string
  readonly archive: ArchivePath
  /** What an adopted index says the content must be. */
  readonly claim?: Claim | undefined
  readonly directives: RequestDirectives
  readonly about: About
  readonly tools: AnswerTools
}

/** A file as it can be sent. */
export interface Representation {
  /** Bytes; undefined while the length is not known. */
  readonly size: number | undefined
  readonly validators: Validators
  /** All fields of the 200 but Content-Length. */
  readonly fields: Fields
  /** Those of them that this cache makes: age and origin of the content. */
  readonly told: () => Fields
  readonly facts: Facts
  /** The bytes from `first` to `last`, both included, to the end when `last` is undefined. Undefined when they are missing. */
  readonly open: (
    first: number,
    last: number | undefined,
  ) => Content | undefined | Promise<Content | undefined>
}

/** The response: 200, 206, 304, 412 or 416. Undefined when the bytes are missing. */
export function represent(
  request: Pick<Request, 'method' | 'fields'>,
  representation: Representation,
  tools: Pick<AnswerTools, 'now' | 'boundary'>,
): Response | undefined | Promise<Response | undefined> {
  const { size, validators, fields, facts, open } = representation
  const { now } = tools
  const outcome = evaluatePreconditions(request, { validators, role: 'cache' }, now)
  if (!outcome.proceed) {
    // RFC 9110 section 15.4.5: fields that describe content are left out; validators and freshness are repeated.
    const about = fields.without('Content-Type', 'Content-Encoding', 'Accept-Ranges')
    return { status: outcome.status, fields: about, content: noContent, facts }
  }
  if (request.method === 'HEAD') {
    const announced = size === undefined ? {} : { announcedLength: size }
    return { status: 200, fields, content: noContent, ...announced, facts }
  }
  const selection =
    size !== undefined && request.fields.has('Range')
      ? selectRange(request, size, ifRangeHolds(request.fields, validators, now))
      : whole
  if (selection.send === 'whole' || size === undefined) {
    return whenReady(
      open(0, undefined),
      content => content && { status: 200, fields, content, facts },
    )
  }
  if (selection.send === 'unsatisfiable') {
    return textResponse(416, `The file has ${size} bytes; the range asked for lies behind them.`, {
      fields: representation.told().plus('Content-Range', unsatisfiedRange(size)),
      facts,
    })
  }
  const [only, ...others] = selection.ranges
  if (others.length > 0) return severalRanges(representation, size, selection.ranges, tools)
  return whenReady(
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

/** multipart/byteranges: one part after the other, each opened when its turn comes. */
function severalRanges(
  { fields, facts, open }: Representation,
  size: number,
  ranges: readonly ByteRange[],
  tools: Pick<AnswerTools, 'boundary'>,
): Response {
  const frame = frameByteRanges({
    ranges,
    size,
    contentType: fields.get('Content-Type'),
    boundary: tools.boundary(),
  })
  async function* parts(signal: AbortSignal): AsyncGenerator<Buffer> {
    for (const { head, range } of frame.parts) {
      yield head
      const content = await open(range.first, range.last)
      if (content === undefined) throw new Error('the stored content is gone')
      if (content.kind === 'bytes') yield content.bytes
      else if (content.kind === 'stream') yield* iterate(content.open(), signal)
    }
    yield frame.end
  }
  return {
    status: 206,
    fields: fields.with('Content-Type', frame.contentType),
    content: { kind: 'stream', length: frame.length, open: () => sourceOf(parts) },
    facts,
  }
}
