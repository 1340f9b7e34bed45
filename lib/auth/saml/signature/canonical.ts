/**
 * Exclusive canonicalisation without comments, Exclusive XML Canonicalization 1.0: an element as the bytes a signature is over.
 *
 * A mistake here can only refuse a good message, never take a bad one: what is read in the end is read from the very text
 * that is made here, and hashed.
 */
import { type Prefixes, prefixesAt, type XmlElement } from '../core/xml.ts'

interface CanonicalOptions {
  /** Prefixes of the InclusiveNamespaces (section 3, PrefixList); the empty prefix for `#default`. */
  readonly inclusive?: readonly string[]
  /** Left out with all it holds, as the enveloped signature is. */
  readonly without?: XmlElement | undefined
}

/** The canonical text of `element`, a part of the document with this root. */
export function canonicalText(
  root: XmlElement,
  element: XmlElement,
  { inclusive = [], without }: CanonicalOptions = {},
): string {
  let text = ''
  // `rendered`: what the text made so far has declared and is in force here; `around`: what the document has.
  const write = (each: XmlElement, before: Prefixes, around: Prefixes) => {
    let rendered = before
    const scope = each.declares.size === 0 ? around : new Map([...around, ...each.declares])
    text += `<${each.tag}`
    for (const [prefix, uri] of used(each, scope, inclusive)) {
      if ((rendered.get(prefix) ?? '') === uri) continue
      rendered = new Map(rendered).set(prefix, uri)
      text += ` ${prefix === '' ? 'xmlns' : `xmlns:${prefix}`}="${escapeValue(uri)}"`
    }
    for (const { tag, value } of sorted(each.attributes, byNamespace)) {
      text += ` ${tag}="${escapeValue(value)}"`
    }
    text += '>'
    for (const piece of each.content) {
      if (typeof piece === 'string') text += escapeText(piece)
      else if (piece !== without) write(piece, rendered, scope)
    }
    text += `</${each.tag}>`
  }
  write(element, new Map(), prefixesAt(root, element))
  return text
}

/** The namespaces to be declared at an element, by prefix: those its own names use, and the inclusive ones in scope. */
function used(
  { tag, namespace, attributes }: XmlElement,
  scope: Prefixes,
  inclusive: readonly string[],
): ReadonlyArray<readonly [prefix: string, uri: string]> {
  const own = prefixOf(tag)
  const prefixed = attributes.filter(attribute => attribute.tag.includes(':'))
  // Most elements use the prefix of their name alone.
  if (prefixed.length + inclusive.length === 0) return own === 'xml' ? [] : [[own, namespace]]
  const found = new Map([[own, namespace]])
  for (const attribute of prefixed) found.set(prefixOf(attribute.tag), attribute.namespace)
  for (const prefix of inclusive) {
    const uri = scope.get(prefix)
    if (uri !== undefined) found.set(prefix, uri)
  }
  found.delete('xml')
  return sorted([...found], ([a], [b]) => compare(a, b))
}

/** Most elements have one attribute or none. */
function sorted<T>(list: readonly T[], order: (a: T, b: T) => number): readonly T[] {
  return list.length < 2 ? list : [...list].sort(order)
}

function prefixOf(tag: string): string {
  return tag.slice(0, Math.max(0, tag.indexOf(':')))
}

type Named = XmlElement['attributes'][number]

function byNamespace(a: Named, b: Named): number {
  return compare(a.namespace, b.namespace) || compare(a.name, b.name)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

/** Canonical XML 1.0 section 2.3. */
function escapeText(text: string): string {
  return text.replace(/[&<>\r]/g, character => ESCAPES.get(character) ?? '')
}

function escapeValue(value: string): string {
  return value.replace(/[&<"\t\n\r]/g, character => ESCAPES.get(character) ?? '')
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ['\t', '&#x9;'],
  ['\n', '&#xA;'],
  ['\r', '&#xD;'],
])
