/**
 * Reads XML 1.0 with namespaces as a tree, and refuses everything but plain elements, attributes and text. The scan is one pass
 * in linear time, because any client may send messages. It knows no SAML. The tests require
 * that xmldom reads the same in whatever passes.
 *
 * # Facts
 * - Parsers disagree about comments, CDATA, processing instructions, DOCTYPE and repeated attributes, and every disagreement
 *   has been a way to log in as another person. SAML needs none of them, so none reaches a parser.
 * - XPath as the SAML libraries use it costs the square of the number of elements, and their parsers copy all namespaces in scope for
 *   each element that declares one. So elements, attributes and declarations are counted here, before any of that begins.
 * - Java writes `&#13;` at the ends of its base64 lines, so references to characters are allowed, in number; entities are not.
 */
import {
  escapeXml,
  localName,
  NOTHING,
  type Prefixes,
  prefixOf,
  type XmlAttribute,
  type XmlDocument,
  type XmlElement,
  type XmlLimits,
} from './xml.ts'

/** What can be wrong with a document, in words, by its reason. */
export const xmlProblems = {
  'too-large': 'the document is larger than the limit',
  'not-utf8': 'the document is not UTF-8, nor UTF-16 with a byte order mark where that is taken',
  declaration: 'the XML declaration is malformed or names another version or encoding',
  doctype: 'the document has a DOCTYPE or another declaration',
  comment: 'the document has a comment',
  cdata: 'the document has a CDATA section',
  'processing-instruction':
    'the document has a processing instruction, or an XML declaration that is not at its very start',
  entity: 'the document has a reference to an entity, or a bare "&"',
  character: 'the document has a character that XML does not allow',
  'too-many-elements': 'the document has more elements than the limit',
  'too-deep': 'the elements of the document are nested too deeply',
  'too-many-attributes': 'there are too many attributes or namespace declarations',
  'too-many-references': 'there are too many references to characters',
  'duplicate-attribute': 'an attribute occurs twice in one element',
  'not-well-formed': 'the XML is not well-formed',
}
export type XmlReason = keyof typeof xmlProblems | 'parser'

/** Whether a document is refused because there is too much in it. Otherwise something in it is wrong. */
export function isTooMuch(because: XmlReason): boolean {
  return because.startsWith('too-')
}

/**
 * Reads a document: bytes in UTF-8, or text that has been decoded already, whose size is counted in characters. `around` has
 * the declarations around the document when it is a part of another one. Those it needs are written into its root, so that the
 * text is complete.
 */
export function parseXml(
  document: Uint8Array | string,
  limits: XmlLimits,
  around: Prefixes = NOTHING,
): ParsedXml {
  try {
    if (document.length > limits.size) {
      throw new Stop('too-large', `${xmlProblems['too-large']} of ${limits.size} bytes`)
    }
    const decoded = typeof document === 'string' ? document : decode(document, limits)
    const text = decoded.includes('\r') ? withLineFeeds(decoded) : decoded
    const scan = new Scan(text, limits, around)
    const root = scan.run()
    if (!scan.borrows) return { ok: true, text, root }
    const missing = [...around].filter(([prefix]) => !root.declares.has(prefix))
    const declarations = missing.map(
      ([prefix, uri]) => ` xmlns${prefix === '' ? '' : `:${prefix}`}="${escapeXml(uri)}"`,
    )
    const at = root.start + 1 + root.tag.length
    return parseXml(text.slice(0, at) + declarations.join('') + text.slice(at), limits)
  } catch (error) {
    if (!(error instanceof Stop)) throw error
    return { ok: false, because: error.because, problem: error.message }
  }
}

type ParsedXml =
  | ({ readonly ok: true } & XmlDocument)
  | { readonly ok: false; readonly because: XmlReason; readonly problem: string }

