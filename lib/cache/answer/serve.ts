/**
 * A representation to a client: preconditions, ranges, and the content or the part of it that was asked for, RFC 9110 sections
 * 13 and 14. The representation is an entry of the store, or content that is still arriving: the rules are the same.
 */
import { iterate, sourceOf } from '../../bytes/source.ts'
import type { Facts } from '../../errors.ts'
import { frameByteRanges } from '../../http/message/byteranges.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Content, Request, Response } from '../../http/message/message.ts'
import { noContent } from '../../http/message/message.ts'
import { evaluatePreconditions, ifRangeHolds } from '../../http/message/precondition.ts'
import {
  type ByteRange,
  contentRange,
  selectRange,
  unsatisfiedRange,
} from '../../http/message/range.ts'
import { textResponse } from '../../http/message/reply.ts'
import type { Validators } from '../../http/message/validator.ts'

export interface Representation {
  /** Bytes; undefined while the origin has not said. Ranges are then ignored (RFC 9110 section 14.2). */
  readonly size: number | undefined
  readonly validators: Validators
  /** Fields of the 200, Last-Modified among them, and what our own answer adds. */
  readonly fields: Fields
  /** The bytes from `first` to `last`, both included; to the end when `last` is undefined. Undefined: they are gone. */
  readonly content: (
    first: number,
    last: number | undefined,
  ) => Content | undefined | Promise<Content | undefined>
}

export interface ServeOptions {
  readonly now: number
  /** A boundary for multipart answers. */
  readonly boundary: () => string
  /** What our own answer adds: Age, Cache-Status, X-Cache, Via. */
  readonly added: () => Fields
  readonly facts: Response['facts']
}

/**
 * The response to GET or HEAD for this representation: 200, 206, 304 or 416. Undefined when its bytes turn out to be gone.
 */
export async function serve(
  request: Pick<Request, 'method' | 'fields'>,
  representation: Representation,
  options: ServeOptions,
): Promise<Response | undefined> {
  const { size, validators, fields } = representation
  const { now, added } = options
  const noted = options.facts === undefined ? {} : { facts: options.facts }

  const outcome = evaluatePreconditions(request, { validators, role: 'cache' }, now)
  if (!outcome.proceed) {
    // RFC 9110 section 15.4.5: what describes content that is not sent stays away; validators and freshness are repeated.
    const about = fields.without('Content-Type', 'Content-Encoding', 'Accept-Ranges')
    return { status: outcome.status, fields: about, content: noContent, ...noted }
  }
  if (request.method === 'HEAD') {
    const announced = size === undefined ? {} : { announcedLength: size }
    return { status: 200, fields, content: noContent, ...announced, ...noted }
  }
  const selection =
    size === undefined
      ? ({ send: 'whole' } as const)
      : selectRange(request, size, ifRangeHolds(request.fields, validators, now))
  if (selection.send === 'whole' || size === undefined) {
    const content = await representation.content(0, undefined)
    return content && { status: 200, fields, content, ...noted }
  }
  if (selection.send === 'unsatisfiable') {
    return textResponse(416, `The file has ${size} bytes; the range asked for lies behind them.`, {
      fields: added().plus('Content-Range', unsatisfiedRange(size)),
      ...noted,
    })
  }
  const [only, ...others] = selection.ranges
  if (others.length > 0) {
    return severalRanges(representation, size, selection.ranges, { fields, noted, options })
  }
  const content = await representation.content(only.first, only.last)
  return (
    content && {
      status: 206,
      fields: fields.plus('Content-Range', contentRange(only, size)),
      content,
      ...noted,
    }
  )
}

/** multipart/byteranges: one part after the other, each opened when its turn comes. */
async function severalRanges(
  representation: Representation,
  size: number,
  ranges: readonly ByteRange[],
  answer: { fields: Fields; noted: { facts?: Facts }; options: ServeOptions },
): Promise<Response> {
  const frame = frameByteRanges({
    ranges,
    size,
    contentType: representation.fields.get('Content-Type'),
    boundary: answer.options.boundary(),
  })
  async function* parts(signal: AbortSignal): AsyncGenerator<Buffer> {
    for (const { head, range } of frame.parts) {
      yield head
      const content = await representation.content(range.first, range.last)
      if (content === undefined) throw new Error('the stored content is gone')
      yield* blocks(content, signal)
    }
    yield frame.end
  }
  return {
    status: 206,
    fields: answer.fields.with('Content-Type', frame.contentType),
    content: { kind: 'stream', length: frame.length, open: () => sourceOf(parts) },
    ...answer.noted,
  }
}

async function* blocks(content: Content, signal: AbortSignal): AsyncGenerator<Buffer> {
  if (content.kind === 'bytes') yield content.bytes
  else if (content.kind === 'stream') yield* iterate(content.open(), signal)
}
