/**
 * Reads stanzas of fields, the format of Release, Packages and Sources (deb822(5)). Pure: text in pieces, stanzas out.
 *
 * # Facts
 * - A Packages file is 50 MB and of its twenty fields four are of interest: the others are skipped without being kept.
 * - A line, a field and a stanza have a longest length. What goes beyond is dropped and the stanza is called damaged; so is a
 *   stanza that names a field twice or has a line that is no field. Nothing here throws.
 */
import { trimWhitespace } from '../../http/message/field.ts'

export interface Stanza {
  /** Values by field name in lower case. Lines of a folded value are joined by line feeds, without their first blank. */
  readonly fields: ReadonlyMap<string, string>
  /** Something in it was malformed, ambiguous or too long: its fields are not to be relied on. */
  readonly damaged: boolean
}

export interface StanzaOptions {
  /** The fields to keep, in any case; all of them when not given. */
  readonly wanted?: readonly string[]
  /** Longest line and longest field, characters; 8 Mi when not given. */
  readonly maxField?: number
  /** Longest stanza as far as it is kept, characters; 32 Mi when not given. */
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
  /** The fields that are kept, by their names in lower case; undefined when all are. */
  readonly #wanted: ReadonlyMap<string, string> | undefined
  readonly #maxField: number
  readonly #maxStanza: number
  #found: Stanza[] = []
  /** The beginning of a line whose end has not come yet. */
  #rest = ''
  /** Whether the rest of a line that is too long is being passed over. */
  #overlong = false
  #fields = new Map<string, string>()
  #damaged = false
  #begun = false
  #length = 0
  /** The field a continuation line belongs to; undefined when it is not kept. */
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
    // A byte a character is quick and finds line ends in any encoding; kept values are decoded one by one.
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

/** The value as UTF-8 text of its own: a slice would keep the whole piece it was cut from in memory. */
function flat(value: string): string {
  return Buffer.from(value, 'latin1').toString('utf8')
}

/** The line without blanks at its ends. It is bytes and no text yet: 0xA0, a blank in Latin-1, ends many a letter in UTF-8. */
function trimmed(line: string): string {
  return trimWhitespace(line.endsWith('\r') ? line.slice(0, -1) : line)
}
