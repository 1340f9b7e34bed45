/**
 * Writes a response on the fast path. The requests of a pipeline are answered in their order: a response whose turn has not come
 * holds its bytes, and with them their source.
 *
 * # Small responses
 * Head and content up to some kilobytes are put together in one buffer that all connections share, those of a pipeline behind
 * each other, and leave in one write. The kernel nearly always takes them at once; when it does not, the buffer is left to that
 * write and another one is made.
 */

import type { Socket } from 'node:net'
import { Fields } from '../message/field.ts'
import { hintsOf, type ResponseWriter, type Taken } from '../server/response-writer.ts'
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
  /** Whether requests are being read: their answers leave together. */
  readonly reading: boolean
  /** Told when everything of the response has been written. */
  written(): void
  /** Told when a response has failed: the connection ends with it. */
  broken(): void
}

const noTrailers = lastChunk(Fields.empty)

/** The shared buffer, and what of it waits to be written: responses of one connection. */
const batchBytes = 64 * 1024
let batch = Buffer.allocUnsafeSlow(batchBytes)
let used = 0
let owner: ResponseOwner | undefined
let waiting: Taken[] = []

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

  /** Writes what the shared buffer holds. To be called at the end of everything that may have written. */
  static flush(): void {
    const to = owner
    if (to === undefined) return
    const { socket } = to
    const told = waiting
    const bytes = batch.subarray(0, used)
    owner = undefined
    used = 0
    waiting = []
    let done = false
    const taken: Taken = error => {
      if (done) return
      done = true
      for (const tell of told) tell(error)
    }
    socket.write(bytes, taken)
    if (socket.writableLength > 0) batch = Buffer.allocUnsafeSlow(batchBytes)
    else if (!socket.destroyed) taken()
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
    FastResponse.flush()
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

  write(block: Buffer, taken: Taken): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.write(block, taken))
    // A chunk of no bytes would be the last one.
    if (block.length === 0) return taken()
    this.#left = true
    FastResponse.flush()
    const { socket } = this.#to
    const before = this.#chunked ? this.#head + chunkStart(block.length) : this.#head
    this.#head = ''
    if (before === '') return void socket.write(block, taken)
    socket.cork()
    socket.write(before, 'latin1')
    if (this.#chunked) {
      socket.write(block)
      socket.write(chunkEnd, 'latin1', taken)
    } else socket.write(block, taken)
    socket.uncork()
  }

  trailers(fields: Fields): void {
    this.#lastChunk = lastChunk(fields)
  }

  end(bytes: Buffer | undefined, taken: Taken): void {
    if (this.#held !== undefined) return void this.#held.push(() => this.end(bytes, taken))
    const { socket } = this.#to
    const text = this.#chunked ? this.#head + this.#lastChunk : this.#head
    const length = bytes?.length ?? 0
    if (text === '' && length === 0) taken()
    else if (text.length + length <= batchBytes) this.#gather(text, bytes, taken)
    else {
      FastResponse.flush()
      socket.cork()
      socket.write(text, 'latin1')
      socket.write(bytes ?? '', taken)
      socket.uncork()
    }
    if (this.#last) {
      FastResponse.flush()
      socket.destroySoon()
    }
    this.#to.written()
  }

  /** As long as none of it has left, what waits in the connection belongs to the responses before it: they are sent. */
  destroy(): void {
    this.#to.broken()
    if (this.#held !== undefined) return void this.#held.push(() => this.destroy())
    if (this.#left) return void this.#to.socket.destroy()
    FastResponse.flush()
    this.#to.socket.destroySoon()
  }

  #gather(text: string, bytes: Buffer | undefined, taken: Taken): void {
    const length = text.length + (bytes?.length ?? 0)
    if (owner !== this.#to || used + length > batchBytes) FastResponse.flush()
    owner = this.#to
    used += batch.write(text, used, 'latin1')
    if (bytes !== undefined) used += bytes.copy(batch, used)
    waiting.push(taken)
    if (!this.#to.reading) FastResponse.flush()
  }
}
