/**
 * The scan that stands before every XML parser: one pass over the text that refuses whatever is not plain elements, attributes
 * and text, and whatever is too much of it. Linear in the size of its input, allocates next to nothing, knows no SAML.
 *
 * # Facts
 * - Parsers disagree about comments, CDATA, processing instructions, DOCTYPE and repeated attributes, and every disagreement
 *   has been a way to log in as somebody else. SAML needs none of them, so none gets as far as a parser.
 * - XPath as the SAML libraries use it costs the square of the number of elements: the count is what bounds the time.
 * - Java writes `&#13;` at the ends of its base64 lines, so references to characters stay allowed; entities do not.
 */

export interface XmlLimits {
  /** Bytes of the whole document. */
  readonly size: number
  readonly elements: number
  /** Elements inside each other; the root is 1 deep. */
  readonly depth: number
  /** Attributes of one element, namespace declarations included. */
  readonly attributes: number
  /** Whether comments and a byte order mark may stand in the document: in metadata, which people edit. */
  readonly edited: boolean
}

/** For messages, which strangers may send before they have logged in. */
export const messageLimits: XmlLimits = {
  size: 262_144,
  elements: 2000,
  depth: 64,
  attributes: 32,
  edited: false,
}

/** For metadata, which comes from whom the configuration names: at most 10 MiB, as the specification says. */
export const metadataLimits: XmlLimits = {
  size: 10 * 1024 * 1024,
  elements: 500_000,
  depth: 64,
  attributes: 64,
  edited: true,
}

export type ScanReason =
  | 'too-large'
  | 'not-utf8'
  | 'declaration'
  | 'doctype'
  | 'comment'
  | 'cdata'
  | 'processing-instruction'
  | 'entity'
  | 'character'
  | 'too-many-elements'
  | 'too-deep'
  | 'too-many-attributes'
  | 'duplicate-attribute'
  | 'not-well-formed'

/** Where an element stands in its text, from its `<` to behind its last `>`, and its name as written. */
export interface Span {
  readonly tag: string
  readonly start: number
  end: number
  /** How many attributes it has, namespace declarations included. */
  attributes: number
}

export type Scanned =
  | {
      readonly ok: true
      /** Line ends are line feeds (XML 1.0 section 2.11). */
      readonly text: string
      /** Every element in document order. */
      readonly spans: readonly Span[]
    }
  | { readonly ok: false; readonly because: ScanReason; readonly at: number }

/** Decodes and scans a document. `at` of a refusal is an offset in characters, without the byte order mark. */
export function scanXml(bytes: Uint8Array, limits: XmlLimits): Scanned {
  if (bytes.length > limits.size) return { ok: false, because: 'too-large', at: limits.size }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return { ok: false, because: 'not-utf8', at: 0 }
  }
  if (limits.edited && text.startsWith('\ufeff')) text = text.slice(1)
  return scanText(text, limits)
}

/** The same for text that has been decoded already; `size` then counts characters. */
export function scanText(given: string, limits: XmlLimits): Scanned {
  if (given.length > limits.size) return { ok: false, because: 'too-large', at: limits.size }
  const text = given.includes('\r') ? given.replace(/\r\n?/g, '\n') : given
  const scan = new Scan(text, limits)
  const because = scan.run()
  return because === undefined
    ? { ok: true, text, spans: scan.spans }
    : { ok: false, because, at: Math.min(scan.at, text.length) }
}

/** What a document consists of, each piece read where `at` stands. A reason ends the scan. */
class Scan {
  at = 0
  readonly spans: Span[] = []
  readonly #text: string
  readonly #limits: XmlLimits
  readonly #open: Span[] = []

  constructor(text: string, limits: XmlLimits) {
    this.#text = text
    this.#limits = limits
  }

  run(): ScanReason | undefined {
    const text = this.#text
    const bad = ILLEGAL.exec(text)
    if (bad !== null) return this.#stop('character', bad.index)
    if (/^<\?xml[\t\n\r ]/.test(text)) {
      const declaration = DECLARATION.exec(text)
      if (declaration === null) return 'declaration'
      this.at = declaration[0].length
    }
    while (this.at < text.length) {
      const because = text.charCodeAt(this.at) === LESS ? this.#markup() : this.#characters()
      if (because !== undefined) return because
    }
    return this.#open.length > 0 || this.spans.length === 0 ? 'not-well-formed' : undefined
  }

