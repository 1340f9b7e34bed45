/**
 * XML 1.0 with namespaces as a tree: the limits of documents, the elements, and functions that read them. scan.ts builds the tree,
 * and all other files only read it.
 */
export interface XmlLimits {
  /** Bytes of the whole document. */
  readonly size: number
  readonly elements: number
  /** The most elements inside each other; the root has the depth 1. */
  readonly depth: number
  /** Attributes of one element, namespace declarations included. */
  readonly attributes: number
  /** Attributes of all elements together. */
  readonly allAttributes: number
  /** References to characters, in texts and values together. Each costs as much as a hundred characters. */
  readonly references: number
  /** Namespace declarations in force at one element: its own, and those of the elements around it. */
  readonly declarations: number
  /** Whether comments, a byte order mark and UTF-16 are allowed, as in metadata, which people edit. */
  readonly isHandWritten: boolean
}

interface XmlName {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty when it is in none, as an attribute without a prefix is. */
  readonly namespace: string
  /** The name as written: prefix and local name. */
  readonly tag: string
}

interface XmlAttribute extends XmlName {
  readonly value: string
}

export interface XmlElement extends XmlName {
  /** The offsets in the text of its document: of its `<`, of the end of its start tag, and of its own end. */
  readonly start: number
  readonly inside: number
  readonly end: number
  /** The namespaces this very element declares, by prefix; the empty prefix is the default namespace. */
  readonly declares: Prefixes
  /** The attributes without the namespace declarations. */
  readonly attributes: readonly XmlAttribute[]
  /** Elements and the character data between them, in order. */
  readonly content: ReadonlyArray<XmlElement | string>
  readonly children: readonly XmlElement[]
  /** The character data directly in this element, white space included. */
  readonly text: string
}

export interface XmlDocument {
  readonly root: XmlElement
  readonly text: string
}

/** An element whose end has not been read yet. */
export interface GrowingElement extends XmlElement {
  end: number
  text: string
  content: Array<XmlElement | string>
  children: XmlElement[]
}

/** An attribute or a namespace declaration as it was written; Namespaces says what its prefix means. */
export interface WrittenAttribute extends XmlAttribute {
  namespace: string
}

/** Namespaces by their prefixes; the empty prefix is the default namespace. */
export type Prefixes = ReadonlyMap<string, string>

/** Makes elements of start tags in the order of the document, by Namespaces in XML 1.0. */
export class Namespaces {
  /** The namespaces of each prefix, the innermost declaration last. */
  readonly #scope = new Map([['xml', [XML]]])
  /** The number of declarations in force. */
  declared = 0
  /** The first breach of a rule, in words. It is reported only at the end, because refusals of the scan come first. */
  breach: string | undefined
  /** Whether a prefix is declared around the document and not in it. */
  borrows = false
  /** The declarations around the document, when it is a part of another one. */
  readonly #around: Prefixes
  #root: GrowingElement | undefined

  constructor(around: Prefixes) {
    this.#around = around
  }

  /** The element of a start tag that stands from `start` to `inside`, with its declarations in force. */
  element(
    tag: string,
    written: readonly WrittenAttribute[],
    start: number,
    inside: number,
  ): GrowingElement {
    const declares = this.#declare(written)
    const attributes =
      declares.size === written.length ? NONE : this.#attributesOf(written, declares)
    if (written.length > 0 || tag.startsWith('xmlns')) this.#checkNames(tag, written)
    const element: GrowingElement = {
      name: localName(tag),
      namespace: this.#namespaceOf(prefixOf(tag)),
      tag,
      start,
      inside,
      end: inside,
      declares,
      attributes,
      content: [],
      children: [],
      text: '',
    }
    this.#root ??= element
    return element
  }

  /** Ends an element, and with it the force of its declarations. */
  close(element: GrowingElement, end: number): void {
    element.end = end
    for (const prefix of element.declares.keys()) this.#scope.get(prefix)?.pop()
    this.declared -= element.declares.size
  }

