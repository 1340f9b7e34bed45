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

export interface XmlAttribute extends XmlName {
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

/** Namespaces by their prefixes; the empty prefix is the default namespace. */
export type Prefixes = ReadonlyMap<string, string>

export const NOTHING: Prefixes = new Map()

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
