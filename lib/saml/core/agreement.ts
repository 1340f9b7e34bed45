/**
 * Parses a document with xmldom as well, and refuses it where xmldom reads anything else. This file is the only importer of
 * xmldom. Parsers that read one text in two ways have let attackers log in as another person. Only signed content and metadata
 * are compared, because xmldom costs much more than our own parser.
 */
import { type Attr, DOMParser, type Element as XmldomElement } from '@xmldom/xmldom'
import { explainError } from '../../errors.ts'
import { refuse } from './message.ts'
import type { XmlDocument, XmlElement } from './xml.ts'

export type DomElement = XmldomElement

/** The document itself, after xmldom has read the same in it. Refuses it otherwise. */
export function agreedDocument(document: XmlDocument): XmlDocument {
  const root = readByXmldom(document.text)
  return isSame(document.root, root)
    ? document
    : refuse('xml_parser', 'two parsers read two documents in it')
}

/** The root element as xmldom reads it. The text has passed the scan, except for declarations that our code added. */
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

/** The scan bounds the depth, and with it the recursion. */
function isSame(ours: XmlElement, theirs: DomElement): boolean {
  const { attributes, declares, content } = ours
  if (ours.tag !== theirs.tagName || ours.namespace !== (theirs.namespaceURI ?? '')) return false
  if (attributes.length + declares.size !== theirs.attributes.length) return false
  const has = (tag: string, value: string) => theirs.getAttributeNode(tag)?.value === value
  for (const { tag, namespace, value } of attributes) {
    const found: Attr | null = theirs.getAttributeNode(tag)
    if (found?.value !== value || (found.namespaceURI ?? '') !== namespace) return false
  }
  for (const [prefix, uri] of declares) {
    if (!has(prefix === '' ? 'xmlns' : `xmlns:${prefix}`, uri)) return false
  }
  let i = 0
  let text = ''
  for (let node = theirs.firstChild; node !== null; node = node.nextSibling) {
    if (node.nodeType === node.TEXT_NODE) {
      text += node.nodeValue ?? ''
    } else if (isElement(node)) {
      if (text !== '' && content[i++] !== text) return false
      text = ''
      const child = content[i++]
      if (typeof child !== 'object' || !isSame(child, node)) return false
    } else if (node.nodeType !== node.COMMENT_NODE) {
      // Comments exist only where the scan allows them, and they do not split the text around them.
      return false
    }
  }
  if (text !== '' && content[i++] !== text) return false
  return i === content.length
}

function isElement(node: { readonly nodeType: number }): node is DomElement {
  return node.nodeType === 1
}
