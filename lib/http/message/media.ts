/**
 * Media types and what a client accepts of them, RFC 9110 sections 8.3 and 12.5.1. Reads what is written and guesses nothing
 * from names or content.
 */
import { isToken, listMembers, splitUnquoted, unquote } from './field.ts'

/** media-type = type "/" subtype parameters (8.3.1) */
export interface MediaType {
  /** Lower case. */
  readonly type: string
  /** Lower case. */
  readonly subtype: string
  /** Names in lower case, values as written with quoting undone; of two with one name the first. */
  readonly parameters: ReadonlyMap<string, string>
}

/** A media type, or a media range with "*"; undefined when malformed. */
export function parseMediaType(text: string): MediaType | undefined {
  const [essence = '', ...pieces] = splitUnquoted(text, ';')
  const [type = '', subtype = '', ...rest] = essence.toLowerCase().split('/')
  if (!isToken(type) || !isToken(subtype) || rest.length > 0) return undefined
  const parameters = new Map<string, string>()
  for (const piece of pieces) {
    // parameters = *( OWS ";" OWS [ parameter ] ) (5.6.6): empty ones are allowed, space around "=" is not.
    if (piece === '') continue
    const equals = piece.indexOf('=')
    const name = piece.slice(0, Math.max(equals, 0)).toLowerCase()
    const written = piece.slice(equals + 1)
    const value = isToken(written) ? written : unquote(written)
    if (!isToken(name) || value === undefined) return undefined
    if (!parameters.has(name)) parameters.set(name, value)
  }
  return { type, subtype, parameters }
}

/**
 * Whether a client would rather have an explanation as HTML than as plain text. At a tie, as with apt's `text/*` and curl's
 * everything, text it is.
 */
export function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined) return false
  return quality(accept, 'text', 'html') > quality(accept, 'text', 'plain')
}

/**
 * How much the value of an Accept field wants a media type, 0 (not at all) to 1. The most specific range that matches
 * decides (12.5.1); parameters other than the weight are not compared, malformed ranges are passed over.
 */
export function quality(accept: string, type: string, subtype: string): number {
  let specificity = 0
  let found = 0
  for (const member of listMembers(accept)) {
    const range = parseMediaType(member)
    const matched = range === undefined ? 0 : specificityOf(range, type, subtype)
    const weight = weightOf(range?.parameters.get('q'))
    if (matched === 0 || weight === undefined || matched < specificity) continue
    found = matched > specificity ? weight : Math.max(found, weight)
    specificity = matched
  }
  return found
}

/** 3 for the type itself, 2 for `type/*`, 1 for everything, 0 for no match. */
function specificityOf(range: MediaType, type: string, subtype: string): number {
  if (range.type === '*') return range.subtype === '*' ? 1 : 0
  if (range.type !== type) return 0
  if (range.subtype === '*') return 2
  return range.subtype === subtype ? 3 : 0
}

/** weight (12.4.2): absent means 1; undefined when malformed. */
function weightOf(text: string | undefined): number | undefined {
  if (text === undefined) return 1
  return QVALUE.test(text) ? Number(text) : undefined
}

const QVALUE = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/