  /** Section 3 reserves `xmlns`. xml-crypto omits every attribute whose name begins with it, as a declaration. */
  #checkNames(tag: string, written: readonly WrittenAttribute[]): void {
    const names = [tag, ...written.filter(one => !isDeclaration(one)).map(one => one.tag)]
    const kept = names.find(name => name.startsWith('xmlns'))
    if (kept !== undefined) this.breach ??= `the name ${kept} begins with xmlns`
  }

  /** Section 5: a prefix cannot be undeclared, and those of XML itself mean one thing. */
  #declare(written: readonly WrittenAttribute[]): Prefixes {
    if (!written.some(isDeclaration)) return NOTHING
    const declares = new Map<string, string>()
    for (const { tag: name, value: uri } of written.filter(isDeclaration)) {
      const prefix = name.slice('xmlns:'.length)
      if (prefix !== '' && uri === '') this.breach ??= `${name} is empty`
      // `xml` may be declared as what it is (section 3).
      const known = prefix === 'xml' || prefix === 'xmlns' || uri === XML || uri === XMLNS
      if (known && !(prefix === 'xml' && uri === XML)) {
        this.breach ??= `${name} declares what XML has declared itself`
      }
      declares.set(prefix, uri)
      const scope = this.#scope.get(prefix)
      if (scope === undefined) this.#scope.set(prefix, [uri])
      else scope.push(uri)
    }
    this.declared += declares.size
    return declares
  }

  #attributesOf(written: readonly WrittenAttribute[], declares: Prefixes): readonly XmlAttribute[] {
    // A copy has no spare room, unlike the list that has grown.
    const attributes =
      declares.size === 0 ? written.slice() : written.filter(each => !isDeclaration(each))
    const prefixed = attributes.filter(({ tag }) => tag.includes(':'))
    if (prefixed.length === 0) return attributes
    // Section 6.2: the default namespace is not that of attributes.
    for (const each of prefixed) each.namespace = this.#namespaceOf(prefixOf(each.tag))
    // Section 6.3: two prefixes for one namespace do not make two attributes. The scan has refused a name that is written
    // twice.
    const names = new Set(prefixed.map(({ namespace, name }) => `${namespace} ${name}`))
    if (names.size < prefixed.length) this.breach ??= 'an attribute occurs twice'
    return attributes
  }

  /** Only a root uses the default namespace around the document; below it a missing one may be intended. */
  #borrowed(prefix: string): string | undefined {
    const uri = prefix === '' && this.#root !== undefined ? undefined : this.#around.get(prefix)
    if (uri !== undefined) this.borrows = true
    return uri
  }

  /** Section 5: a prefix must be declared. */
  #namespaceOf(prefix: string): string {
    const uri = this.#scope.get(prefix)?.at(-1) ?? this.#borrowed(prefix)
    if (uri === undefined && prefix !== '') {
      this.breach ??= `the namespace prefix ${prefix} is not declared`
    }
    return uri ?? ''
  }
}

export const NOTHING: Prefixes = new Map()

const XML = 'http://www.w3.org/XML/1998/namespace'
const XMLNS = 'http://www.w3.org/2000/xmlns/'

const NONE: readonly XmlAttribute[] = []

function isDeclaration({ tag }: WrittenAttribute): boolean {
  return tag === 'xmlns' || tag.startsWith('xmlns:')
}

/** The prefix of a name as written; empty without one. */
export function prefixOf(tag: string): string {
  return tag.slice(0, Math.max(0, tag.indexOf(':')))
}

/** A name as written, without its prefix. */
export function localName(tag: string): string {
  return tag.slice(tag.indexOf(':') + 1)
}

/** The value of the attribute without a namespace; undefined when it, or the element, is not there. */
export function attributeOf(element: XmlElement | undefined, name: string): string | undefined {
  return element?.attributes.find(a => a.name === name && a.namespace === '')?.value
}

/** The children of this name, in order; empty for a missing element. */
export function childrenOf(
  element: XmlElement | undefined,
  namespace: string,
  name: string,
): readonly XmlElement[] {
  const children = element?.children ?? []
  return children.filter(child => child.name === name && child.namespace === namespace)
}

/** The first child of this name. */
export function childOf(
  element: XmlElement | undefined,
  namespace: string,
  name: string,
): XmlElement | undefined {
  return childrenOf(element, namespace, name)[0]
}

/** The declarations at `element` and around it, in the document with this root. */
export function prefixesAt(root: XmlElement, element: XmlElement): Prefixes {
  const scope = new Map<string, string>()
  let at: XmlElement | undefined = root
  while (at !== undefined) {
    for (const [prefix, uri] of at.declares) scope.set(prefix, uri)
    if (at === element) break
    at = at.children.find(child => child.start <= element.start && element.end <= child.end)
  }
  return scope
}

/** The element itself and everything below it, in document order. */
export function allElements(element: XmlElement): readonly XmlElement[] {
  return collect(element, [], () => true)
}

/** Every element of one of these local names, in any namespace, the root included. */
export function allNamed(root: XmlElement, ...names: readonly string[]): readonly XmlElement[] {
  return collect(root, [], ({ name }) => names.includes(name))
}

function collect(
  element: XmlElement,
  found: XmlElement[],
  wanted: (element: XmlElement) => boolean,
): readonly XmlElement[] {
  if (wanted(element)) found.push(element)
  for (const child of element.children) collect(child, found, wanted)
  return found
}

/** Escapes a text for element content or a quoted attribute; line ends become references. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"'\t\n\r]/g, character => `&#${character.charCodeAt(0)};`)
}

/** The text without the white space of XML 1.0 around it. Other characters that look like spaces are part of a name. */
export function trimXml(text: string): string {
  let [from, to] = [0, text.length]
  while (from < to && WHITE.includes(text.charAt(from))) from += 1
  while (to > from && WHITE.includes(text.charAt(to - 1))) to -= 1
  return text.slice(from, to)
}

const WHITE = '\t\n\r '
