/**
 * A Response onto the wire: framing (RFC 9112 section 6), back-pressure, and an honest end. Content that breaks off cuts the
 * connection, so that no client takes a part for the whole. Who writes the bytes is `Outgoing`'s affair.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { LoopShare } from '../fast-path/loop-share.ts'
import type { Response, StreamedContent } from '../message/message.ts'
import type { LiveRequest } from './live-request.ts'
import type { Outgoing } from './response-writer.ts'

export interface Sent {
  /** Bytes of content handed to the client's connection. */
  readonly bytes: number
  readonly complete: boolean
  /** Why the content broke off, when it did so on our side. */
  readonly error?: unknown
}

/** What blocks wait for, and how long a client may take over one; without it, as long as it likes. */
export interface Taking {
  readonly clock: Clock
  readonly taking: Milliseconds | undefined
  readonly share?: LoopShare
}

/** Sends the response; resolves when its last byte is with the kernel or the connection has gone. Never rejects. */
export function send(
  out: Outgoing,
  request: LiveRequest,
  response: Response,
  taking?: Taking,
): Promise<Sent> {
  if (request.over) return Promise.resolve(nothing)
  const { content } = response
  const hasContent = request.method !== 'HEAD' && mayHaveContent(response.status)
  try {
    const { status, reason, fields } = response
    out.head({ status, reason, fields, length: lengthOf(response, hasContent), hasContent })
  } catch (error) {
    out.destroy()
    return Promise.resolve({ ...nothing, error })
  }
  if (!hasContent || content.kind === 'none') return whole(out, request, undefined)
  if (content.kind === 'bytes') return whole(out, request, content.bytes)
  return stream(out, request, { content, taking })
}

const nothing: Sent = { bytes: 0, complete: false }

function lengthOf({ content, announcedLength }: Response, hasContent: boolean): number | undefined {
  if (!hasContent) return announcedLength
  if (content.kind === 'none') return 0
  return content.kind === 'bytes' ? content.bytes.length : content.length
}

/** Statuses whose responses end with their fields (RFC 9110 section 6.4.1). */
function mayHaveContent(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

/** Head and content in one write. */
function whole(out: Outgoing, request: LiveRequest, bytes: Buffer | undefined): Promise<Sent> {
  return new Promise(resolve => {
    request.onceOver(() => resolve(nothing))
    // After an error the connection closes, and that ends the request.
    out.end(bytes, error => {
      if (!error) resolve({ bytes: bytes === undefined ? 0 : bytes.length, complete: true })
    })
  })
}

async function stream(
  out: Outgoing,
  request: LiveRequest,
  { content, taking }: { readonly content: StreamedContent; readonly taking: Taking | undefined },
): Promise<Sent> {
  const writer = new BlockWriter(out, request, taking)
  try {
    for await (const block of content.open(request.signal)) {
      if (content.length !== undefined && writer.bytes + block.length > content.length) {
        throw new RangeError('more content than was announced')
      }
      if (writer.bytes > 0) await taking?.share?.take(block.length)
      await writer.write(block)
    }
    if (content.length !== undefined && writer.bytes !== content.length) {
      throw new RangeError('less content than was announced')
    }
    // Without chunks there is no place for them (RFC 9112 section 7.1.2).
    if (content.trailers !== undefined && out.chunked) out.trailers(content.trailers())
    const end = await whole(out, request, undefined)
    return { bytes: writer.bytes, complete: end.complete }
  } catch (error) {
    out.destroy()
    return request.over
      ? { bytes: writer.bytes, complete: false }
      : { bytes: writer.bytes, complete: false, error }
  }
}

/**
 * Writes block after block, each handed to the kernel before the next is asked for. A response that waits behind another on
 * its connection never hears from its own writes when that connection breaks, so the end of the request ends the wait too.
 */
class BlockWriter {
  readonly #out: Outgoing
  readonly #request: LiveRequest
  readonly #taking: Taking | undefined
  #giveUp: ((error: Error) => void) | undefined
  bytes = 0

  constructor(out: Outgoing, request: LiveRequest, taking: Taking | undefined) {
    this.#taking = taking
    this.#out = out
    this.#request = request
    request.onceOver(() => this.#giveUp?.(clientGone()))
  }

  async write(block: Buffer): Promise<void> {
    if (this.#request.over) throw clientGone()
    const { clock, taking } = this.#taking ?? {}
    let cancelTimer = () => {}
    await new Promise<void>((resolve, reject) => {
      this.#giveUp = reject
      if (taking !== undefined && clock !== undefined) {
        cancelTimer = clock.after(taking, () => reject(new Error('the client takes nothing')))
      }
      this.#out.write(block, error => (error ? reject(error) : resolve()))
    }).finally(() => cancelTimer())
    this.bytes += block.length
  }
}

function clientGone(): Error {
  return new Error('the client has gone')
}
