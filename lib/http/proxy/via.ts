/**
 * The Via field, RFC 9110 section 7.6.3: which intermediaries a message has passed, and whether we are one of them already.
 * A member is `[protocol-name "/"] protocol-version received-by [comment]`; a comment may hold commas and further comments.
 */
import { type Fields, isToken, sameName, trimWhitespace } from '../message/field.ts'

/** These fields with us as the last intermediary. `version` is that of the message we received. */
export function appendVia(fields: Fields, version: string, pseudonym: string): Fields {
  return fields.plus('Via', `${version} ${pseudonym}`)
}

/**
 * Whether a message has come through us before, under this pseudonym in any case: it runs in a circle. So does a message whose Via
 * is longer than LONGEST, whatever it says.
 */
export function hasPassed(fields: Fields, pseudonym: string): boolean {
  const value = fields.get('via')
  if (value === undefined) return false
  return value.length > LONGEST || parseVia(value).some(name => sameName(name, pseudonym))
}

/** Characters: the names of some hundred intermediaries. To read a megabyte takes a quarter of a second. */
const LONGEST = 8192

/** Who received the message, by a Via field value: pseudonyms, or host and port, as written. Malformed members are left out. */
export function parseVia(value: string): readonly string[] {
  const names: string[] = []
  for (const piece of withoutComments(value).split(',')) {
    const [protocol, receivedBy, ...rest] = trimWhitespace(piece).split(/[ \t]+/)
    if (protocol === undefined || receivedBy === undefined || rest.length > 0) continue
    if (protocol.split('/').every(isToken)) names.push(receivedBy)
  }
  return names
}

/** Comments nest, and a backslash takes the meaning from the next character (5.6.5). One that never ends takes the rest. */
function withoutComments(value: string): string {
  let depth = 0
  let kept = ''
  for (let i = 0; i < value.length; i += 1) {
    const c = value[i]
    if (c === '(') depth += 1
    else if (c === ')' && depth > 0) depth -= 1
    else if (depth === 0) kept += c
    else if (c === '\\') i += 1
  }
  return kept
}
