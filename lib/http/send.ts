/**
 * A Response onto the wire: framing (RFC 9112 section 6), back-pressure, and an honest end. Content that breaks off cuts the
 * connection, so that no client takes a part for the whole.
 */
import type { ServerResponse } from 'node:http'
import type { LiveRequest } from './live-request.ts'
import type { Response, StreamedContent } from './message.ts'

export interface Sent {
  /** Bytes of content handed to the client's connection. */
  readonly bytes: number
  readonly complete: boolean
  /** Why the content broke off, when it did so on our side. */
  readonly error?: unknown
}

/** Sends the response; resolves when its last byte is with the kernel or the connection has gone. Never rejects. */
export async function send(
  out: ServerResponse,
  request: LiveRequest,
  response: Response,
): Promise<Sent> {
  if (request.over) return { bytes: 0, complete: false }
  const { content } = response
  const hasContent = request.method !== 'HEAD' && mayHaveContent(response.status)
  writeHead(out, response, hasContent)
  if (!hasContent || content.kind === 'none') return whole(out, request, undefined)
  if (content.kind === 'bytes') return whole(out, request, content.bytes)
  return stream(out, request, content)
}

function writeHead(out: ServerResponse, response: Response, hasContent: boolean): void {
  const { content, fields } = response
  const flat = [...fields.flat]
  const length = !hasContent
    ? response.announcedLength
    : content.kind === 'none'
      ? 0
      : content.kind === 'bytes'
        ? content.bytes.length
        : content.length
  if (length !== undefined) flat.push('Content-Length', String(length))
  if (response.reason === undefined) out.writeHead(response.status, flat)
  else out.writeHead(response.status, response.reason, flat)
}

/** Statuses whose responses end with their fields (RFC 9110 section 6.4.1). */
function mayHaveContent(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

/** Head and content in one write. */
function whole(
  out: ServerResponse,
  request: LiveRequest,
  bytes: Buffer | undefined,
): Promise<Sent> {
  return new Promise(resolve => {
    request.onceOver(() => resolve({ bytes: 0, complete: false }))
    out.once('finish', () => resolve({ bytes: bytes?.length ?? 0, complete: true }))
    if (bytes === undefined) out.end()
    else out.end(bytes)
  })
}

async function stream(
  out: ServerResponse,
  request: LiveRequest,
  content: StreamedContent,
): Promise<Sent> {
  const writer = new BlockWriter(out, request)
  try {
    for await (const block of content.open(request.signal)) {
      if (content.length !== undefined && writer.bytes + block.length > content.length) {
        throw new RangeError('more content than was announced')
      }
      await writer.write(block)
    }
    if (content.length !== undefined && writer.bytes !== content.length) {
      throw new RangeError('less content than was announced')
    }
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
  readonly #out: ServerResponse
  readonly #request: LiveRequest
  #giveUp: ((error: Error) => void) | undefined
  bytes = 0

  constructor(out: ServerResponse, request: LiveRequest) {
    this.#out = out
    this.#request = request
    request.onceOver(() => this.#giveUp?.(clientGone()))
  }

  async write(block: Buffer): Promise<void> {
    if (this.#request.over) throw clientGone()
    await new Promise<void>((resolve, reject) => {
      this.#giveUp = reject
      this.#out.write(block, error => (error ? reject(error) : resolve()))
    })
    this.bytes += block.length
  }
}

function clientGone(): Error {
  return new Error('the client has gone')
}
