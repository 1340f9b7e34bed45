/**
 * Writes one response: the interface `send.ts` speaks to, and the writer over Node's ServerResponse. The writer of the fast
 * path is `fast-path/fast-response.ts`.
 */
import type { ServerResponse } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { WriteListener } from '../../bytes/small-writes.ts'
import type { Fields } from '../message/field.ts'
import type { Response, SendInterim } from '../message/message.ts'
import { type OutgoingHead, responseText } from '../wire/message-writer.ts'

/** One response on its way. In this order: `last` if need be, `head`, any number of `write`, `trailers` if need be, `end`. */
export interface ResponseWriter {
  /** The connection ends with this response. */
  last(): void
  /** Throws for fields that cannot be written; nothing has left then. */
  head(head: OutgoingHead): void
  /** Whether the content goes in chunks (RFC 9112 section 7.1), so that there is room for trailer fields. */
  readonly chunked: boolean
  write(block: Buffer, taken: WriteListener): void
  trailers(fields: Fields): void
  /** The end, with the content when it is all in memory. */
  end(bytes: Buffer | undefined, taken: WriteListener): void
  /** Cuts the connection, so that the client does not take a part for the whole. */
  destroy(): void
}

/** A response written by Node. */
export class NodeResponseWriter implements ResponseWriter {
  readonly #out: ServerResponse
  readonly #untaken: Set<WriteListener>
  /** Only the end of the connection tells the end of the content. */
  #untilClose = false

  /** `untaken` is that of the connection. */
  constructor(out: ServerResponse, untaken: Set<WriteListener>) {
    this.#out = out
    this.#untaken = untaken
  }

  last(): void {
    this.#out.shouldKeepAlive = false
  }

  head({ status, reason, fields, length, hasContent }: OutgoingHead): void {
    const flat = [...fields.flat]
    if (length !== undefined) flat.push('Content-Length', String(length))
    if (reason === undefined) this.#out.writeHead(status, flat)
    else this.#out.writeHead(status, reason, flat)
    this.#untilClose = hasContent && length === undefined && !this.chunked
  }

  get chunked(): boolean {
    return this.#out.chunkedEncoding
  }

  write(block: Buffer, taken: WriteListener): void {
    const told: WriteListener = error => {
      if (this.#untaken.delete(told)) taken(error)
    }
    this.#untaken.add(told)
    this.#out.write(block, told)
  }

  trailers(fields: Fields): void {
    this.#out.addTrailers([...fields].map(([name, value]): [string, string] => [name, value]))
  }

  end(bytes: Buffer | undefined, taken: WriteListener): void {
    this.#out.once('finish', taken)
    if (bytes === undefined) this.#out.end()
    else this.#out.end(bytes)
  }

  destroy(): void {
    const { socket } = this.#out
    if (socket === null) {
      // Behind another response: the connection ends when that one is sent. Node 24 does not see to it.
      this.#out.once('socket', assigned => assigned.destroy())
    } else if (this.#untilClose && !(socket instanceof TLSSocket)) {
      // A plain end would look like that of the content. TLS leaves out its own end (close_notify).
      socket.resetAndDestroy()
    }
    this.#out.destroy()
  }
}

/** A short response as bytes, for a connection that Node's server has handed over; the connection ends after it. */
export function wholeResponse({ status, reason, fields, content }: Response): Buffer {
  const bytes = content.kind === 'bytes' ? content.bytes : Buffer.alloc(0)
  const head = { status, reason, fields, length: bytes.length, hasContent: true }
  return Buffer.concat([Buffer.from(responseText(head, 'Connection: close\r\n'), 'latin1'), bytes])
}

/** The links of early hints (RFC 8297), the one interim response that is passed on; none for others. */
export function hintsOf(status: number, fields: Fields): readonly string[] {
  return status === 103 ? fields.all('Link') : []
}

/** Sends early hints ahead of the response. */
export function interimSender(out: ServerResponse): SendInterim {
  return (status, fields) => {
    const links = hintsOf(status, fields)
    if (links.length === 0) return
    // Behind another response Node would write the hints into this one (it has no socket yet).
    if (out.socket === null || out.headersSent || out.req.httpVersionMinor === 0) return
    try {
      out.writeEarlyHints({ link: [...links] })
    } catch {
      // Node refuses links it cannot read; a hint that does not arrive is no loss.
    }
  }
}
