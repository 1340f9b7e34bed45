/**
 * Fields of a message, RFC 9110 section 5.
 *
 * # Facts
 * - The order of lines matters only among lines of one name. Names are case-insensitive, values are not.
 * - Several lines of one name mean the same as one line joined by ", " (5.3), except Set-Cookie.
 * - Node gives and takes lines as one flat list: name, value, name, value.
 *
 * # Representation
 * Fields keep that flat list and never change it. Messages have few lines, so a scan is faster than an index, and the list needs no
 * conversion.
 */

/** Makes other fields of fields. It gives the same result for the same fields. */
type Change = (fields: Fields) => Fields

export class Fields {
  static readonly empty = new Fields([])

  readonly #own: readonly string[]
  readonly #begin: Fields | undefined
  #joined: readonly string[] | undefined
  #lines: string | undefined
  /** Whether `lines` was asked before. */
  #written = false
  /** Whether every name is a token and every value can be written, because a reader of bytes has checked them. */
  readonly #sound: boolean
  /** The predicate of the last `where` that kept all fields. */
  #kept: ((name: string) => boolean) | undefined
  /** The last change given to `through`, and its result. */
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

  /** Fields from a flat list. The grammar by which they were read ensures that names are tokens and values can be written. */
  static fromSound(flat: readonly string[]): Fields {
    return flat.length === 0 ? Fields.empty : new Fields(flat, undefined, true)
  }

  /** Fields from pairs. A pair whose value is undefined is left out. */
  static of(...pairs: ReadonlyArray<readonly [name: string, value: string | undefined]>): Fields {
    const flat: string[] = []
    for (const [name, value] of pairs) if (value !== undefined) flat.push(name, value)
    return Fields.fromFlat(flat)
  }

  /** Fields from pairs for many messages: the lines are made once, now. Throws as `lines` does. */
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

  /** The fields that these follow, if any. Messages that begin alike share this object. */
  get begin(): Fields | undefined {
    return this.#begin
  }

  /** All lines; for fields that follow others, only the lines after those. */
  get own(): readonly string[] {
    return this.#own
  }

  /** These fields followed by others. Messages that begin alike share the `lines` and the last `where` of these fields. */
  followedBy(others: readonly string[]): Fields {
    return new Fields(others, this)
  }

  /**
   * The field lines as they go onto the wire (RFC 9112 section 5), each with its CRLF. Throws a TypeError for a name that is no token, and
   * for a value with control characters or characters beyond a byte: so one field cannot become two.
   */
  get lines(): string {
    if (this.#lines !== undefined) return this.#lines
    const begin = this.#begin
    const lines = linesOf(this.#own, this.#sound)
    if (begin === undefined) {
      // Fields that many messages share are written often.
      if (this.#written) this.#lines = inOnePiece(lines)
      this.#written = true
      return lines
    }
    begin.#lines ??= inOnePiece(begin.lines)
    return begin.#lines + lines
  }

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

  /** The values of all lines of this name, in order. */
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

  plus(name: string, value: string): Fields {
    return new Fields([...this.flat, name, value])
  }

  without(...names: readonly string[]): Fields {
    return this.where(line => !names.some(name => sameName(line, name)))
  }

  /** The lines whose names `kept` accepts. If it accepts all, the answer is this object, which may remember its lines. */
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

  /** These fields after a change. The last result is kept, because many messages may have the same fields. */
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

/** The lines whose names `kept` accepts; the given list when it accepts all. */
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
    if (!sound && !isToken(name)) throw new TypeError('a field name is not a token')
    if (!sound && !isWritable(value)) {
      throw new TypeError(`the value of ${name} cannot be written`)
    }
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** The same text in one piece of memory. A text joined of pieces is a tree, which every message would walk through again. */
function inOnePiece(lines: string): string {
  return Buffer.from(lines, 'latin1').toString('latin1')
}

/**
 * Whether a field value (5.5) or a reason phrase can be written: it has no control character except tab, and no character beyond a byte.
 */
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
 * The first `most` members of a comma-separated list (5.6.1), trimmed, without empty ones. Commas inside quoted strings do not separate.
 * With `most` a parser that refuses longer lists need not read half a million members.
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

/** The position of the next separator outside quoted strings; the length when there is none. */
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

/** Text without optional whitespace (OWS: spaces and tabs only) at its ends (5.6.3). */
export function trimWhitespace(text: string): string {
  return trimmed(text, 0, text.length)
}

/** The text from `from` to before `to`, without whitespace at its ends. */
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

/** The meaning of a quoted-string (5.6.4), without its escapes; undefined when `text` is not exactly one quoted-string. */
export function unquote(text: string): string | undefined {
  if (!QUOTED.test(text)) return undefined
  return text.slice(1, -1).replace(/\\(.)/g, '$1')
}
