/**
 * Media types, RFC 9110 section 8.3. Reads what is written and guesses nothing from names or content.
 */
import { isToken, splitUnquoted, unquote } from './field.ts'

/** media-type = type "/" subtype parameters (8.3.1) */
export interface MediaType {
  /** Lower case. */
  readonly type: string
  /** Lower case. */
  readonly subtype: string
  /** Names in lower case, values as written with quoting undone; of two with one name the first. */
  readonly parameters: ReadonlyMap<string, string>
}

/** A media type; undefined when malformed. */
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
