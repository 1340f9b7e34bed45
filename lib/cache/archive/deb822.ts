/**
 * Reads stanzas of fields, the format of Release, Packages and Sources (deb822(5)). Pure: text in pieces, stanzas out.
 *
 * # Facts
 * - A Packages file is 50 MB and of its twenty fields four are of interest: the others are skipped without being kept.
 * - A line, a field and a stanza have a longest length. What goes beyond is dropped and the stanza is called damaged; so is a
 *   stanza that names a field twice or has a line that is no field. Nothing here throws.
 */

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

/** How many names are remembered; files have some dozens. */
const maxNames = 500

class StanzaReader {
  readonly #wanted: ReadonlySet<string> | undefined
  readonly #maxField: number
  readonly #maxStanza: number
  /** Names as files write them: the lower-case name when wanted, undefined when not. */
  readonly #names = new Map<string, string | undefined>()
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
    this.#wanted = wanted && new Set(wanted.map(name => name.toLowerCase()))
    this.#maxField = maxField
    this.#maxStanza = maxStanza
  }

  push(chunk: Uint8Array): readonly Stanza[] {
    const found: Stanza[] = []
    // A byte a character is quick and finds line ends in any encoding; kept values are decoded one by one.
    const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1')
    let start = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      const part = text.slice(start, end)
      start = end + 1
      if (this.#overlong) this.#overlong = false
      else this.#line(this.#rest === '' ? part : this.#rest + part, found)
      this.#rest = ''
    }
    if (!this.#overlong) this.#keepRest(text.slice(start))
    return found
  }

  end(): readonly Stanza[] {
    const found: Stanza[] = []
    if (this.#rest !== '') this.#line(this.#rest, found)
    this.#rest = ''
    this.#endStanza(found)
    return found
  }

  #keepRest(part: string): void {
    this.#rest += part
    if (this.#rest.length <= this.#maxField) return
    this.#rest = ''
    this.#overlong = true
    this.#drop()
  }

  #line(line: string, found: Stanza[]): void {
    if (line === '' || line === '\r') this.#endStanza(found)
    else if (line.startsWith(' ') || line.startsWith('\t')) {
      if (this.#name !== undefined) this.#append(`\n${line.trim()}`)
    } else if (!line.startsWith('#')) this.#field(line)
  }

  #field(line: string): void {
    this.#endField()
    this.#begun = true
    const colon = line.indexOf(':')
    if (colon <= 0) {
      this.#damaged = true
      return
    }
    const name = this.#nameOf(line.slice(0, colon))
    if (name === undefined) return
    if (this.#fields.has(name)) {
      this.#damaged = true
      return
    }
    this.#name = name
    this.#append(line.slice(colon + 1).trim())
  }

  #nameOf(written: string): string | undefined {
    if (this.#names.has(written)) return this.#names.get(written)
    const lower = written.toLowerCase()
    const name = this.#wanted === undefined || this.#wanted.has(lower) ? lower : undefined
    if (this.#names.size < maxNames) this.#names.set(flat(written), name && flat(name))
    return name
  }

  #append(text: string): void {
    this.#length += text.length
    if (this.#value.length + text.length > this.#maxField || this.#length > this.#maxStanza) {
      this.#drop()
    } else this.#value += text
  }

  /** What is being read is too long. */
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

  #endStanza(found: Stanza[]): void {
    this.#endField()
    if (this.#begun) found.push({ fields: this.#fields, damaged: this.#damaged })
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
