/**
 * The fields of one connection only, which a proxy does not forward, and the change to WebSocket that they ask for: RFC 9110 sections 7.6.1
 * and 7.8.
 *
 * # Facts
 * - Connection names further fields of the same message that are not forwarded. The sender of the message writes it, and so can aim at a
 *   field that a server behind the proxy relies on: Content-Length, to change where the message ends; Host or Authorization, to change the
 *   origin or the user; X-Forwarded-For, to look like the proxy itself.
 * - The RFC says that a proxy drops the named fields, and also that a sender must not name fields meant for all recipients.
 *
 * # Rule
 * The proxy drops the named fields, except those in PROTECTED, which no sender names in good faith. Callers add fields of their own after
 * this step, never before, so Connection cannot remove them.
 */
import { type Fields, listMembers } from '../message/field.ts'
import type { Request } from '../message/message.ts'

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

/** Whether a request is the opening handshake of a WebSocket, as far as an intermediary has to check (RFC 6455 section 4.1). */
export function asksForWebSocket(request: Pick<Request, 'method' | 'version' | 'fields'>): boolean {
  const { method, version, fields } = request
  if (method !== 'GET' || version !== '1.1') return false
  if (!connectionOptions(fields).includes('upgrade')) return false
  const protocols = listMembers(fields.get('Upgrade') ?? '')
  return protocols.length === 1 && protocols[0]?.toLowerCase() === 'websocket'
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
  // These name the origin, the user and the hops before.
  ...['host', 'authorization', 'www-authenticate', 'cookie', 'set-cookie', 'via', 'forwarded'],
  // These say what may be stored, and what a stored answer is compared with.
  ...['age', 'cache-control', 'date', 'etag', 'expires', 'last-modified', 'pragma', 'range'],
  'vary',
])

function isProtected(name: string): boolean {
  return PROTECTED.has(name) || name.startsWith('if-') || name.startsWith('x-forwarded-')
}
