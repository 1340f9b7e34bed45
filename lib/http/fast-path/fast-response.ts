/**
 * A response written by us onto the socket of a lane: head and small content in one system call, RFC 9112 sections 4 to 7.
 * The requests of a pipeline are answered in their order: a response whose turn has not come holds its bytes, and with them
 * whoever makes them.
 */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Fields } from '../message/field.ts'
import type { ResponseHead, ResponseWriter, Taken } from '../server/response-writer.ts'

/** What a response needs of its connection. */
export interface LaneWriting {
  readonly socket: Socket
  /** The Date field's value now. */
  readonly date: () => string
  /** The field lines of a response after which the connection goes on. */
  readonly keepAlive: string
  /** Told when everything of this response has been written. */
  readonly written: () => void
}

export class LaneResponse implements ResponseWriter {
  readonly #to: LaneWriting
  /** What waits for its turn; undefined once that has come. */
  #held: Array<() => void> | undefined = []
  /** Written with the first bytes of content. */
  #head = ''
  #trailers = ''
  #last = false
  #chunked = false

  constructor(to: LaneWriting) {
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

  get chunked(): boolean {
    return this.#chunked
  }

  head({ status, reason, fields, length, hasContent }: ResponseHead): void {
    const phrase = reason ?? STATUS_CODES[status] ?? 'unknown'
    if (!PHRASE.test(phrase)) throw new TypeError('the reason phrase cannot be written')
    this.#chunked = hasContent && length === undefined
    let text = `HTTP/1.1 ${status} ${phrase}\r\n${fields.lines}`
    if (length !== undefined) text += `Content-Length: ${length}\r\n`
    if (!fields.has('Date')) text += `Date: ${this.#to.date()}\r\n`
    text += this.#last ? 'Connection: close\r\n' : this.#to.keepAlive
    this.#head = this.#chunked ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`
  }

  write(block: Buffer, taken: Taken): void {
    if (this.#held !== undefined) {
      this.#held.push(() => this.write(block, taken))
      return
    }
    // A chunk of no bytes would be the last one.
    if (block.length === 0) {
      taken()
      return
    }
    const { socket } = this.#to
    socket.cork()
    const before = this.#chunked ? `${block.length.toString(16)}\r\n` : ''
    if (this.#head !== '' || before !== '') socket.write(`${this.#head}${before}`, 'latin1')
    this.#head = ''
    if (this.#chunked) {
      socket.write(block)
      socket.write('\r\n', 'latin1', taken)
    } else socket.write(block, taken)
    socket.uncork()
  }

  trailers(fields: Fields): void {
    this.#trailers = fields.lines
  }

  end(bytes: Buffer | undefined, taken: Taken): void {
    if (this.#held !== undefined) {
      this.#held.push(() => this.end(bytes, taken))
      return
    }
    const { socket, written } = this.#to
    const text = this.#chunked ? `${this.#head}0\r\n${this.#trailers}\r\n` : this.#head
    if (bytes !== undefined && bytes.length > 0) {
      socket.cork()
      socket.write(text, 'latin1')
      socket.write(bytes, taken)
      socket.uncork()
    } else if (text === '') taken()
    else socket.write(text, 'latin1', taken)
    if (this.#last) socket.destroySoon()
    written()
  }

  destroy(): void {
    if (this.#held === undefined) this.#to.socket.destroy()
    else this.#held.push(() => this.destroy())
  }
}

/** reason-phrase (RFC 9112 section 4) */
const PHRASE = /^[\t\x20-\x7e\x80-\xff]*$/
