/**
 * Parses XML 1.0 with namespaces: a document that passed the scan becomes a read-only tree. In time linear in its size, since
 * strangers may send what they like; xmldom has to agree before anything of it counts (agreement.ts).
 */
import { isDeclaration, type Scanned, type ScanReason, scanXml, type XmlLimits } from './scan.ts'

interface XmlAttribute {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty for an attribute without a prefix. */
  readonly namespace: string
  /** As written: prefix and local name. */
  readonly tag: string
  readonly value: string
}

export interface XmlElement {
  /** Local name. */
  readonly name: string
  /** Namespace URI; empty when it is in none. */
  readonly namespace: string
  /** As written: prefix and local name. */
  readonly tag: string
  /** Where it stands in the text of its document: its `<`, what follows its start tag, and what follows its last `>`. */
  readonly start: number
  readonly inside: number
  readonly end: number
  /** The namespaces this very element declares, by prefix; the empty prefix is the default namespace. */
  readonly declares: ReadonlyMap<string, string>
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

export type XmlReason = ScanReason | 'parser'

type ParsedXml =
  | ({ readonly ok: true } & XmlDocument)
  | { readonly ok: false; readonly because: XmlReason; readonly problem: string }

/** Scans and parses a document: bytes in UTF-8, or text that came out of a decryption or a canonicalisation. */
export function parseXml(document: Uint8Array | string, limits: XmlLimits): ParsedXml {
  const scanned = scanXml(document, limits)
  if (!scanned.ok) return scanned
  try {
    return { ok: true, root: treeOf(scanned.root, new Map([['xml', XML]])), text: scanned.text }
  } catch (error) {
    if (!(error instanceof NamespaceError)) throw error
    return { ok: false, because: 'parser', problem: `the XML is not well-formed: ${error.message}` }
  }
}

/** The document does not keep to Namespaces in XML 1.0. */
class NamespaceError extends Error {}

/** The scan bounds the depth, and with it the recursion. `scope` is what is in force around the element. */
function treeOf(element: Scanned, scope: Map<string, string>): XmlElement {
  const declares = declarationsOf(element)
  const outer = [...declares.keys()].map(prefix => [prefix, scope.get(prefix)] as const)
  for (const [prefix, uri] of declares) scope.set(prefix, uri)

  const attributes = element.attributes.filter(each => !isDeclaration(each)).map(named)
  function named([tag, value]: readonly [string, string]): XmlAttribute {
    // Section 6.2: the default namespace is not that of attributes.
    const [prefix, name] = partsOf(tag)
    return { name, namespace: prefix === '' ? '' : namespaceOf(prefix, scope), tag, value }
  }
  checkOnce(attributes)
  const [prefix, name] = partsOf(element.tag)
  const namespace = namespaceOf(prefix, scope)
  const content = joined(element.content).map(piece =>
    typeof piece === 'string' ? piece : treeOf(piece, scope),
  )
  for (const [prefix, uri] of outer) {
    if (uri === undefined) scope.delete(prefix)
    else scope.set(prefix, uri)
  }
  const children = content.filter(piece => typeof piece !== 'string')
  const text = content.filter(piece => typeof piece === 'string').join('')
  const { tag, start, inside, end } = element
  return { name, namespace, tag, start, inside, end, declares, attributes, content, children, text }
}

/** Section 5: a prefix cannot be undeclared, and those of XML itself mean one thing. */
function declarationsOf({ attributes }: Scanned): ReadonlyMap<string, string> {
  if (!attributes.some(isDeclaration)) return NOTHING
  const declares = new Map<string, string>()
  for (const each of attributes) {
    if (!isDeclaration(each)) continue
    const [name, uri] = each
    const prefix = name.slice('xmlns:'.length)
    if (prefix !== '' && uri === '') throw new NamespaceError(`${name} is empty`)
    // `xml` may be declared as what it is (section 3).
    const known = prefix === 'xml' || prefix === 'xmlns' || uri === XML || uri === XMLNS
    if (known && !(prefix === 'xml' && uri === XML)) {
      throw new NamespaceError(`${name} declares what XML has declared itself`)
    }
    declares.set(prefix, uri)
  }
  return declares
}

const NOTHING: ReadonlyMap<string, string> = new Map()

function partsOf(tag: string): readonly [prefix: string, name: string] {
  const colon = tag.indexOf(':')
  return colon < 0 ? ['', tag] : [tag.slice(0, colon), tag.slice(colon + 1)]
}

/** Section 5: a prefix must be declared. */
function namespaceOf(prefix: string, scope: ReadonlyMap<string, string>): string {
  const uri = scope.get(prefix)
  if (uri !== undefined || prefix === '') return uri ?? ''
  throw new NamespaceError(`the namespace prefix ${prefix} is not declared`)
}

/** Section 6.3: two prefixes for one namespace do not make two attributes. The scan has refused what is written twice. */
function checkOnce(attributes: readonly XmlAttribute[]): void {
  const prefixed = attributes.filter(({ namespace }) => namespace !== '')
  if (prefixed.length < 2) return
  const names = new Set(prefixed.map(({ namespace, name }) => `${namespace} ${name}`))
  if (names.size < prefixed.length) throw new NamespaceError('an attribute occurs twice')
}

/** Comments, where the scan let them pass, do not split the text around them. */
function joined(content: ReadonlyArray<Scanned | string>): ReadonlyArray<Scanned | string> {
  const splits = content.some(
    (piece, i) => typeof piece === 'string' && typeof content[i + 1] === 'string',
  )
  if (!splits) return content
  const pieces: Array<Scanned | string> = []
  for (const piece of content) {
    const last = pieces.at(-1)
    if (typeof piece === 'string' && typeof last === 'string') pieces.splice(-1, 1, last + piece)
    else pieces.push(piece)
  }
  return pieces
}

const XML = 'http://www.w3.org/XML/1998/namespace'
const XMLNS = 'http://www.w3.org/2000/xmlns/'

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
export function allElements(element: XmlElement): readonly XmlElement[] {
  const all: XmlElement[] = []
  const collect = (each: XmlElement) => {
    all.push(each)
    each.children.forEach(collect)
  }
  collect(element)
  return all
}

/** Every element of one of these local names, in any namespace, the root included. */
export function allNamed(root: XmlElement, ...names: readonly string[]): readonly XmlElement[] {
  return allElements(root).filter(element => names.includes(element.name))
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
