/**
 * A Response onto the wire: framing (RFC 9112 section 6), back-pressure, and an honest end. Content that breaks off cuts the
 * connection, so that no client takes a part for the whole.
 */
import type { ServerResponse } from 'node:http'
import type { Clock, Milliseconds } from '../clock.ts'
import type { LiveRequest } from './live-request.ts'
import type { LoopShare } from './loop-share.ts'
import type { Response, SendInterim, StreamedContent } from './message.ts'

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
export async function send(
  out: ServerResponse,
  request: LiveRequest,
  response: Response,
  taking?: Taking,
): Promise<Sent> {
  if (request.over) return { bytes: 0, complete: false }
  const { content } = response
  const hasContent = request.method !== 'HEAD' && mayHaveContent(response.status)
  writeHead(out, response, hasContent)
  if (!hasContent || content.kind === 'none') return whole(out, request, undefined)
  if (content.kind === 'bytes') return whole(out, request, content.bytes)
  return stream(out, request, { content, taking })
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
    if (content.trailers !== undefined && out.chunkedEncoding) {
      out.addTrailers(
        [...content.trailers()].map(([name, value]): [string, string] => [name, value]),
      )
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
  readonly #taking: Taking | undefined
  #giveUp: ((error: Error) => void) | undefined
  bytes = 0

  constructor(out: ServerResponse, request: LiveRequest, taking: Taking | undefined) {
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

/** Sends early hints (RFC 8297) ahead of the response, the one interim response that is of use to anybody. */
export function interimSender(out: ServerResponse): SendInterim {
  return (status, fields) => {
    const links = fields.all('Link')
    if (status !== 103 || links.length === 0) return
    if (out.headersSent || out.req.httpVersionMinor === 0) return
    try {
      out.writeEarlyHints({ link: [...links] })
    } catch {
      // Node refuses links it cannot read; a hint that does not arrive is no loss.
    }
  }
}

function clientGone(): Error {
  return new Error('the client has gone')
}
