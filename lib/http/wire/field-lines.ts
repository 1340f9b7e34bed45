/**
 * Reads field lines from bytes as they arrive, RFC 9112 section 5. It reads every byte once.
 *
 *     field-line = field-name ":" OWS field-value OWS CRLF
 *
 * An empty line ends them. The reader refuses line folding (section 5.2), bare CR or LF (2.2) and NUL. It refuses space before the colon in
 * requests and removes it from responses (5.1). The caller's table says which bytes a value may have: it has fewer for requests that are
 * read without Node's parser.
 */

/** `end` is the position after the empty line. `malformed`: no further bytes can correct it. */
type LinesReading = 'incomplete' | 'malformed' | 'too-many' | { readonly end: number }

const CR = 0x0d
const LF = 0x0a
const COLON = 0x3a

export class FieldLines {
  readonly #values: Uint8Array
  readonly #most: number
  readonly #of: 'request' | 'response'
  /** The part to which the next byte belongs: `CR` and `last` await the LF of a line and of the empty line. */
  #step: 'line' | 'name' | 'colon' | 'space' | 'value' | 'CR' | 'last' = 'line'
  /** Bytes that were read. */
  #at = 0
  /** For each line the begin and end of its name and of its value, counted from the first line. The array is used again for other lines. */
  readonly #marks: number[] = []
  /** How many of the marks belong to these lines. */
  #marked = 0

  /** `values` is 1 for the bytes a value may have, `most` is the largest number of lines. */
  constructor(values: Uint8Array, most: number, of: 'request' | 'response') {
    this.#values = values
    this.#most = most
    this.#of = of
  }

  /** Reads the lines that begin at `from`. After `incomplete`, call it again with the same bytes and more behind them. */
  read(bytes: Buffer, from: number): LinesReading {
    const marks = this.#marks
    const values = this.#values
    const { length } = bytes
    let at = from + this.#at
    while (at < length) {
      switch (this.#step) {
        case 'line':
          if (bytes[at] === CR) this.#step = 'last'
          else if (this.#marked === 4 * this.#most) return 'too-many'
          else {
            this.#mark(at - from)
            this.#step = 'name'
            break
          }
          at += 1
          break
        case 'name':
          while (at < length && tokenBytes[bytes[at] ?? 0] === 1) at += 1
          if (at === length) break
          if (at - from === marks[this.#marked - 1]) return 'malformed'
          if (bytes[at] === COLON) {
            this.#mark(at - from)
            at += 1
            this.#step = 'space'
          } else if (this.#of === 'response' && isSpace(bytes[at])) {
            this.#mark(at - from)
            this.#step = 'colon'
          } else return 'malformed'
          break
        case 'colon':
          while (at < length && isSpace(bytes[at])) at += 1
          if (at === length) break
          if (bytes[at] !== COLON) return 'malformed'
          at += 1
          this.#step = 'space'
          break
        case 'space':
          while (at < length && isSpace(bytes[at]) && values[bytes[at] ?? 0] === 1) at += 1
          if (at === length) break
          this.#mark(at - from)
          this.#step = 'value'
          break
        case 'value': {
          while (at < length && values[bytes[at] ?? 0] === 1) at += 1
          if (at === length) break
          if (bytes[at] !== CR) return 'malformed'
          const start = from + (marks[this.#marked - 1] ?? 0)
          let end = at
          while (end > start && isSpace(bytes[end - 1])) end -= 1
          this.#mark(end - from)
          at += 1
          this.#step = 'CR'
          break
        }
        case 'CR':
          if (bytes[at] !== LF) return 'malformed'
          at += 1
          this.#step = 'line'
          break
        case 'last':
          return bytes[at] === LF ? { end: at + 1 } : 'malformed'
      }
    }
    this.#at = at - from
    return 'incomplete'
  }

  /** Names and values in turn, of lines that were read to their end. `bytes` must be those given to `read`. */
  flat(bytes: Buffer, from: number): readonly string[] {
    const marks = this.#marks
    // One string is made for all of them: a slice of it costs a fraction of another call into the runtime.
    const end = this.#marked === 0 ? 0 : (marks[this.#marked - 1] ?? 0)
    const text = bytes.toString('latin1', from, from + end)
    const flat: string[] = []
    for (let i = 0; i < this.#marked; i += 2) flat.push(text.slice(marks[i], marks[i + 1]))
    return flat
  }

  reset(): void {
    this.#step = 'line'
    this.#at = 0
    this.#marked = 0
  }

  #mark(at: number): void {
    this.#marks[this.#marked] = at
    this.#marked += 1
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09
}

/** A table that is 1 for each byte among these characters. */
export function byteTable(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}

export const alphanumericCharacters =
  '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** tchar (RFC 9110 section 5.6.2) */
const tokenBytes = byteTable(`${alphanumericCharacters}!#$%&'*+-.^_\`|~`)

/** The bytes that a value may have: field-vchar with obs-text, spaces and tabs (RFC 9110 section 5.5). */
export const valueBytes = byteTable('\t').fill(1, 0x20, 0x7f).fill(1, 0x80)

/** A longer block is not kept. */
const longestKept = 8192

/**
 * The last bytes that were read, with their meaning. A peer repeats the same lines in each message, and to compare bytes costs less than to
 * read them.
 */
export class LastBlock<T> {
  #meaning: T | undefined
  #bytes: Buffer = none
  /** The memory in which the bytes lie, used again for others. */
  #memory: Buffer = none

  get length(): number {
    return this.#bytes.length
  }

  /** The meaning of the bytes at `from`, when the next `length` of them are those kept. */
  meaningAt(bytes: Buffer, from: number): T | undefined {
    const kept = this.#bytes
    const end = from + kept.length
    if (this.#meaning === undefined || end > bytes.length) return undefined
    return bytes.compare(kept, 0, kept.length, from, end) === 0 ? this.#meaning : undefined
  }

  /** Keeps a copy of the bytes between `from` and `end`, because other connections may share their memory. */
  keep(bytes: Buffer, from: number, end: number, meaning: T): void {
    const length = end - from
    if (length > longestKept) return
    if (length > this.#memory.length) this.#memory = Buffer.allocUnsafeSlow(length)
    bytes.copy(this.#memory, 0, from, end)
    this.#bytes = this.#memory.subarray(0, length)
    this.#meaning = meaning
  }
}

const none = Buffer.alloc(0)
