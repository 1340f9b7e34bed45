/**
 * Fields of a message, RFC 9110 section 5.
 *
 * # Facts
 * - Order matters among lines of one name and nowhere else; names are case-insensitive, values are not.
 * - Several lines of one name mean the same as one line joined by ", " (5.3), except Set-Cookie.
 * - Node hands lines over, and takes them, as one flat list: name, value, name, value.
 *
 * # Representation
 * That flat list, never changed after it was made. Messages carry a handful of lines, so a scan beats an index, and nothing
 * has to be converted on the way in or out.
 */

/** Makes other fields of fields; for the same ones always the same. */
type Change = (fields: Fields) => Fields

export class Fields {
  static readonly empty = new Fields([])

  /** All of them; for fields that follow others, those behind. */
  readonly #own: readonly string[]
  /** What these begin with, when they follow others. */
  readonly #begin: Fields | undefined
  #joined: readonly string[] | undefined
  #lines: string | undefined
  /** Whether `lines` was asked before. */
  #written = false
  /** Whether every name is a token and every value can be written: a reader of bytes has looked at each of them. */
  readonly #sound: boolean
  /** The predicate that `where` was last asked with and that kept all fields. */
  #kept: ((name: string) => boolean) | undefined
  /** What `through` was last asked, and its answer. */
  #through: { readonly change: Change; readonly fields: Fields } | undefined

  private constructor(own: readonly string[], begin?: Fields, sound = false) {
    this.#own = own
    this.#begin = begin
    this.#sound = sound
  }

  /** Fields from a flat list as Node's `rawHeaders` gives it. The list must not be changed afterwards. */
  static fromFlat(flat: readonly string[]): Fields {
    return flat.length === 0 ? Fields.empty : new Fields(flat)
  }

  /** Fields from a flat list whose names are tokens and whose values can be written, by the grammar they were read by. */
  static fromSound(flat: readonly string[]): Fields {
    return flat.length === 0 ? Fields.empty : new Fields(flat, undefined, true)
  }

  /** Fields from pairs; a value of undefined is left out. */
  static of(...pairs: ReadonlyArray<readonly [name: string, value: string | undefined]>): Fields {
    const flat: string[] = []
    for (const [name, value] of pairs) if (value !== undefined) flat.push(name, value)
    return Fields.fromFlat(flat)
  }

  /** Fields from pairs, for many messages: the lines are made once, and at once. Throws as `lines` does. */
  static lasting(...pairs: ReadonlyArray<readonly [name: string, value: string]>): Fields {
    const fields = Fields.of(...pairs)
    fields.#lines = inOnePiece(fields.lines)
    return fields
  }

