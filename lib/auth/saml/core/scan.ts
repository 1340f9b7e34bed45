/**
 * Scans XML before any parser, and refuses all but plain elements, attributes and text. One pass, in time linear in the size of the
 * input. Knows no SAML.
 *
 * # Facts
 * - Parsers disagree about comments, CDATA, processing instructions, DOCTYPE and repeated attributes, and every disagreement
 *   has been a way to log in as another person. SAML needs none of them, so none reaches a parser.
 * - XPath as the SAML libraries use it costs the square of the number of elements, so the count of elements bounds the time.
 * - Java writes `&#13;` at the ends of its base64 lines, so references to characters are allowed; entities are not.
 */

export interface XmlLimits {
  /** Bytes of the whole document. */
  readonly size: number
  readonly elements: number
  /** Elements inside each other; the root is 1 deep. */
  readonly depth: number
  /** Attributes of one element, namespace declarations included. */
  readonly attributes: number
  /** Whether comments and a byte order mark are allowed, as in metadata, which people edit. */
  readonly edited: boolean
}

/** For messages: strangers may send them before they have logged in. */
export const messageLimits: XmlLimits = {
  size: 262_144,
  elements: 2000,
  depth: 64,
  attributes: 32,
  edited: false,
}

/** For metadata, which comes from the place the configuration names: at most 10 MiB, as the specification says. */
export const metadataLimits: XmlLimits = {
  size: 10 * 1024 * 1024,
  elements: 500_000,
  depth: 64,
  attributes: 64,
  edited: true,
}

const problems = {
  'too-large': 'the document is too large',
  'not-utf8': 'the document is not UTF-8',
  declaration: 'the XML declaration is malformed or names another version or encoding',
  doctype: 'the document has a DOCTYPE or another declaration',
  comment: 'the document has a comment',
  cdata: 'the document has a CDATA section',
  'processing-instruction':
    'the document has a processing instruction, or an XML declaration that is not at its very start',
  entity: 'the document has a reference to an entity, or a bare "&"',
  character: 'the document has a character that XML does not allow',
  'too-many-elements': 'the document has too many elements',
  'too-deep': 'the elements of the document are nested too deeply',
  'too-many-attributes': 'an element has too many attributes',
  'duplicate-attribute': 'an attribute occurs twice in one element',
  'not-well-formed': 'the XML is not well-formed',
}

export type ScanReason = keyof typeof problems

/** Where an element is in its text, from its `<` to behind its last `>`, and its name as written. */
export interface Span {
  readonly tag: string
  readonly start: number
  end: number
  /** How many attributes it has, namespace declarations included. */
  attributes: number
}

type Scanned =
  | {
      readonly ok: true
      /** Line ends are line feeds (XML 1.0 section 2.11). */
      readonly text: string
      /** Every element in document order. */
      readonly spans: readonly Span[]
    }
  | { readonly ok: false; readonly because: ScanReason; readonly problem: string }

/** Scans a document: bytes in UTF-8, or text that has been decoded already, whose size is counted in characters. */
export function scanXml(document: Uint8Array | string, limits: XmlLimits): Scanned {
  try {
    if (document.length > limits.size) throw new Stop('too-large', limits.size)
    const decoded = typeof document === 'string' ? document : decode(document, limits)
    const text = decoded.includes('\r') ? decoded.replace(/\r\n?/g, '\n') : decoded
    return { ok: true, text, spans: new Scan(text, limits).run() }
  } catch (error) {
    if (!(error instanceof Stop)) throw error
    return { ok: false, because: error.because, problem: error.message }
  }
}

function decode(bytes: Uint8Array, { edited }: XmlLimits): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return edited && text.startsWith('\ufeff') ? text.slice(1) : text
  } catch {
    throw new Stop('not-utf8', 0)
  }
}

/** Ends the scan; `at` is an offset in characters, without the byte order mark. */
class Stop extends Error {
  readonly because: ScanReason

  constructor(because: ScanReason, at: number) {
    super(`${problems[because]} (at character ${at})`)
    this.because = because
  }
}

/** A document, read piece by piece from `#at` on. */
class Scan {
  #at = 0
  readonly #spans: Span[] = []
  readonly #text: string
  readonly #limits: XmlLimits
  readonly #open: Span[] = []

  constructor(text: string, limits: XmlLimits) {
    this.#text = text
    this.#limits = limits
  }

