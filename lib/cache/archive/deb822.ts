/**
 * Reads stanzas of fields, the format of Release, Packages and Sources (deb822(5)). This file is pure: it makes stanzas from pieces of text.
 *
 * # Facts
 * - A Packages file has 50 MB, and only four of its twenty fields are needed. The others are skipped and not kept in memory.
 * - A line, a field and a stanza have a longest length. Longer text is dropped and the stanza counts as damaged. A stanza that has a field
 *   twice, or a line that is not a field, is damaged as well. The functions here never throw.
 */
import { trimWhitespace } from '../../http/message/field.ts'

export interface Stanza {
  /** The values by the names of the fields in lower case. The lines of a folded value are joined by line feeds, without blanks at their ends. */
  readonly fields: ReadonlyMap<string, string>
  /** Whether a line was malformed, ambiguous or too long, so that the fields are not reliable. */
  readonly damaged: boolean
}

export interface StanzaOptions {
  /** The names of the fields to keep, in upper or lower case; by default all fields. */
  readonly wanted?: readonly string[]
  /** The longest line and the longest field, characters; by default 8 Mi. */
  readonly maxField?: number
  /** The longest sum of the kept fields of a stanza, characters; by default 32 Mi. */
  readonly maxStanza?: number
}

/** The stanzas of a file that comes in pieces of any size. */
export async function* stanzas(
  chunks: AsyncIterable<Uint8Array>,
  options: StanzaOptions = {},
): AsyncGenerator<Stanza> {
  const reader = new StanzaReader(options)
  for await (const chunk of chunks) yield* reader.push(chunk)
  yield* reader.end()
}

/** The stanzas of a whole file. */
export function stanzasOf(content: Uint8Array, options: StanzaOptions = {}): readonly Stanza[] {
  const reader = new StanzaReader(options)
  return [...reader.push(content), ...reader.end()]
}

class StanzaReader {
  /** The names of the kept fields in lower case; undefined when all fields are kept. */
  readonly #wanted: ReadonlyMap<string, string> | undefined
  readonly #maxField: number
  readonly #maxStanza: number
  #found: Stanza[] = []
  /** The beginning of a line whose end has not come yet. */
  #rest = ''
  /** Whether the reader is skipping the rest of a line that is too long. */
  #overlong = false
  #fields = new Map<string, string>()
  #damaged = false
  #begun = false
  #length = 0
  /** The field to which a continuation line belongs; undefined when that field is not kept. */
  #name: string | undefined
  #value = ''

  constructor({ wanted, maxField = 8 << 20, maxStanza = 32 << 20 }: StanzaOptions) {
    const names = wanted?.map(name => name.toLowerCase())
    this.#wanted = names && new Map(names.map(name => [name, name]))
    this.#maxField = maxField
    this.#maxStanza = maxStanza
  }

  /** The stanzas that end in this piece. */
  push(chunk: Uint8Array): readonly Stanza[] {
    // Latin-1 has one character for each byte, which is fast and finds line ends in any encoding. Kept values are decoded later.
    const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1')
    let start = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      if (this.#overlong) this.#overlong = false
      else this.#line(this.#rest + text.slice(start, end))
      this.#rest = ''
      start = end + 1
    }
    if (!this.#overlong) this.#rest += text.slice(start)
    if (this.#rest.length > this.#maxField) {
      this.#rest = ''
      this.#overlong = true
      this.#drop()
    }
    return this.#found.splice(0)
  }

  end(): readonly Stanza[] {
    return this.push(Buffer.from('\n\n'))
  }

  #line(line: string): void {
    if (line === '' || line === '\r') return this.#endStanza()
    if (line.startsWith('#')) return
    if (line.startsWith(' ') || line.startsWith('\t')) {
      if (this.#name !== undefined) this.#append(`\n${trimmed(line)}`)
      return
    }
    this.#endField()
    this.#begun = true
    const colon = line.indexOf(':')
    const name = this.#nameOf(line.slice(0, Math.max(0, colon)))
    if (colon <= 0 || (name !== undefined && this.#fields.has(name))) {
      this.#damaged = true
    } else if (name !== undefined) {
      this.#name = name
      this.#append(trimmed(line.slice(colon + 1)))
    }
  }

  #nameOf(written: string): string | undefined {
    const lower = written.toLowerCase()
    return this.#wanted === undefined ? flat(lower) : this.#wanted.get(lower)
  }

  #append(text: string): void {
    this.#length += text.length
    if (this.#value.length + text.length <= this.#maxField && this.#length <= this.#maxStanza) {
      this.#value += text
    } else this.#drop()
  }

  #drop(): void {
    this.#begun = true
    this.#damaged = true
    this.#name = undefined
    this.#value = ''
  }

  #endField(): void {
    if (this.#name !== undefined) this.#fields.set(this.#name, flat(this.#value))
    this.#name = undefined
    this.#value = ''
  }

  #endStanza(): void {
    this.#endField()
    if (this.#begun) this.#found.push({ fields: this.#fields, damaged: this.#damaged })
    this.#fields = new Map()
    this.#damaged = false
    this.#begun = false
    this.#length = 0
  }
}

/** Decodes a value as UTF-8. The copy is needed: a slice would keep the whole piece in memory. */
function flat(value: string): string {
  return Buffer.from(value, 'latin1').toString('utf8')
}

/** The line without blanks at its ends. Only ASCII blanks count, because 0xA0, a blank in Latin-1, may be a part of a UTF-8 letter. */
function trimmed(line: string): string {
  return trimWhitespace(line.endsWith('\r') ? line.slice(0, -1) : line)
}
