/**
 * The fields that concern a proxy's own hop, RFC 9110 section 7.6: fields of one connection only, which are not forwarded (7.6.1), and Via,
 * which lists the intermediaries of a message (7.6.3).
 *
 * # Facts
 * - Connection names further fields of the same message that are not forwarded. The sender of the message writes it, and so can aim at a
 *   field that a server behind the proxy relies on: Content-Length, to change where the message ends; Host or Authorization, to change who
 *   is asked or who asks; X-Forwarded-For, to look like the proxy itself.
 * - The RFC says that a proxy drops the named fields, and also that a sender must not name fields meant for all recipients.
 *
 * # Rule
 * The proxy drops the named fields, except those in PROTECTED, which no sender names in good faith. Callers add fields of their own after
 * this step, never before, so Connection cannot remove them.
 */
import { type Fields, isToken, listMembers, sameName, trimWhitespace } from '../message/field.ts'

/** The fields that may be forwarded and stored, in their order: all except the hop-by-hop ones and `besides`, a name in lower case. */
export function endToEndFields(fields: Fields, besides?: string): Fields {
  const named = new Set(connectionOptions(fields))
  const lengths = lengthsOf(named, besides)
  return fields.where(name => {
    // Most names have a length that no dropped name has, and need no copy in lower case.
    if (!lengths.has(name.length)) return true
    const lower = name.toLowerCase()
    if (HOP_BY_HOP.has(lower) || lower === besides) return false
    return !named.has(lower) || isProtected(lower)
  })
}

function lengthsOf(named: ReadonlySet<string>, besides: string | undefined): ReadonlySet<number> {
  if (named.size === 0 && besides === undefined) return LENGTHS
  const lengths = new Set(LENGTHS)
  for (const name of named) lengths.add(name.length)
  return besides === undefined ? lengths : lengths.add(besides.length)
}

/** The options of the Connection field in lower case, such as `close`, `upgrade` or the names of fields. */
export function connectionOptions(fields: Fields): readonly string[] {
  const value = fields.get('connection')
  return value === undefined ? [] : listMembers(value).map(option => option.toLowerCase())
}

/** Whether the Connection field has this option. */
export function hasConnectionOption(fields: Fields, option: string): boolean {
  return connectionOptions(fields).includes(option.toLowerCase())
}

/** These fields are dropped even when Connection does not name them, because old senders forget to. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  'upgrade',
  // These are for the next proxy only (11.7): either we are that proxy, or we must not pass them on.
  ...['proxy-authenticate', 'proxy-authorization', 'proxy-authentication-info'],
])

const LENGTHS: ReadonlySet<number> = new Set([...HOP_BY_HOP].map(name => name.length))

/** These fields stay although Connection names them. */
const PROTECTED: ReadonlySet<string> = new Set([
  // These say where the message ends and what it carries.
  ...['content-length', 'content-type', 'content-encoding', 'content-range'],
  // These say who is asked, by whom, and on whose behalf.
  ...['host', 'authorization', 'www-authenticate', 'cookie', 'set-cookie', 'via', 'forwarded'],
  // These say what may be stored, and what a stored answer is compared with.
  ...['age', 'cache-control', 'date', 'etag', 'expires', 'last-modified', 'pragma', 'range'],
  'vary',
])

function isProtected(name: string): boolean {
  return PROTECTED.has(name) || name.startsWith('if-') || name.startsWith('x-forwarded-')
}

/* Via: a member is `[protocol-name "/"] protocol-version received-by [comment]`. A comment may hold commas and further comments. */

/** No path to an origin has so many intermediaries. A message that has passed more runs in a circle that changes its names. */
const mostPassed = 20
/** The most characters of a chain. */
const longestChain = 2048
/** The most characters of a Via that are read, comments included. To read a megabyte takes a quarter of a second. */
const longestRead = 8192

/** The intermediaries that a message has passed, without comments, as the next one gets them; undefined when there are none. */
export function viaChain(fields: Fields): string | undefined {
  const value = fields.get('via')
  return value === undefined ? undefined : chainOf(members(value))
}

/**
 * The chain of a request made for several clients: only the last intermediaries with names like these. With any other name a client could
 * make a server that has this name refuse the request for all of them.
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
  const passed = parseVia(value)
  if (passed.some(name => sameName(name, pseudonym))) return true
  return passed.length > mostPassed || (viaChain(fields)?.length ?? 0) > longestChain
}

/** The receivers of the message by a Via field value: pseudonyms, or host and port, as written. Malformed members are left out. */
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