  /** Every element in document order; throws a Stop. */
  run(): readonly Span[] {
    const text = this.#text
    const bad = ILLEGAL.exec(text)
    if (bad !== null) throw new Stop('character', bad.index)
    if (/^<\?xml[\t\n\r ]/.test(text)) {
      const declaration = DECLARATION.exec(text)
      if (declaration === null) this.#stop('declaration')
      this.#at = declaration[0].length
    }
    while (this.#at < text.length) {
      if (text.charCodeAt(this.#at) === LESS) this.#markup()
      else this.#characters()
    }
    if (this.#open.length > 0 || this.#spans.length === 0) this.#stop('not-well-formed')
    return this.#spans
  }

  /** Character data up to the next tag (XML 1.0 section 2.4); outside the root only white space. */
  #characters(): void {
    const next = this.#text.indexOf('<', this.#at)
    const end = next < 0 ? this.#text.length : next
    const data = this.#text.slice(this.#at, end)
    if (this.#open.length === 0) {
      if (!/^[\t\n\r ]*$/.test(data)) this.#stop('not-well-formed')
    } else {
      if (data.includes(']]>')) this.#stop('not-well-formed')
      this.#references(data)
    }
    this.#at = end
  }

  #markup(): void {
    const is = (begin: string) => this.#text.startsWith(begin, this.#at)
    if (is('<!--')) this.#comment()
    else if (is('<![CDATA[')) this.#stop('cdata')
    else if (is('<!')) this.#stop('doctype')
    else if (is('<?')) this.#stop('processing-instruction')
    else if (is('</')) this.#endTag()
    else this.#startTag()
  }

  #comment(): void {
    if (!this.#limits.edited) this.#stop('comment')
    // Section 2.5: two hyphens stand nowhere but at the end.
    const end = this.#text.indexOf('--', this.#at + 4)
    if (end < 0 || this.#text[end + 2] !== '>') this.#stop('not-well-formed')
    this.#at = end + 3
  }

  #endTag(): void {
    const tag = this.#match(END_TAG)
    const span = this.#open.pop()
    if (tag === undefined || span === undefined || span.tag !== tag[1])
      this.#stop('not-well-formed')
    this.#at += tag[0].length
    span.end = this.#at
  }

  #startTag(): void {
    const { elements, depth, attributes } = this.#limits
    const start = this.#match(START_TAG)
    const tag = start?.[1]
    if (start === undefined || tag === undefined) this.#stop('not-well-formed')
    // One root (section 2.1).
    if (this.#open.length === 0 && this.#spans.length > 0) this.#stop('not-well-formed')
    if (this.#spans.length >= elements) this.#stop('too-many-elements')
    if (this.#open.length >= depth) this.#stop('too-deep')
    const span = { tag, start: this.#at, end: 0, attributes: 0 }
    this.#spans.push(span)
    this.#at += start[0].length
    const seen = new Set<string>()
    for (;;) {
      const attribute = this.#match(ATTRIBUTE)
      if (attribute === undefined) break
      const name = attribute[1] ?? ''
      if (seen.has(name)) this.#stop('duplicate-attribute')
      if (seen.size >= attributes) this.#stop('too-many-attributes')
      seen.add(name)
      this.#references(attribute[2] ?? attribute[3] ?? '')
      this.#at += attribute[0].length
    }
    span.attributes = seen.size
    const end = this.#match(TAG_END)
    if (end === undefined) this.#stop('not-well-formed')
    this.#at += end[0].length
    if (end[1] === undefined) this.#open.push(span)
    else span.end = this.#at
  }

  /** References (section 4.1): the five predefined entities, and characters that may also stand for themselves. */
  #references(data: string): void {
    for (let from = data.indexOf('&'); from >= 0; from = data.indexOf('&', from + 1)) {
      REFERENCE.lastIndex = from
      const reference = REFERENCE.exec(data)
      if (reference === null) this.#stop('entity')
      const [, decimal, hex] = reference
      const code =
        decimal !== undefined ? Number(decimal) : hex !== undefined ? parseInt(hex, 16) : 32
      if (!isCharacter(code)) this.#stop('character')
    }
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    return pattern.exec(this.#text) ?? undefined
  }

  #stop(because: ScanReason): never {
    throw new Stop(because, this.#at)
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

function isCharacter(code: number): boolean {
  if (code < 0x20) return code === 0x09 || code === 0x0a || code === 0x0d
  return (
    code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x10000 && code <= 0x10ffff)
  )
}