  /** Character data up to the next tag (XML 1.0 section 2.4); outside the root only white space. */
  #characters(): ScanReason | undefined {
    const next = this.#text.indexOf('<', this.at)
    const end = next < 0 ? this.#text.length : next
    const data = this.#text.slice(this.at, end)
    if (this.#open.length === 0) {
      if (!/^[\t\n\r ]*$/.test(data)) return 'not-well-formed'
    } else {
      if (data.includes(']]>')) return 'not-well-formed'
      const because = this.#references(data)
      if (because !== undefined) return because
    }
    this.at = end
    return undefined
  }

  #markup(): ScanReason | undefined {
    const text = this.#text
    if (text.startsWith('<!--', this.at)) return this.#comment()
    if (text.startsWith('<![CDATA[', this.at)) return 'cdata'
    if (text.startsWith('<!', this.at)) return 'doctype'
    if (text.startsWith('<?', this.at)) return 'processing-instruction'
    return text.startsWith('</', this.at) ? this.#endTag() : this.#startTag()
  }

  #comment(): ScanReason | undefined {
    if (!this.#limits.edited) return 'comment'
    // Section 2.5: two hyphens stand nowhere but at the end.
    const end = this.#text.indexOf('--', this.at + 4)
    if (end < 0 || this.#text[end + 2] !== '>') return 'not-well-formed'
    this.at = end + 3
    return undefined
  }

  #endTag(): ScanReason | undefined {
    const tag = match(END_TAG, this.#text, this.at)
    const span = this.#open.pop()
    if (tag === undefined || span === undefined || span.tag !== tag[1]) return 'not-well-formed'
    this.at += tag[0].length
    span.end = this.at
    return undefined
  }

  #startTag(): ScanReason | undefined {
    const start = match(START_TAG, this.#text, this.at)
    const name = start?.[1]
    if (start === undefined || name === undefined) return 'not-well-formed'
    // One root (section 2.1).
    if (this.#open.length === 0 && this.spans.length > 0) return 'not-well-formed'
    if (this.spans.length >= this.#limits.elements) return 'too-many-elements'
    if (this.#open.length >= this.#limits.depth) return 'too-deep'
    const span = { tag: name, start: this.at, end: 0, attributes: 0 }
    this.spans.push(span)
    this.at += start[0].length
    const seen = new Set<string>()
    for (;;) {
      const attribute = match(ATTRIBUTE, this.#text, this.at)
      if (attribute === undefined) break
      const attributeName = attribute[1] ?? ''
      if (seen.has(attributeName)) return 'duplicate-attribute'
      if (seen.size >= this.#limits.attributes) return 'too-many-attributes'
      seen.add(attributeName)
      const because = this.#references(attribute[2] ?? attribute[3] ?? '')
      if (because !== undefined) return because
      this.at += attribute[0].length
    }
    span.attributes = seen.size
    const end = match(TAG_END, this.#text, this.at)
    if (end === undefined) return 'not-well-formed'
    this.at += end[0].length
    if (end[1] === undefined) this.#open.push(span)
    else span.end = this.at
    return undefined
  }

  /** References (section 4.1): the five predefined entities, and characters that may also stand for themselves. */
  #references(data: string): ScanReason | undefined {
    for (let from = data.indexOf('&'); from >= 0; from = data.indexOf('&', from + 1)) {
      const reference = match(REFERENCE, data, from)
      if (reference === undefined) return 'entity'
      const [, decimal, hex] = reference
      const code =
        decimal !== undefined ? Number(decimal) : hex !== undefined ? parseInt(hex, 16) : 32
      if (!isCharacter(code)) return 'character'
    }
    return undefined
  }

  #stop(because: ScanReason, at: number): ScanReason {
    this.at = at
    return because
  }
}

const LESS = 0x3c

/** What XML 1.0 section 2.2 leaves out of its characters; half a surrogate pair cannot come out of UTF-8. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ILLEGAL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/

/** Section 2.8, in one encoding and one version. */
const DECLARATION =
  /^<\?xml[\t\n\r ]+version[\t\n\r ]*=[\t\n\r ]*["']1\.0["'](?:[\t\n\r ]+encoding[\t\n\r ]*=[\t\n\r ]*["'][Uu][Tt][Ff]-8["'])?(?:[\t\n\r ]+standalone[\t\n\r ]*=[\t\n\r ]*["'](?:yes|no)["'])?[\t\n\r ]*\?>/

/** Names with at most one colon (Namespaces in XML 1.0 section 4). Letters beyond ASCII occur in no SAML vocabulary. */
const NAME = '[A-Za-z_][\\w.-]*(?::[A-Za-z_][\\w.-]*)?'
const START_TAG = new RegExp(`<(${NAME})`, 'y')
const END_TAG = new RegExp(`</(${NAME})[\\t\\n\\r ]*>`, 'y')
const ATTRIBUTE = new RegExp(
  `[\\t\\n\\r ]+(${NAME})[\\t\\n\\r ]*=[\\t\\n\\r ]*(?:"([^"<]*)"|'([^'<]*)')`,
  'y',
)
const TAG_END = /[\t\n\r ]*(\/)?>/y
const REFERENCE = /&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|amp|lt|gt|quot|apos);/y

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at
  return pattern.exec(text) ?? undefined
}

function isCharacter(code: number): boolean {
  if (code < 0x20) return code === 0x09 || code === 0x0a || code === 0x0d
  return (
    code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x10000 && code <= 0x10ffff)
  )
}
