/**
 * Writes a response on the fast path. The requests of a pipeline are answered in their order: a response whose turn has not come
 * holds its bytes, and with them their source.
 * Head and content up to 64 KiB leave together at the end of the turn, those of a pipeline behind each other.
 */
import { Socket } from 'node:net'
import { flushWrites, type WriteListener, writeNow, writeSoon } from '../../bytes/small-writes.ts'
import { Fields } from '../message/field.ts'
import { hintsOf, type ResponseWriter } from '../server/response-writer.ts'
import {
  chunkEnd,
  chunkStart,
  lastChunk,
  type OutgoingHead,
  responseText,
} from '../wire/message-writer.ts'

/** The connection a response goes to. */
export interface ResponseOwner {
  readonly socket: Socket
  /** Field lines that are the same for all connections of a server. */
  readonly path: { readonly keepAlive: string; readonly dateLine: string }
  /** Told when everything of the response has been written. */
  written(): void
  /** Told when a response has failed: the connection ends with it. */
  broken(): void
}

const noTrailers = lastChunk(Fields.empty)

export class FastResponse implements ResponseWriter {
  readonly #to: ResponseOwner
  /** What waits for its turn; undefined once that has come. */
  #held: Array<() => void> | undefined = []
  /** Written with the first bytes of content. */
  #head = ''
  #lastChunk = noTrailers
  #last = false
  #chunked = false
  #begun = false
  /** Some of it has been given to the connection. */
  #left = false

  constructor(to: ResponseOwner) {
    this.#to = to
  }

  /** Everything before it has been written. */
  turn(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const act of held) act()
  }

  last(): void {
    this.#last = true
  }

  /** Early hints (RFC 8297), when nothing has to leave before them. */
  interim(status: number, fields: Fields): void {
    const links = hintsOf(status, fields)
    if (links.length === 0 || this.#held !== undefined || this.#begun) return
    flushWrites()
    const { lines } = Fields.of(...links.map(link => ['Link', link] as const))
    this.#to.socket.write(`HTTP/1.1 103 Early Hints\r\n${lines}\r\n`, 'latin1')
  }

  get chunked(): boolean {
    return this.#chunked
  }

  head(head: OutgoingHead): void {
    const { path } = this.#to
    this.#begun = true
    this.#chunked = head.hasContent && head.length === undefined
    const date = head.fields.has('Date') ? '' : path.dateLine
    this.#head = responseText(head, date + (this.#last ? 'Connection: close\r\n' : path.keepAlive))
  }

  write(block: Buffer, taken: WriteListener): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.write(block, taken))
    // A chunk of no bytes would be the last one.
    if (block.length === 0) return taken()
    this.#left = true
    const before = this.#chunked ? this.#head + chunkStart(block.length) : this.#head
    this.#head = ''
    const parts = before === '' ? [block] : [before, block]
    writeNow(this.#to.socket, this.#chunked ? [...parts, chunkEnd] : parts, taken)
  }

  trailers(fields: Fields): void {
    this.#lastChunk = lastChunk(fields)
  }

  end(bytes: Buffer | undefined, taken: WriteListener): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.end(bytes, taken))
    const { socket } = this.#to
    const text = this.#chunked ? this.#head + this.#lastChunk : this.#head
    const length = bytes?.length ?? 0
    if (text === '' && length === 0) taken()
    else writeSoon(socket, bytes === undefined ? [text] : [text, bytes], taken)
    if (this.#last) {
      flushWrites()
      socket.destroySoon()
    }
    this.#to.written()
  }

  /** As long as none of it has left, what waits in the connection belongs to the responses before it: they are sent. */
  destroy(): void {
    this.#to.broken()
    if (this.#held !== undefined) return void this.#held.push(() => this.destroy())
    const { socket } = this.#to
    if (this.#left) return void socket.destroy()
    flushWrites()
    // Without lingering (server/lingering.ts): the responses behind it hold memory until the connection closes.
    Socket.prototype.destroySoon.call(socket)
  }
}
