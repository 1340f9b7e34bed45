/**
 * RESP, version 2, the protocol of Redis and Valkey: writes commands, and reads answers as their bytes arrive. Knows no sockets.
 * A server of the store may be in the hands of an attacker, so each answer has bounds, and nothing is allocated by an announced length.
 */

/** An error that the server answers. */
export class ErrorReply extends Error {}

/** The most bytes of an answer. */
const LARGEST_ANSWER = 8 * 1024 * 1024
/** The most elements of all lists of an answer, and how deep these may be nested. */
const MOST_ELEMENTS = 100_000
const DEEPEST = 8
/** The most bytes of a line: of a length, a number, a status, or an error. */
const LONGEST_LINE = 16_384

/** The bytes of a command. */
export function commandText(command: readonly string[]): string {
  const words = command.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
  return `*${command.length}\r\n${words.join('')}`
}

/** Reads answers. The generator of an answer that is not complete waits for the next bytes. */
export class AnswerReader {
  readonly #onAnswer: (answer: unknown) => void
  #bytes: Buffer = Buffer.alloc(0)
  #size = 0
  #elements = 0
  #reading = this.#answer(0)

  constructor(onAnswer: (answer: unknown) => void) {
    this.#onAnswer = onAnswer
  }

  /** Reads on. Throws when the bytes are no answer, or one beyond the bounds; nothing can be read after that. */
  take(chunk: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
    while (this.#bytes.length > 0) {
      const read = this.#reading.next()
      if (!read.done) return
      this.#size = 0
      this.#elements = 0
      this.#reading = this.#answer(0)
      this.#onAnswer(read.value)
    }
  }

  /** A text, a number, a list, an ErrorReply, or null. */
  *#answer(depth: number): Generator<undefined, unknown> {
    const line = yield* this.#line()
    const rest = line.slice(1)
    switch (line[0]) {
      case '+':
        return rest
      case '-':
        return new ErrorReply(rest)
      case ':':
        return numberIn(rest)
      case '$': {
        const length = lengthIn(rest)
        if (length === undefined) return null
        const text = yield* this.#text(length)
        if ((yield* this.#line()) === '') return text
        break
      }
      case '*': {
        const length = lengthIn(rest)
        return length === undefined ? null : yield* this.#list(length, depth + 1)
      }
    }
    throw new Error('the store does not answer in RESP')
  }

  *#list(length: number, depth: number): Generator<undefined, readonly unknown[]> {
    this.#elements += length
    if (this.#elements > MOST_ELEMENTS || depth > DEEPEST) {
      throw new Error(`an answer has lists of more than ${MOST_ELEMENTS} elements`)
    }
    const list: unknown[] = []
    while (list.length < length) list.push(yield* this.#answer(depth))
    return list
  }

  *#line(): Generator<undefined, string> {
    let end = this.#bytes.indexOf('\r\n')
    while (end < 0) {
      if (this.#bytes.length > LONGEST_LINE) throw new Error('the store does not answer in RESP')
      yield
      end = this.#bytes.indexOf('\r\n')
    }
    this.#count(end)
    const line = this.#consume(end).toString()
    this.#consume(2)
    return line
  }

  *#text(length: number): Generator<undefined, string> {
    this.#count(length)
    const pieces: Buffer[] = []
    let missing = length
    while (missing > 0) {
      if (this.#bytes.length === 0) yield
      const piece = this.#consume(Math.min(missing, this.#bytes.length))
      missing -= piece.length
      pieces.push(piece)
    }
    return Buffer.concat(pieces).toString()
  }

  /** Counts bytes of an answer, before they are read. */
  #count(bytes: number): void {
    this.#size += bytes
    if (this.#size > LARGEST_ANSWER) {
      throw new Error(`an answer has more than ${LARGEST_ANSWER} bytes`)
    }
  }

  #consume(length: number): Buffer {
    const piece = this.#bytes.subarray(0, length)
    this.#bytes = this.#bytes.subarray(length)
    return piece
  }
}

function numberIn(text: string): number {
  if (!/^-?\d{1,19}$/.test(text)) throw new Error('the store does not answer in RESP')
  return Number(text)
}

/** The length of a text or a list; undefined for null. */
function lengthIn(text: string): number | undefined {
  const length = numberIn(text)
  if (length < -1) throw new Error('the store does not answer in RESP')
  return length === -1 ? undefined : length
}
