/**
 * Media types, RFC 9110 section 8.3. Reads the written type, and guesses nothing from names or content.
 */
import { isToken, splitUnquoted, unquote } from './field.ts'

/** `type/subtype` in lower case, without the parameters (8.3.1); undefined when any part is malformed. */
export function mediaTypeOf(text: string): string | undefined {
  if (text.length > LONGEST) return undefined
  const [mediaType = '', ...parameters] = splitUnquoted(text, ';')
  const [type = '', subtype = '', ...rest] = mediaType.split('/')
  if (!isToken(type) || !isToken(subtype) || rest.length > 0) return undefined
  return parameters.every(isParameter) ? mediaType.toLowerCase() : undefined
}

/** The most characters. No type needs more, and to read half a million parameters takes a tenth of a second. */
const LONGEST = 1024

/** parameters = *( OWS ";" OWS [ parameter ] ) (5.6.6): a parameter may be empty; space around "=" is not allowed. */
function isParameter(text: string): boolean {
  if (text === '') return true
  const equals = text.indexOf('=')
  const name = text.slice(0, Math.max(equals, 0))
  const value = text.slice(equals + 1)
  return isToken(name) && (isToken(value) || unquote(value) !== undefined)
}
