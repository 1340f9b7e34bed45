/**
 * The text a signature is over: an element by Exclusive XML Canonicalization 1.0, without comments. xml-crypto writes it from the tree
 * that xmldom reads; the only importer of xml-crypto.
 *
 * # Facts
 * - A mistake in either library can only refuse a good message, never take a bad one: all that is read in the end is read from the
 *   very text that is made here, and hashed.
 * - The whole verification of xml-crypto searches the document by XPath: 8 ms for a usual assertion, 5.6 s for metadata of 4 MB. So
 *   it only writes the canonical text here. What may be signed, by which methods and keys, signature.ts decides before.
 * - xmldom takes some 15 µs for each element, which is five times what our own canonicalisation takes. So a text comes here when its
 *   digest is that of the signature by our own account.
 * - xml-crypto leaves out attributes whose names begin with `xmlns`; no such name comes through the scan.
 */
import { ExclusiveCanonicalization } from 'xml-crypto'
import { explainError } from '../../errors.ts'
import { type DomElement, readByXmldom } from '../core/agreement.ts'
import { refuse } from '../core/message.ts'
import {
  escapeXml,
  NOTHING,
  type Prefixes,
  prefixesAt,
  prefixOf,
  type XmlDocument,
  type XmlElement,
} from '../core/xml.ts'

/**
 * The canonical text of `element`, a part of the document, but for the child `without`, the enveloped signature. The libraries get the
 * text of the element alone, with those declarations around it that it needs.
 */
export function signedText(
  { root, text }: XmlDocument,
  element: XmlElement,
  { inclusive, without }: { readonly inclusive: readonly string[]; readonly without: XmlElement },
): string {
  const named = element.start + 1 + element.tag.length
  const needed = new Set(inclusive)
  findBorrowed(element, NOTHING, { without, found: needed })
  const around = declarations(prefixesAt(root, element), needed, element.declares)
  const before = text.slice(element.start, named) + around + text.slice(named, without.start)
  return canonicalised(readByXmldom(before + text.slice(without.end, element.end)), inclusive)
}

/**
 * Finds the prefixes that names in `element` use and nothing in it declares. No other declaration around it is part of what is signed: a
 * stranger may have written it, and long ones are dear for xmldom.
 */
function findBorrowed(
  element: XmlElement,
  around: Prefixes,
  by: { readonly without: XmlElement; readonly found: Set<string> },
): void {
  const { declares, attributes, children } = element
  const declared = declares.size === 0 ? around : new Map([...around, ...declares])
  const prefixed = attributes.filter(({ tag }) => tag.includes(':'))
  for (const { tag } of [element, ...prefixed]) {
    const prefix = prefixOf(tag)
    if (!declared.has(prefix)) by.found.add(prefix)
  }
  for (const child of children) if (child !== by.without) findBorrowed(child, declared, by)
}

/** The needed declarations in force, but for those of the element itself. */
function declarations(inForce: Prefixes, needed: ReadonlySet<string>, own: Prefixes): string {
  return [...inForce]
    .filter(([prefix]) => prefix !== 'xml' && needed.has(prefix) && !own.has(prefix))
    .map(([prefix, uri]) => ` xmlns${prefix === '' ? '' : `:${prefix}`}="${escapeXml(uri)}"`)
    .join('')
}

function canonicalised(tree: DomElement, inclusive: readonly string[]): string {
  try {
    return new Exclusive().process(tree, { inclusiveNamespacesPrefixList: [...inclusive] })
  } catch (error) {
    return refuse('xml_parser', `xml-crypto refuses it: ${explainError(error).split('\n')[0]}`)
  }
}

/**
 * Three corrections. Declarations stand in the order of code points (Canonical XML 1.0 section 2.2); xml-crypto has that of a language. And
 * the empty prefix of the list, `#default`, has a default namespace declared where it is, though no name there uses it (section 3);
 * xml-crypto takes no notice of it. And it forgets that a default namespace was taken back, and takes it back again in each child.
 */
class Exclusive extends ExclusiveCanonicalization {
  override nsCompare(a: Named, b: Named): number {
    return a.prefix < b.prefix ? -1 : Number(a.prefix > b.prefix)
  }

  override renderNs(
    node: DomElement,
    inScope: unknown,
    before: string,
    ...more: [unknown, string[]]
  ) {
    const { rendered, newDefaultNs } = super.renderNs(node, inScope, before, ...more)
    // null for none, whatever its type says; compared with the empty string in the children.
    const made = { rendered, newDefaultNs: newDefaultNs || '' }
    const declared = node.getAttributeNode('xmlns')?.value ?? before
    const isUsed = node.prefix === null || node.prefix === ''
    if (isUsed || declared === before || !more[1].includes('')) return made
    return { rendered: ` xmlns="${declared}"${made.rendered}`, newDefaultNs: declared }
  }
}

interface Named {
  readonly prefix: string
}
