/**
 * Parses XML 1.0 with namespaces: a document that passed the scan becomes a read-only tree. The only importer of xmldom; what
 * leaves this file is text and XmlElement, never a node of a library.
 */
import { DOMParser, type Element as DomElement } from '@xmldom/xmldom'
import { type ScanReason, type Span, scanXml, type XmlLimits } from './scan.ts'

interface XmlAttribute {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty for an attribute without a prefix. */
  readonly namespace: string
  readonly value: string
}

export interface XmlElement {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty when it is in none. */
  readonly namespace: string
  /** As written: prefix and local name. */
  readonly tag: string
  /** Where it stands in the text of its document. */
  readonly start: number
  readonly end: number
  /** Namespaces by prefix as they are in scope here; the empty prefix is the default namespace. */
  readonly scope: ReadonlyMap<string, string>
  /** The prefixes this very element declares. */
  readonly declares: ReadonlySet<string>
  /** Namespace declarations left out. */
  readonly attributes: readonly XmlAttribute[]
  readonly children: readonly XmlElement[]
  /** Character data that stands directly in this element, white space and all. */
  readonly text: string
}

export interface XmlDocument {
  readonly root: XmlElement
  readonly text: string
}

export type XmlReason = ScanReason | 'parser'

type ParsedXml =
  | ({ readonly ok: true } & XmlDocument)
  | { readonly ok: false; readonly because: XmlReason; readonly problem: string }

/** Scans and parses a document: bytes in UTF-8, or text that came out of a decryption or a canonicalisation. */
export function parseXml(document: Uint8Array | string, limits: XmlLimits): ParsedXml {
  const scanned = scanXml(document, limits)
  if (!scanned.ok) return scanned
  const { text, spans } = scanned
  try {
    // The scan has normalised line ends; xmldom's own rule is that of XML 1.1 and changes more characters.
    const normalizeLineEndings = (input: string) => input
    const onError = (_level: string, message: string) => {
      throw new Error(message)
    }
    const parser = new DOMParser({ locator: false, onError, normalizeLineEndings })
    const root = parser.parseFromString(text, 'text/xml').documentElement
    if (root === null) throw new Error('there is no root element')
    const tree = treeOf(root, spans[Symbol.iterator](), new Map())
    return { ok: true, root: tree, text }
  } catch (error) {
    const message = error instanceof Error ? error.message.split('\n')[0] : String(error)
    return { ok: false, because: 'parser', problem: `the XML is not well-formed: ${message}` }
  }
}

/**
 * The scan bounds the depth, and with it the recursion. Scan and parser have read the same text by different rules; where they
 * saw different elements, the document is refused.
 */
function treeOf(
  element: DomElement,
  spans: Iterator<Span>,
  outer: ReadonlyMap<string, string>,
): XmlElement {
  const span = spans.next().value
  if (span?.tag !== element.tagName) throw new Error('scan and parser disagree about its elements')
  // Namespaces in XML 1.0 section 6.3: two prefixes for one namespace do not make two attributes; xmldom drops one of them.
  if (span.attributes !== element.attributes.length) throw new Error('an attribute occurs twice')
  const attributes: XmlAttribute[] = []
  const declares = new Set<string>()
  let scope = outer
  for (let i = 0; i < element.attributes.length; i += 1) {
    const attribute = element.attributes.item(i)
    if (attribute === null) continue
    if (attribute.namespaceURI === XMLNS) {
      const prefix = attribute.prefix === null ? '' : (attribute.localName ?? '')
      // Section 5: a prefix cannot be undeclared.
      if (prefix !== '' && attribute.value === '') throw new Error(`xmlns:${prefix} is empty`)
      declares.add(prefix)
      scope = new Map(scope).set(prefix, attribute.value)
      continue
    }
    const namespace = namespaceOf(attribute)
    const name = attribute.localName ?? attribute.name
    attributes.push({ name, namespace, value: attribute.value })
  }
  const children: XmlElement[] = []
  let text = ''
  for (let node = element.firstChild; node !== null; node = node.nextSibling) {
    if (node.nodeType === node.TEXT_NODE) text += node.nodeValue ?? ''
    // Only where the scan let comments pass; they do not split the text around them.
    else if (node.nodeType === node.COMMENT_NODE) continue
    else if (isElement(node)) children.push(treeOf(node, spans, scope))
    else throw new Error(`a node of kind ${node.nodeType} is not expected`)
  }
  const name = element.localName ?? element.tagName
  const { tag, start, end } = span
  const namespace = namespaceOf(element)
  return { name, namespace, tag, start, end, scope, declares, attributes, children, text }
}

function isElement(node: { readonly nodeType: number }): node is DomElement {
  return node.nodeType === 1
}

/** Namespaces in XML 1.0 section 5: a prefix must be declared; xmldom lets one pass that is not. */
function namespaceOf(node: {
  readonly prefix: string | null
  readonly namespaceURI: string | null
}): string {
  const { prefix, namespaceURI } = node
  if (prefix && !namespaceURI) throw new Error(`namespace prefix ${prefix} is not declared`)
  return namespaceURI ?? ''
}

const XMLNS = 'http://www.w3.org/2000/xmlns/'

/**
 * The text of an element cut out of its document, with every namespace in scope declared in it: it means the same alone as
 * it did there, to exclusive canonicalisation too.
 */
export function cutOut(element: XmlElement, text: string): string {
  const cut = text.slice(element.start, element.end)
  const nameEnd = 1 + element.tag.length
  let declarations = ''
  for (const [prefix, uri] of element.scope) {
    if (element.declares.has(prefix) || uri === '') continue
    declarations += ` xmlns${prefix === '' ? '' : `:${prefix}`}="${escapeXml(uri)}"`
  }
  return cut.slice(0, nameEnd) + declarations + cut.slice(nameEnd)
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

/** The element itself and everything below it, in document order. */
export function* allElements(element: XmlElement): Generator<XmlElement> {
  yield element
  for (const child of element.children) yield* allElements(child)
}

/** Every element of one of these local names, in any namespace, the root included. */
export function allNamed(root: XmlElement, ...names: readonly string[]): readonly XmlElement[] {
  return [...allElements(root)].filter(element => names.includes(element.name))
}

/** Text as it stands in element content or in an attribute in quotes; line ends survive as references. */
export function escapeXml(text: string): string {
  return text.replace(/[&<>"'\t\n\r]/g, character => `&#${character.charCodeAt(0)};`)
}