  /** The flat list, ready for `writeHead`. */
  get flat(): readonly string[] {
    if (this.#begin === undefined) return this.#own
    this.#joined ??= [...this.#begin.flat, ...this.#own]
    return this.#joined
  }

  /** What these begin with, when they follow others: one object for messages that begin alike. */
  get begin(): Fields | undefined {
    return this.#begin
  }

  /** All of them; for fields that follow others, those behind. */
  get own(): readonly string[] {
    return this.#own
  }

  /** These fields with others behind them. For messages that begin alike: `lines` and the last `where` of these are kept. */
  followedBy(others: readonly string[]): Fields {
    return new Fields(others, this)
  }

  /**
   * The field lines as they go onto the wire (RFC 9112 section 5), each with its CRLF. Throws a TypeError for a name that is no
   * token and a value with control characters or characters beyond a byte: no field ends up as two.
   */
  get lines(): string {
    if (this.#lines !== undefined) return this.#lines
    const begin = this.#begin
    const lines = linesOf(this.#own, this.#sound)
    if (begin === undefined) {
      // Fields of many messages are written often.
      if (this.#written) this.#lines = inOnePiece(lines)
      this.#written = true
      return lines
    }
    begin.#lines ??= inOnePiece(begin.lines)
    return begin.#lines + lines
  }

  /** How many field lines there are. */
  get count(): number {
    return this.flat.length / 2
  }

  /** The combined field value (5.3): all lines of this name joined by ", ", undefined when there is none. */
  get(name: string): string | undefined {
    const flat = this.#own
    let combined = this.#begin?.get(name)
    for (let i = 0; i + 1 < flat.length; i += 2) {
      if (!sameName(flat[i] ?? '', name)) continue
      const value = flat[i + 1] ?? ''
      combined = combined === undefined ? value : `${combined}, ${value}`
    }
    return combined
  }

  /** The values of this name, a line each, in order. */
  all(name: string): readonly string[] {
    const flat = this.flat
    const values: string[] = []
    for (let i = 0; i + 1 < flat.length; i += 2) {
      if (sameName(flat[i] ?? '', name)) values.push(flat[i + 1] ?? '')
    }
    return values
  }

  has(name: string): boolean {
    const flat = this.flat
    for (let i = 0; i + 1 < flat.length; i += 2) if (sameName(flat[i] ?? '', name)) return true
    return false
  }

  /** These fields with every line of `name` replaced by one, at the end. */
  with(name: string, value: string): Fields {
    return new Fields([...this.without(name).flat, name, value])
  }

  /** These fields with one more line. */
  plus(name: string, value: string): Fields {
    return new Fields([...this.flat, name, value])
  }

  /** These fields less every line of the given names. */
  without(...names: readonly string[]): Fields {
    return this.where(line => !names.some(name => sameName(line, name)))
  }

  /** The lines whose names are `kept`; these very fields when that is all of them, for they may remember their lines. */
  where(kept: (name: string) => boolean): Fields {
    const begin = this.#begin
    if (begin !== undefined && (begin.#kept === kept || begin.where(kept) === begin)) {
      begin.#kept = kept
      const own = linesWhere(this.#own, kept)
      return own.length === this.#own.length ? this : begin.followedBy(own)
    }
    const flat = linesWhere(this.flat, kept)
    if (flat.length === this.flat.length) return this
    return this.#sound ? Fields.fromSound(flat) : Fields.fromFlat(flat)
  }

  /** These fields after a change. What came of the last one is kept: many messages may have the same fields. */
  through(change: Change): Fields {
    if (this.#through?.change !== change) this.#through = { change, fields: change(this) }
    return this.#through.fields
  }

  /** The lines as pairs of name and value, as they came. */
  *[Symbol.iterator](): Generator<readonly [name: string, value: string]> {
    const { flat } = this
    for (let i = 0; i + 1 < flat.length; i += 2) yield [flat[i] ?? '', flat[i + 1] ?? '']
  }
}

/** The lines that are `kept`; this very list when that is all of them. */
function linesWhere(from: readonly string[], kept: (name: string) => boolean): readonly string[] {
  let flat: string[] | undefined
  for (let i = 0; i + 1 < from.length; i += 2) {
    const name = from[i] ?? ''
    if (!kept(name)) flat ??= from.slice(0, i)
    else flat?.push(name, from[i + 1] ?? '')
  }
  return flat ?? from
}

function linesOf(flat: readonly string[], sound: boolean): string {
  let lines = ''
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? ''
    const value = flat[i + 1] ?? ''
    if (!sound && !isToken(name)) throw new TypeError('a field name is no token')
    if (!sound && !isWritable(value)) {
      throw new TypeError(`the value of ${name} cannot be written`)
    }
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** The same text in one piece of memory, instead of a tree of pieces that every message would walk through again. */
function inOnePiece(lines: string): string {
  return Buffer.from(lines, 'latin1').toString('latin1')
}

/** Whether a field value (5.5) or a reason phrase can be written: no control character but tab, nothing beyond a byte. */
export function isWritable(text: string): boolean {
  return WRITABLE.test(text)
}

const WRITABLE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Whether two field names are the same: ASCII case does not count (5.1). */
export function sameName(a: string, b: string): boolean {
  return a.length === b.length && (a === b || a.toLowerCase() === b.toLowerCase())
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** token = 1*tchar (5.6.2) */
export function isToken(text: string): boolean {
  return TOKEN.test(text)
}

/**
 * Members of a comma-separated list (5.6.1), trimmed, empty ones dropped; commas inside quoted strings do not separate. The first
 * `most` of them: a parser that refuses or ignores longer lists need not read half a million members of a stranger.
 */
export function listMembers(value: string, most = Number.POSITIVE_INFINITY): readonly string[] {
  const members: string[] = []
  for (let start = 0; start <= value.length && members.length < most; ) {
    const end = separatorFrom(value, start, COMMA)
    const member = trimmed(value, start, end)
    if (member !== '') members.push(member)
    start = end + 1
  }
  return members
}

/** The pieces between separators outside quoted strings, trimmed (5.6.3). A quoted string that never ends takes the rest. */
export function splitUnquoted(value: string, separator: ',' | ';'): readonly string[] {
  const pieces: string[] = []
  for (let start = 0; start <= value.length; ) {
    const end = separatorFrom(value, start, separator.charCodeAt(0))
    pieces.push(trimmed(value, start, end))
    start = end + 1
  }
  return pieces
}

/** Where the next separator outside quoted strings stands; the length without one. */
function separatorFrom(value: string, start: number, separator: number): number {
  let quoted = false
  for (let i = start; i < value.length; i += 1) {
    const code = value.charCodeAt(i)
    if (quoted && code === BACKSLASH) i += 1
    else if (code === QUOTE) quoted = !quoted
    else if (code === separator && !quoted) return i
  }
  return value.length
}

const COMMA = 0x2c
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Text without optional whitespace (OWS: spaces and tabs, nothing else) at its ends (5.6.3). */
export function trimWhitespace(text: string): string {
  return trimmed(text, 0, text.length)
}

/** What stands from `from` to before `to`, without whitespace at its ends. */
function trimmed(text: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && isWhitespace(text.charCodeAt(start))) start += 1
  while (end > start && isWhitespace(text.charCodeAt(end - 1))) end -= 1
  return text.slice(start, end)
}

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x09
}

const QUOTED = /^"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"$/

/** What a quoted-string means (5.6.4), its escapes undone; undefined when `text` is not exactly one quoted-string. */
export function unquote(text: string): string | undefined {
  if (!QUOTED.test(text)) return undefined
  return text.slice(1, -1).replace(/\\(.)/g, '$1')
}
