/**
 * Via, RFC 9110 section 7.6.3: the intermediaries that a message has passed. A member is `[protocol-name "/"] protocol-version received-by
 * [comment]`. A comment may hold commas and further comments.
 */
import { type Fields, isToken, sameName, trimWhitespace } from './field.ts'

/** No path to an origin has so many intermediaries. A message that has passed more runs in a circle that changes its names. */
const mostPassed = 20
/** The most characters of a chain. */
const longestChain = 2048
/** The most characters of a Via that are read, comments included. To read a megabyte takes a quarter of a second. */
const longestRead = 8192

/** The intermediaries that a message has passed, without comments, as the next one gets them; undefined when there are none. */
export function viaChain(fields: Fields): string | undefined {
  const value = fields.get('via')
  return value === undefined ? undefined : chainOf(membersOf(value))
}

/**
 * The chain of a request made for several clients: only the last intermediaries with names like these. With any other name a client could
 * make a server that has this name refuse the request for all of them.
 */
export function sharedChain(fields: Fields, names: RegExp): string | undefined {
  const value = fields.get('via')
  if (value === undefined) return undefined
  const known = membersOf(value).filter(({ receivedBy }) => names.test(receivedBy))
  return chainOf(known.slice(-mostPassed / 2))
}

function chainOf(passed: readonly Member[]): string | undefined {
  const chain = passed.map(({ protocol, receivedBy }) => `${protocol} ${receivedBy}`)
  return chain.length === 0 ? undefined : chain.join(', ')
}

/** These fields with our name as the last intermediary. `version` is that of the message we received. */
export function appendVia(fields: Fields, version: string, pseudonym: string): Fields {
  return fields.plus('Via', `${version} ${pseudonym}`)
}

/**
 * Whether a message runs in a circle: it has passed us before under this pseudonym, in any case of letters, or it has passed more
 * intermediaries than a path can have.
 */
export function runsInCircle(fields: Fields, pseudonym: string): boolean {
  const value = fields.get('via')
  if (value === undefined) return false
  if (value.length > longestRead) return true
  const passed = membersOf(value)
  if (passed.some(({ receivedBy }) => sameName(receivedBy, pseudonym))) return true
  return passed.length > mostPassed || (chainOf(passed)?.length ?? 0) > longestChain
}

interface Member {
  readonly protocol: string
  /** A pseudonym, or host and port, as written. */
  readonly receivedBy: string
}

/** The members of Via. Malformed ones are left out. */
function membersOf(value: string): readonly Member[] {
  const found: Member[] = []
  for (const piece of withoutComments(value).split(',')) {
    const [protocol, receivedBy, ...rest] = trimWhitespace(piece).split(/[ \t]+/)
    if (protocol === undefined || receivedBy === undefined || rest.length > 0) continue
    if (protocol.split('/').every(isToken)) found.push({ protocol, receivedBy })
  }
  return found
}

/** Removes comments. They nest, and a backslash escapes the next character (5.6.5). A comment that never ends takes the rest. */
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
