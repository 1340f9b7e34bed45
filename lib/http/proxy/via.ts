/**
 * The Via field, RFC 9110 section 7.6.3: which intermediaries a message has passed, and whether we are one of them already.
 * A member is `[protocol-name "/"] protocol-version received-by [comment]`; a comment may hold commas and further comments.
 */
import { type Fields, isToken, sameName, trimWhitespace } from '../message/field.ts'

/** More intermediaries than any way to an origin has: a message that has passed so many runs in a circle that changes its names. */
const mostPassed = 20
/** Characters of a chain. */
const longestChain = 2048
/** Characters of a Via, comments included, that are read. To read a megabyte takes a quarter of a second. */
const longestRead = 8192

/** The intermediaries that a message has passed, without comments, as they go on to the next one; undefined when there are none. */
export function viaChain(fields: Fields): string | undefined {
  const value = fields.get('via')
  return value === undefined ? undefined : chainOf(members(value))
}

/**
 * The same for a request that stands for those of several clients: only the last intermediaries with names like these. With any other
 * name a client could have the request refused for all of them, by a server that takes the name for its own.
 */
export function sharedChain(fields: Fields, names: RegExp): string | undefined {
  const value = fields.get('via')
  if (value === undefined) return undefined
  const known = members(value).filter(({ receivedBy }) => names.test(receivedBy))
  return chainOf(known.slice(-mostPassed / 2))
}

function chainOf(passed: readonly Member[]): string | undefined {
  const chain = passed.map(({ protocol, receivedBy }) => `${protocol} ${receivedBy}`)
  return chain.length === 0 ? undefined : chain.join(', ')
}

/** These fields with us as the last intermediary. `version` is that of the message we received. */
export function appendVia(fields: Fields, version: string, pseudonym: string): Fields {
  return fields.plus('Via', `${version} ${pseudonym}`)
}

/**
 * Whether a message runs in a circle: it has come through us before, under this pseudonym in any case, or through more
 * intermediaries than a way can have.
 */
export function runsInCircle(fields: Fields, pseudonym: string): boolean {
  const value = fields.get('via')
  if (value === undefined) return false
  if (value.length > longestRead) return true
  const passed = parseVia(value)
  if (passed.some(name => sameName(name, pseudonym))) return true
  return passed.length > mostPassed || (viaChain(fields)?.length ?? 0) > longestChain
}

/** Who received the message, by a Via field value: pseudonyms, or host and port, as written. Malformed members are left out. */
export function parseVia(value: string): readonly string[] {
  return members(value).map(({ receivedBy }) => receivedBy)
}

interface Member {
  readonly protocol: string
  readonly receivedBy: string
}

function members(value: string): readonly Member[] {
  const found: Member[] = []
  for (const piece of withoutComments(value).split(',')) {
    const [protocol, receivedBy, ...rest] = trimWhitespace(piece).split(/[ \t]+/)
    if (protocol === undefined || receivedBy === undefined || rest.length > 0) continue
    if (protocol.split('/').every(isToken)) found.push({ protocol, receivedBy })
  }
  return found
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
