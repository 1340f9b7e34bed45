/**
 * Exclusive canonicalisation without comments, Exclusive XML Canonicalization 1.0: an element as the bytes a signature is over.
 *
 * A mistake here can only refuse a good message, never accept a bad one, because the facts are read from the very text that is
 * made and hashed here.
 */
import { refuse } from '../xml/message.ts'
import { type Prefixes, prefixesAt, prefixOf, type XmlElement } from '../xml/xml.ts'

/**
 * The canonical text of `element`, a part of the document with this root, in UTF-8. Refuses a text of more than `most` bytes: a
 * declaration is repeated wherever its prefix is used, so 200 KB can become gigabytes.
 */
export function canonicalBytes(
  root: XmlElement,
  element: XmlElement,
  {
    inclusive = [],
    omitted,
    most = Number.POSITIVE_INFINITY,
  }: {
    /** Prefixes of the InclusiveNamespaces (section 3, PrefixList); the empty prefix for `#default`. */
    readonly inclusive?: readonly string[]
    /** The element that is omitted with its content, as the enveloped signature is. */
    readonly omitted?: XmlElement
    /** The most bytes; by default without a limit, for documents of ours. */
    readonly most?: number
  } = {},
): Buffer {
  const made = new Utf8(most)
  const pair = (name: string, value: string) => {
    made.add(name)
    made.add('="')
    made.addEscaped(value, IN_VALUE)
    made.add('"')
  }
  // `rendered` has the declarations in force in the text made so far, `around` those of the document.
  const write = (each: XmlElement, before: Prefixes, around: Prefixes) => {
    let rendered = before
    const scope = each.declares.size === 0 ? around : new Map([...around, ...each.declares])
    made.add('<')
    made.add(each.tag)
    for (const [prefix, uri] of undeclared(each, rendered, { scope, inclusive })) {
      rendered = new Map(rendered).set(prefix, uri)
      pair(prefix === '' ? ' xmlns' : ` xmlns:${prefix}`, uri)
    }
    for (const { tag, value } of sorted(each.attributes, byNamespace)) {
      made.add(' ')
      pair(tag, value)
    }
    made.add('>')
    for (const piece of each.content) {
      if (typeof piece === 'string') made.addEscaped(piece, IN_TEXT)
      else if (piece !== omitted) write(piece, rendered, scope)
    }
    made.add('</')
    made.add(each.tag)
    made.add('>')
  }
  write(element, new Map(), prefixesAt(root, element))
  return made.bytes
}

/** Builds a text in UTF-8. The garbage collector would copy the chain of pieces of a growing string repeatedly. */
class Utf8 {
  #buffer = Buffer.allocUnsafe(16_384)
  #length = 0
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  add(text: string): void {
    const buffer = this.#withRoom(3 * text.length)
    let length = this.#length
    let i = 0
    for (; i < text.length; i += 1) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) break
      buffer[length++] = code
    }
    this.#length = length + (i < text.length ? buffer.write(text.slice(i), length) : 0)
  }

  /** Adds text and escapes some ASCII characters. A message may have a quarter of a million of them. */
  addEscaped(text: string, escapes: Escapes): void {
    const start = this.#length
    this.add(text)
    if (!escapes.some(text)) return
    let more = 0
    for (const byte of this.bytes.subarray(start)) more += (escapes.of[byte]?.length ?? 1) - 1
    const buffer = this.#withRoom(more)
    // The loop runs backwards, so that no byte is overwritten before it is moved.
    let to = this.#length + more
    for (let i = this.#length - 1; i >= start; i -= 1) {
      const byte = buffer[i] ?? 0
      const written = escapes.of[byte]
      if (written === undefined) buffer[--to] = byte
      else for (let k = written.length - 1; k >= 0; k -= 1) buffer[--to] = written[k] ?? 0
    }
    this.#length += more
  }

  /** The buffer, with room for this number of further bytes. */
  #withRoom(bytes: number): Buffer {
    if (this.#length > this.#most) {
      refuse('xml_too-large', `its canonical text is larger than the limit of ${this.#most} bytes`)
    }
    const needed = this.#length + bytes
    if (needed > this.#buffer.length) this.#buffer = Buffer.concat([this.bytes], 2 * needed)
    return this.#buffer
  }
}

type Declaration = readonly [prefix: string, uri: string]

const NONE: readonly Declaration[] = []

/** The namespaces an element has to declare, by prefix: those its own names use, and the inclusive ones in scope. */
function undeclared(
  { tag, namespace, attributes }: XmlElement,
  rendered: Prefixes,
  { scope, inclusive }: { readonly scope: Prefixes; readonly inclusive: readonly string[] },
): readonly Declaration[] {
  const own = prefixOf(tag)
  // Most elements use only the prefix of their name.
  if (inclusive.length === 0 && !attributes.some(isPrefixed)) {
    return own === 'xml' || (rendered.get(own) ?? '') === namespace ? NONE : [[own, namespace]]
  }
  const found = new Map([[own, namespace]])
  for (const attribute of attributes.filter(isPrefixed)) {
    found.set(prefixOf(attribute.tag), attribute.namespace)
  }
  for (const prefix of inclusive) {
    const uri = scope.get(prefix)
    if (uri !== undefined) found.set(prefix, uri)
  }
  found.delete('xml')
  const used = [...found].filter(([prefix, uri]) => (rendered.get(prefix) ?? '') !== uri)
  return sorted(used, ([a], [b]) => compare(a, b))
}

function isPrefixed({ tag }: Named): boolean {
  return tag.includes(':')
}

/** Most lists are already in order. */
function sorted<T>(list: readonly T[], order: (a: T, b: T) => number): readonly T[] {
  let before: T | undefined
  for (const each of list) {
    if (before !== undefined && order(before, each) > 0) return [...list].sort(order)
    before = each
  }
  return list
}

type Named = XmlElement['attributes'][number]

function byNamespace(a: Named, b: Named): number {
  return compare(a.namespace, b.namespace) || compare(a.name, b.name)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

interface Escapes {
  /** Whether the text has any of the characters. */
  readonly some: (text: string) => boolean
  /** The replacement of each character. */
  readonly of: ReadonlyArray<Buffer | undefined>
}

function escapes(written: Readonly<Record<string, string>>): Escapes {
  const of: Array<Buffer | undefined> = Array.from({ length: 256 })
  for (const [character, by] of Object.entries(written))
    of[character.charCodeAt(0)] = Buffer.from(by)
  const any = new RegExp(`[${Object.keys(written).join('')}]`)
  return { some: text => any.test(text), of }
}

/** Canonical XML 1.0 section 2.3. */
const IN_TEXT = escapes({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '\r': '&#xD;' })
const IN_VALUE = escapes({
  '&': '&amp;',
  '<': '&lt;',
  '"': '&quot;',
  '\t': '&#x9;',
  '\n': '&#xA;',
  '\r': '&#xD;',
})
