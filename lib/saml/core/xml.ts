/**
 * XML 1.0 with namespaces as a tree that scan.ts builds and all others only read: limits, elements, and questions to them.
 */
export interface XmlLimits {
  /** Bytes of the whole document. */
  readonly size: number
  readonly elements: number
  /** Elements inside each other; the root is 1 deep. */
  readonly depth: number
  /** Attributes of one element, namespace declarations included. */
  readonly attributes: number
  /** Attributes of all elements together. */
  readonly allAttributes: number
  /** References to characters, in texts and values together: each costs what a hundred characters cost. */
  readonly references: number
  /** Namespace declarations in force at one element: its own, and those of the elements around it. */
  readonly declarations: number
  /** Whether comments, a byte order mark and UTF-16 are allowed, as in metadata, which people edit. */
  readonly edited: boolean
}

interface XmlAttribute {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty for an attribute without a prefix. */
  readonly namespace: string
  /** The name as written: prefix and local name. */
  readonly tag: string
  readonly value: string
}

export interface XmlElement {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty when it is in none. */
  readonly namespace: string
  /** The name as written: prefix and local name. */
  readonly tag: string
  /** Where it stands in the text of its document: its `<`, what follows its start tag, and what follows its last `>`. */
  readonly start: number
  readonly inside: number
  readonly end: number
  /** The namespaces this very element declares, by prefix; the empty prefix is the default namespace. */
  readonly declares: Prefixes
  /** Namespace declarations left out. */
  readonly attributes: readonly XmlAttribute[]
  /** Elements and the character data between them, in order. */
  readonly content: ReadonlyArray<XmlElement | string>
  readonly children: readonly XmlElement[]
  /** Character data that stands directly in this element, white space and all. */
  readonly text: string
}

export interface XmlDocument {
  readonly root: XmlElement
  readonly text: string
}

/** An element whose end has not been read yet. */
export interface Growing extends XmlElement {
  end: number
  text: string
  content: Array<XmlElement | string>
  children: XmlElement[]
}

/** An attribute or a namespace declaration as it was written; Namespaces says what its prefix means. */
export interface Written extends XmlAttribute {
  namespace: string
}

/** Namespaces by their prefixes; the empty prefix is the default namespace. */
export type Prefixes = ReadonlyMap<string, string>

/** Makes elements of start tags, in their order, by Namespaces in XML 1.0. */
export class Namespaces {
  /** What each prefix means, the innermost declaration last. */
  readonly #scope = new Map([['xml', [XML]]])
  /** Declarations in force. */
  declared = 0
  /** The first breach of a rule, in words. Told at the end only, since what the scan refuses goes before it. */
  breach: string | undefined
  /** Whether a prefix was found in what is declared around the document, and nowhere in it. */
  borrows = false
  /** What is declared around the document, when it is a part of another one. */
  readonly #around: Prefixes
  #root: Growing | undefined

  constructor(around: Prefixes) {
    this.#around = around
  }

  /** The element of a start tag that stands from `start` to `inside`, with its declarations in force. */
  element(tag: string, written: readonly Written[], start: number, inside: number): Growing {
    const declares = this.#declare(written)
    const attributes =
      declares.size === written.length ? NONE : this.#attributesOf(written, declares)
    if (written.length > 0 || tag.startsWith('xmlns')) this.#checkNames(tag, written)
    const element: Growing = {
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
  close(element: Growing, end: number): void {
    element.end = end
    for (const prefix of element.declares.keys()) this.#scope.get(prefix)?.pop()
    this.declared -= element.declares.size
  }

  /** Section 3 keeps `xmlns` for declarations. xml-crypto takes any attribute for one whose name begins so, and leaves it out. */
  #checkNames(tag: string, written: readonly Written[]): void {
    const names = [tag, ...written.filter(one => !isDeclaration(one)).map(one => one.tag)]
    const kept = names.find(name => name.startsWith('xmlns'))
    if (kept !== undefined) this.breach ??= `the name ${kept} begins with xmlns`
  }

  /** Section 5: a prefix cannot be undeclared, and those of XML itself mean one thing. */
  #declare(written: readonly Written[]): Prefixes {
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

  #attributesOf(written: readonly Written[], declares: Prefixes): readonly XmlAttribute[] {
    // A copy has no room for more, unlike the list that has grown.
    const attributes =
      declares.size === 0 ? written.slice() : written.filter(each => !isDeclaration(each))
    const prefixed = attributes.filter(({ tag }) => tag.includes(':'))
    if (prefixed.length === 0) return attributes
    // Section 6.2: the default namespace is not that of attributes.
    for (const each of prefixed) each.namespace = this.#namespaceOf(prefixOf(each.tag))
    // Section 6.3: two prefixes for one namespace do not make two attributes. The scan has refused what is written twice.
    const names = new Set(prefixed.map(({ namespace, name }) => `${namespace} ${name}`))
    if (names.size < prefixed.length) this.breach ??= 'an attribute occurs twice'
    return attributes
  }

  /** Only a root without a prefix asks for the default namespace around it: below any other, its absence may be meant. */
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

function isDeclaration({ tag }: Written): boolean {
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

/** The children of this name, in order; none of an element that is not there. */
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

/** What is declared at `element` and around it, in the document with this root. */
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

/** Text as it stands in element content or in an attribute in quotes; line ends survive as references. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"'\t\n\r]/g, character => `&#${character.charCodeAt(0)};`)
}

/** The text without the white space of XML 1.0 around it: other characters that look like spaces are part of a name. */
export function trimXml(text: string): string {
  let [from, to] = [0, text.length]
  while (from < to && WHITE.includes(text.charAt(from))) from += 1
  while (to > from && WHITE.includes(text.charAt(to - 1))) to -= 1
  return text.slice(from, to)
}

const WHITE = '\t\n\r '
