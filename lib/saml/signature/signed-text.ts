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
  type Prefixes,
  prefixesAt,
  type XmlDocument,
  type XmlElement,
} from '../core/xml.ts'

/**
 * The canonical text of `element`, a part of the document, but for the child `without`, the enveloped signature. The libraries get the
 * text of the element alone, with what is declared around it.
 */
export function signedText(
  { root, text }: XmlDocument,
  element: XmlElement,
  { inclusive, without }: { readonly inclusive: readonly string[]; readonly without: XmlElement },
): string {
  const named = element.start + 1 + element.tag.length
  const around = declarations(prefixesAt(root, element), element.declares)
  const before = text.slice(element.start, named) + around + text.slice(named, without.start)
  return canonicalised(readByXmldom(before + text.slice(without.end, element.end)), inclusive)
}

/** Declarations in force, but for those of the element itself. */
function declarations(inForce: Prefixes, own: Prefixes): string {
  return [...inForce]
    .filter(([prefix]) => prefix !== 'xml' && !own.has(prefix))
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

/** Declarations in the order of the standard (Canonical XML 1.0 section 2.2), which is that of code points; xml-crypto has that of a language. */
class Exclusive extends ExclusiveCanonicalization {
  override nsCompare(a: Named, b: Named): number {
    return a.prefix < b.prefix ? -1 : Number(a.prefix > b.prefix)
  }
}

interface Named {
  readonly prefix: string
}
