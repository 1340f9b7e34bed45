/**
 * Makes the text that a signature is over: an element by Exclusive XML Canonicalization 1.0, without comments. xml-crypto
 * writes it from the tree that xmldom reads. This file is the only importer of either.
 *
 * # Facts
 * - A mistake in either library can only refuse a good message, never accept a bad one, because all facts are read from the
 *   very text that is made and hashed here.
 * - The whole verification of xml-crypto searches the document by XPath: 8 ms for a usual assertion, 5.6 s for metadata of 4 MB. So
 *   it only writes the canonical text here. What may be signed, by which methods and keys, signature.ts decides before.
 * - xmldom takes some 15 µs for each element, which is five times what our own canonicalisation takes. So a text comes here when its
 *   digest is that of the signature by our own account.
 * - xml-crypto leaves out attributes whose names begin with `xmlns`; no such name comes through the scan.
 * - Only one file of xml-crypto is loaded. The whole of it brings XPath and another xmldom: 9 ms of processor time and 2 MB in each
 *   thread.
 */
import { DOMParser, type Element as XmldomElement } from '@xmldom/xmldom'
import { ExclusiveCanonicalization } from 'xml-crypto/lib/exclusive-canonicalization.js'
import { explainError } from '../../errors.ts'
import { refuse } from '../xml/message.ts'
import {
  escapeXml,
  NOTHING,
  type Prefixes,
  prefixesAt,
  prefixOf,
  type XmlDocument,
  type XmlElement,
} from '../xml/xml.ts'

export type DomElement = XmldomElement

/**
 * The canonical text of `element`, a part of the document, without the child `omitted`, the enveloped signature. The libraries
 * get only the text of the element, with those declarations around it that it needs.
 */
export function signedText(
  { root, text }: XmlDocument,
  element: XmlElement,
  { inclusive, omitted }: { readonly inclusive: readonly string[]; readonly omitted: XmlElement },
): string {
  const named = element.start + 1 + element.tag.length
  const needed = new Set(inclusive)
  findBorrowed(element, NOTHING, { omitted, found: needed })
  const around = declarations(prefixesAt(root, element), needed, element.declares)
  const before = text.slice(element.start, named) + around + text.slice(named, omitted.start)
  return canonicalised(readByXmldom(before + text.slice(omitted.end, element.end)), inclusive)
}

/**
 * Finds the prefixes that names in `element` use and nothing in it declares. Other declarations around the element are not
 * signed. An attacker may have written them, and long ones cost xmldom much time.
 */
function findBorrowed(
  element: XmlElement,
  around: Prefixes,
  by: { readonly omitted: XmlElement; readonly found: Set<string> },
): void {
  const { declares, attributes, children } = element
  const declared = declares.size === 0 ? around : new Map([...around, ...declares])
  const prefixed = attributes.filter(({ tag }) => tag.includes(':'))
  for (const { tag } of [element, ...prefixed]) {
    const prefix = prefixOf(tag)
    if (!declared.has(prefix)) by.found.add(prefix)
  }
  for (const child of children) if (child !== by.omitted) findBorrowed(child, declared, by)
}

/** The needed declarations in force, except those of the element itself. */
function declarations(inForce: Prefixes, needed: ReadonlySet<string>, own: Prefixes): string {
  return [...inForce]
    .filter(([prefix]) => prefix !== 'xml' && needed.has(prefix) && !own.has(prefix))
    .map(([prefix, uri]) => ` xmlns${prefix === '' ? '' : `:${prefix}`}="${escapeXml(uri)}"`)
    .join('')
}

/** The root element as xmldom reads it. The text has passed the scan, except for the added declarations. */
export function readByXmldom(text: string): DomElement {
  try {
    // The scan has normalised line ends; xmldom's own rule is that of XML 1.1 and changes more characters.
    const normalizeLineEndings = (input: string) => input
    const onError = (level: string, message: string) => {
      // The scan has checked that the bytes are UTF-8. So U+FFFD is a character of the text, for instance in a name that was
      // once converted wrongly.
      if (level === 'warning' && message.startsWith('Unicode replacement character')) return
      throw new Error(message)
    }
    const parser = new DOMParser({ locator: false, onError, normalizeLineEndings })
    const root = parser.parseFromString(text, 'text/xml').documentElement
    if (root !== null) return root
  } catch (error) {
    return refuse('xml_parser', `xmldom refuses it: ${explainError(error).split('\n')[0]}`)
  }
  return refuse('xml_parser', 'xmldom finds no root element')
}

function canonicalised(tree: DomElement, inclusive: readonly string[]): string {
  try {
    return new Exclusive().process(tree, { inclusiveNamespacesPrefixList: [...inclusive] })
  } catch (error) {
    return refuse('xml_parser', `xml-crypto refuses it: ${explainError(error).split('\n')[0]}`)
  }
}

/**
 * Makes three corrections to xml-crypto. It sorts declarations by the rules of a language, but Canonical XML 1.0 section 2.2
 * requires the order of code points. It ignores the empty prefix of the list, `#default`, which declares the default namespace
 * even where no name uses it (section 3). It forgets that a default namespace was undeclared, and undeclares it again in each
 * child.
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
    // The value is null when there is none, although its type says otherwise. The children compare it with the empty string.
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