/** The text with a line feed for each line end (section 2.11), replaced in bytes for the reason in encoding.ts. */
function withLineFeeds(text: string): string {
  const bytes = Buffer.from(text)
  let length = 0
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i] ?? 0
    if (byte === CR && bytes[i + 1] === LF) continue
    bytes[length++] = byte === CR ? LF : byte
  }
  return bytes.toString('utf8', 0, length)
}

/** The value with a space for each white space (section 3.3.3), also replaced in bytes. */
function withSpaces(value: string): string {
  if (!/[\t\n]/.test(value)) return value
  const bytes = Buffer.from(value)
  for (let i = 0; i < bytes.length; i += 1) {
    if (bytes[i] === TAB || bytes[i] === LF) bytes[i] = SPACE
  }
  return bytes.toString()
}

/**
 * Decodes UTF-8, and in hand-written documents UTF-16 with its byte order mark, which some Windows programs save by default.
 * One byte order mark at the beginning is not part of the text (XML 1.0 section 4.3.3).
 */
function decode(bytes: Uint8Array, { isHandWritten }: XmlLimits): string {
  const wide = isHandWritten ? UTF_16.get(`${bytes[0]} ${bytes[1]}`) : undefined
  try {
    const text = new TextDecoder(wide ?? 'utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    if (!text.startsWith('\ufeff')) return text
    return wide === undefined ? text.slice(1) : text.slice(1).replace(WIDE_DECLARATION, '$1UTF-8')
  } catch {
    return stop('not-utf8', 0)
  }
}

/** XML 1.0 section 4.3.3: the encodings by the bytes of their mark. */
const UTF_16: ReadonlyMap<string, string> = new Map([
  ['255 254', 'utf-16le'],
  ['254 255', 'utf-16be'],
])

/** The text is no longer in the encoding its declaration names. */
const WIDE_DECLARATION = /^(<\?xml[^>]{1,100}encoding[\t\n\r ]*=[\t\n\r ]*["'])utf-16(?=["'])/i

class Stop extends Error {
  readonly because: XmlReason

  constructor(because: XmlReason, problem: string) {
    super(problem)
    this.because = because
  }
}

/** Ends the scan; `at` is an offset in characters, without the byte order mark. */
function stop(because: keyof typeof xmlProblems, at: number): never {
  throw new Stop(because, `${xmlProblems[because]} (at character ${at})`)
}

/** An element whose end has not been read yet. */
interface GrowingElement extends XmlElement {
  end: number
  text: string
  content: Array<XmlElement | string>
  children: XmlElement[]
}

/** An attribute or a namespace declaration as it was written; its namespace is found when all declarations of its element are known. */
interface WrittenAttribute extends XmlAttribute {
  namespace: string
}

/** Reads a document piece by piece from `#at` on, with its names by Namespaces in XML 1.0. */
class Scan {
  #at = 0
  #root: XmlElement | undefined
  #elements = 0
  #attributes = 0
  #references = 0
  readonly #text: string
  readonly #limits: XmlLimits
  /** The declarations around the document, when it is a part of another one. */
  readonly #around: Prefixes
  readonly #open: GrowingElement[] = []
  /** The namespaces of each prefix, the innermost declaration last. */
  readonly #scope = new Map([['xml', [XML]]])
  /** The number of declarations in force. */
  #declared = 0
  /** The first breach of a rule of namespaces, in words. It is reported only at the end, because other refusals come first. */
  #breach: string | undefined
  #borrows = false

  constructor(text: string, limits: XmlLimits, around: Prefixes) {
    this.#text = text
    this.#limits = limits
    this.#around = around
  }

  /** Whether a prefix is declared around the document and not in it. */
  get borrows(): boolean {
    return this.#borrows
  }

  /** The root element; throws a Stop. */
  run(): XmlElement {
    const text = this.#text
    const bad = ILLEGAL.exec(text)
    if (bad !== null) stop('character', bad.index)
    if (/^<\?xml[\t\n\r ]/.test(text)) {
      const declaration = DECLARATION.exec(text)
      if (declaration === null) this.#stop('declaration')
      this.#at = declaration[0].length
    }
    while (this.#at < text.length) {
      if (text.charCodeAt(this.#at) === LESS) this.#markup()
      else this.#characters()
    }
    if (this.#open.length > 0 || this.#root === undefined) this.#stop('not-well-formed')
    if (this.#breach !== undefined) {
      throw new Stop('parser', `the XML is not well-formed: ${this.#breach}`)
    }
    return this.#root
  }

  /** Character data up to the next tag (XML 1.0 section 2.4); outside the root only white space. */
  #characters(): void {
    const next = this.#text.indexOf('<', this.#at)
    const end = next < 0 ? this.#text.length : next
    const data = this.#text.slice(this.#at, end)
    const parent = this.#open.at(-1)
    if (parent === undefined) {
      if (!/^[\t\n\r ]*$/.test(data)) this.#stop('not-well-formed')
    } else {
      if (data.includes(']]>')) this.#stop('not-well-formed')
      const text = this.#withoutReferences(data)
      parent.text += text
      // Allowed comments do not split the text around them.
      const before = parent.content.at(-1)
      if (typeof before === 'string') parent.content[parent.content.length - 1] = before + text
      // An array that grows from empty has room for sixteen, and most elements have one text.
      else if (before === undefined) parent.content = [text]
      else parent.content.push(text)
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
    if (!this.#limits.isHandWritten) this.#stop('comment')
    // Section 2.5 allows two hyphens only at the end.
    const end = this.#text.indexOf('--', this.#at + 4)
    if (end < 0 || this.#text[end + 2] !== '>') this.#stop('not-well-formed')
    this.#at = end + 3
  }

  #endTag(): void {
    const end = this.#after(END_TAG)
    const element = this.#open.pop()
    if (end === undefined || element === undefined) this.#stop('not-well-formed')
    if (this.#text.slice(this.#at + 2, end - 1).trimEnd() !== element.tag)
      this.#stop('not-well-formed')
    this.#at = end
    this.#close(element, end)
  }

  #startTag(): void {
    const { elements, depth } = this.#limits
    const at = this.#at
    const named = this.#after(START_TAG)
    if (named === undefined) this.#stop('not-well-formed')
    // One root (section 2.1).
    if (this.#open.length === 0 && this.#root !== undefined) this.#stop('not-well-formed')
    if (this.#elements >= elements) {
      throw new Stop('too-many-elements', `${xmlProblems['too-many-elements']} of ${elements}`)
    }
    if (this.#open.length >= depth) this.#stop('too-deep')
    this.#elements += 1
    this.#at = named
    const written = this.#attributesHere()
    const end = this.#after(TAG_END)
    if (end === undefined) this.#stop('not-well-formed')
    this.#at = end
    const tag = this.#text.slice(at + 1, named)
    const declares = this.#declare(written)
    const attributes =
      declares.size === written.length ? NONE : this.#attributesOf(written, declares)
    if (written.length > 0 || tag.startsWith('xmlns')) this.#checkNames(tag, written)
    const element: GrowingElement = {
      name: localName(tag),
      namespace: this.#namespaceOf(prefixOf(tag)),
      tag,
      start: at,
      inside: end,
      end,
      declares,
      attributes,
      content: [],
      children: [],
      text: '',
    }
    this.#root ??= element
    const parent = this.#open.at(-1)
    parent?.content.push(element)
    parent?.children.push(element)
    if (this.#declared > this.#limits.declarations) this.#stop('too-many-attributes')
    if (this.#text.charCodeAt(end - 2) !== SLASH) this.#open.push(element)
    else this.#close(element, end)
  }

  #attributesHere(): readonly WrittenAttribute[] {
    let end = this.#after(ATTRIBUTE)
    if (end === undefined) return NONE
    const text = this.#text
    const found: WrittenAttribute[] = []
    for (; end !== undefined; end = this.#after(ATTRIBUTE)) {
      let start = this.#at
      while (text.charCodeAt(start) <= SPACE) start += 1
      const equals = text.indexOf('=', start)
      const tag = text.slice(start, equals).trimEnd()
      for (const each of found) if (each.tag === tag) this.#stop('duplicate-attribute')
      this.#attributes += 1
      const { attributes, allAttributes } = this.#limits
      if (found.length >= attributes || this.#attributes > allAttributes) {
        this.#stop('too-many-attributes')
      }
      // The value ends with the quote it begins with. Section 3.3.3: white space in it is a space, unless it is written as a reference.
      const from = text.indexOf(text.charAt(end - 1), equals) + 1
      const value = this.#withoutReferences(withSpaces(text.slice(from, end - 1)))
      found.push({ name: localName(tag), namespace: '', tag, value })
      this.#at = end
    }
    return found
  }

  /** Ends an element, and with it the force of its declarations. */
  #close(element: GrowingElement, end: number): void {
    element.end = end
    for (const prefix of element.declares.keys()) this.#scope.get(prefix)?.pop()
    this.#declared -= element.declares.size
  }

  /** Namespaces, section 3, reserves `xmlns`. xml-crypto omits every attribute whose name begins with it, as a declaration. */
  #checkNames(tag: string, written: readonly WrittenAttribute[]): void {
    const names = [tag, ...written.filter(one => !isDeclaration(one)).map(one => one.tag)]
    const kept = names.find(name => name.startsWith('xmlns'))
    if (kept !== undefined) this.#breach ??= `the name ${kept} begins with xmlns`
  }

  /** Namespaces, section 5: a prefix cannot be undeclared, and those of XML itself mean one thing. */
  #declare(written: readonly WrittenAttribute[]): Prefixes {
    if (!written.some(isDeclaration)) return NOTHING
    const declares = new Map<string, string>()
    for (const { tag: name, value: uri } of written.filter(isDeclaration)) {
      const prefix = name.slice('xmlns:'.length)
      if (prefix !== '' && uri === '') this.#breach ??= `${name} is empty`
      // `xml` may be declared as what it is (section 3).
      const known = prefix === 'xml' || prefix === 'xmlns' || uri === XML || uri === XMLNS
      if (known && !(prefix === 'xml' && uri === XML)) {
        this.#breach ??= `${name} declares what XML has declared itself`
      }
      declares.set(prefix, uri)
      const scope = this.#scope.get(prefix)
      if (scope === undefined) this.#scope.set(prefix, [uri])
      else scope.push(uri)
    }
    this.#declared += declares.size
    return declares
  }

  #attributesOf(written: readonly WrittenAttribute[], declares: Prefixes): readonly XmlAttribute[] {
    // A copy has no spare room, unlike the list that has grown.
    const attributes =
      declares.size === 0 ? written.slice() : written.filter(each => !isDeclaration(each))
    const prefixed = attributes.filter(({ tag }) => tag.includes(':'))
    if (prefixed.length === 0) return attributes
    // Namespaces, section 6.2: the default namespace is not that of attributes.
    for (const each of prefixed) each.namespace = this.#namespaceOf(prefixOf(each.tag))
    // Namespaces, section 6.3: two prefixes for one namespace do not make two attributes. The scan has refused a name that is written
    // twice.
    const names = new Set(prefixed.map(({ namespace, name }) => `${namespace} ${name}`))
    if (names.size < prefixed.length) this.#breach ??= 'an attribute occurs twice'
    return attributes
  }

  /** Only a root uses the default namespace around the document; below it a missing one may be intended. */
  #borrowed(prefix: string): string | undefined {
    const uri = prefix === '' && this.#root !== undefined ? undefined : this.#around.get(prefix)
    if (uri !== undefined) this.#borrows = true
    return uri
  }

  /** Namespaces, section 5: a prefix must be declared. */
  #namespaceOf(prefix: string): string {
    const uri = this.#scope.get(prefix)?.at(-1) ?? this.#borrowed(prefix)
    if (uri === undefined && prefix !== '') {
      this.#breach ??= `the namespace prefix ${prefix} is not declared`
    }
    return uri ?? ''
  }

  /** Resolves references (section 4.1): the five predefined entities, and characters that may also stand for themselves. */
  #withoutReferences(data: string): string {
    let at = data.indexOf('&')
    if (at < 0) return data
    for (; at >= 0; at = data.indexOf('&', at + 1)) this.#references += 1
    if (this.#references > this.#limits.references) this.#stop('too-many-references')
    return data.replace(ANY_REFERENCE, (_all, decimal?: string, hex?: string, entity?: string) => {
      const character = ENTITIES.get(entity ?? '')
      if (character !== undefined) return character
      if (decimal === undefined && hex === undefined) this.#stop('entity')
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
      if (!isCharacter(code)) this.#stop('character')
      return String.fromCodePoint(code)
    })
  }

  /**
   * The end of the match of the pattern here; undefined without a match. The pattern has no groups, because a list of them for
   * each tag would cost more than the tag.
   */
  #after(pattern: RegExp): number | undefined {
    pattern.lastIndex = this.#at
    return pattern.test(this.#text) ? pattern.lastIndex : undefined
  }

  #stop(because: keyof typeof xmlProblems): never {
    stop(because, this.#at)
  }
}

const LESS = 0x3c
const SLASH = 0x2f
const SPACE = 0x20
const TAB = 0x09
const LF = 0x0a
const CR = 0x0d

const XML = 'http://www.w3.org/XML/1998/namespace'
const XMLNS = 'http://www.w3.org/2000/xmlns/'

function isDeclaration({ tag }: WrittenAttribute): boolean {
  return tag === 'xmlns' || tag.startsWith('xmlns:')
}

const NONE: readonly WrittenAttribute[] = []
/** What XML 1.0 section 2.2 leaves out of its characters; half a surrogate pair cannot come out of UTF-8. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ILLEGAL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/

/** Section 2.8, in one encoding and one version. */
const DECLARATION =
  /^<\?xml[\t\n\r ]+version[\t\n\r ]*=[\t\n\r ]*["']1\.0["'](?:[\t\n\r ]+encoding[\t\n\r ]*=[\t\n\r ]*["'][Uu][Tt][Ff]-8["'])?(?:[\t\n\r ]+standalone[\t\n\r ]*=[\t\n\r ]*["'](?:yes|no)["'])?[\t\n\r ]*\?>/

/** Names have at most one colon (Namespaces in XML 1.0 section 4). No SAML vocabulary has letters beyond ASCII. */
const NAME = '[A-Za-z_][\\w.-]*(?::[A-Za-z_][\\w.-]*)?'
const START_TAG = new RegExp(`<${NAME}`, 'y')
const END_TAG = new RegExp(`</${NAME}[\\t\\n\\r ]*>`, 'y')
const ATTRIBUTE = new RegExp(
  `[\\t\\n\\r ]+${NAME}[\\t\\n\\r ]*=[\\t\\n\\r ]*(?:"[^"<]*"|'[^'<]*')`,
  'y',
)
const TAG_END = /[\t\n\r ]*\/?>/y
/** A reference, or an `&` that does not begin one. */
const ANY_REFERENCE = /&(?:#(\d{1,7});|#x([0-9a-fA-F]{1,6});|(amp|lt|gt|quot|apos);)?/g

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
])

function isCharacter(code: number): boolean {
  if (code < 0x20) return code === 0x09 || code === 0x0a || code === 0x0d
  return (
    code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x10000 && code <= 0x10ffff)
  )
}
