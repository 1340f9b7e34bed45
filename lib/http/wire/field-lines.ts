/**
 * Reads field lines from bytes as they arrive, RFC 9112 section 5: every byte is looked at once.
 *
 *     field-line = field-name ":" OWS field-value OWS CRLF
 *
 * and an empty line ends them. No line folding (section 5.2), no bare CR or LF (2.2), no NUL. Space before the colon is refused in
 * requests and removed from responses (5.1). Which bytes a value may have is the reader's table: a request that is taken
 * without Node's parser may have fewer.
 */

/** `end` is where the byte behind the empty line stands; `malformed`: no more bytes can mend it. */
type LinesReading = 'incomplete' | 'malformed' | 'too-many' | { readonly end: number }

const CR = 0x0d
const LF = 0x0a
const COLON = 0x3a

export class FieldLines {
  readonly #values: Uint8Array
  readonly #most: number
  readonly #of: 'request' | 'response'
  /** What the next byte is part of: `CR` and `last` await the LF of a line and of the empty line. */
  #step: 'line' | 'name' | 'colon' | 'space' | 'value' | 'CR' | 'last' = 'line'
  /** Bytes looked at. */
  #at = 0
  /** Where each name begins and ends and where its value does, counted from the first line; used again for other lines. */
  readonly #marks: number[] = []
  /** How many of the marks are of these lines. */
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

  /** Names and values in turn, of lines that were read to their end; to be given the same bytes as `read`. */
  flat(bytes: Buffer, from: number): readonly string[] {
    const marks = this.#marks
    // One string for all of them: a slice of it costs a fraction of another call into the runtime.
    const end = this.#marked === 0 ? 0 : (marks[this.#marked - 1] ?? 0)
    const text = bytes.toString('latin1', from, from + end)
    const flat: string[] = []
    for (let i = 0; i < this.#marked; i += 2) flat.push(text.slice(marks[i], marks[i + 1]))
    return flat
  }

  /** Makes it ready for other lines. */
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

/** 1 for each byte that is among these characters. */
export function byteTable(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}

export const alphanumeric = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** tchar (RFC 9110 section 5.6.2) */
const tokenBytes = byteTable(`${alphanumeric}!#$%&'*+-.^_\`|~`)

/** What a value may have: field-vchar with obs-text, spaces and tabs (RFC 9110 section 5.5). */
export const valueBytes = byteTable('\t').fill(1, 0x20, 0x7f).fill(1, 0x80)

/** Longer blocks are read anew each time. */
const longestKept = 8192

/**
 * The last bytes that were read, with what they meant: a peer says the same about itself in each message, and to compare bytes
 * costs less than to read them.
 */
export class LastBlock<T> {
  #meaning: T | undefined
  #bytes: Buffer = none
  /** Where the bytes lie; used again for others. */
  #memory: Buffer = none

  /** How many bytes there are. */
  get length(): number {
    return this.#bytes.length
  }

  /** What the bytes at `from` mean, when the next `length` of them are those kept. */
  meaningAt(bytes: Buffer, from: number): T | undefined {
    const kept = this.#bytes
    const end = from + kept.length
    if (this.#meaning === undefined || end > bytes.length) return undefined
    return bytes.compare(kept, 0, kept.length, from, end) === 0 ? this.#meaning : undefined
  }

  /** Keeps a copy of the bytes between `from` and `end`: their memory may be one that others share. */
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
