/**
 * The client's address behind other proxies, and what the next hop learns of it: X-Forwarded-For and its relatives. Only peers that the
 * operator trusts are believed, and the next hop gets our own fields in place of those received.
 */
import { type AddressSet, normaliseAddress } from '../../ip.ts'
import { Fields } from '../message/field.ts'
import type { Request } from '../message/message.ts'

export interface ClientView {
  /** The client's IP address: the first forwarded one when the peer is trusted, else the peer's. */
  readonly address: string
  /** Whether the peer may name another client. */
  readonly trusted: boolean
}

/** The client that sent this request. When the first entry is no address (`unknown`, a name) it is the peer. */
export function clientOf(
  request: Pick<Request, 'client' | 'fields'>,
  trusted: AddressSet,
): ClientView {
  const peer = request.client.address
  if (!trusted.has(peer)) return { address: peer, trusted: false }
  const first = (request.fields.get('X-Forwarded-For') ?? '').split(',', 1)[0] ?? ''
  return { address: forwardedAddress(first) ?? peer, trusted: true }
}

/** An address as proxies write it, with or without a port; undefined when the text is none. */
export function forwardedAddress(text: string): string | undefined {
  const bare = text.trim().replace(/^"(.*)"$/, '$1')
  const plain = normaliseAddress(bare)
  if (plain !== undefined) return plain
  const withPort = /^(\[[0-9A-Fa-f:.]+\]|\d+\.\d+\.\d+\.\d+):\d{1,5}$/.exec(bare)
  return withPort?.[1] === undefined ? undefined : normaliseAddress(withPort[1])
}

/** The fields without those that say who the client is, how the request came, or that it asked for another target. */
export function withoutForwarding(fields: Fields): Fields {
  return fields.where(name => !isForwarding(name))
}

/** The fields that tell the next hop about the client. */
export function forwardingFields(of: {
  readonly client: string
  readonly host: string | undefined
  readonly scheme: 'http' | 'https'
}): Fields {
  return Fields.of(
    ['X-Forwarded-For', of.client],
    ['X-Real-IP', of.client],
    ['X-Forwarded-Proto', of.scheme],
    ['X-Forwarded-Host', of.host],
  )
}

/** Whether `withoutForwarding` drops the field. The spelling does not matter: frameworks read `X_Forwarded_For` as the same field. */
export function isForwarding(name: string): boolean {
  if (name.length > LONGEST_FORWARDING) return false
  return FORWARDING.has(name.toLowerCase().replace(/[^a-z0-9]/g, '-'))
}

const FORWARDING: ReadonlySet<string> = new Set([
  ...['forwarded', 'x-real-ip', 'x-forwarded', 'x-forwarded-for', 'x-forwarded-proto'],
  ...['x-forwarded-host', 'x-forwarded-port', 'x-forwarded-by', 'x-forwarded-server'],
  ...['x-forwarded-scheme', 'x-forwarded-protocol', 'x-forwarded-ssl', 'x-client-ip'],
  ...['x-cluster-client-ip', 'x-original-forwarded-for', 'true-client-ip', 'cf-connecting-ip'],
  ...['x-url-scheme', 'x-scheme', 'front-end-https', 'x-host', 'x-original-host'],
  // CGI programs read this field as HTTP_PROXY, and send their own requests there (httpoxy).
  'proxy',
  // Some servers take these for the requested path (IIS, Symfony, Zend, Envoy), and we have judged another path.
  ...['x-original-url', 'x-rewrite-url', 'x-original-uri', 'x-original-path', 'x-override-url'],
  ...['x-forwarded-uri', 'x-forwarded-url', 'x-forwarded-path', 'x-forwarded-prefix'],
  'x-envoy-original-path',
  // Servers cut this prefix off the path before they choose what to run. gunicorn takes the first two names, with "_", from a proxy on the
  // same machine, Daphne takes the third, and middleware for WSGI takes the last.
  ...['script-name', 'path-info', 'daphne-root-path', 'x-script-name'],
])

/** The length of the longest name. To respell a name of a megabyte takes a tenth of a second. */
const LONGEST_FORWARDING = Math.max(...[...FORWARDING].map(name => name.length))
