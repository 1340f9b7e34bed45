/**
 * The client's address behind other proxies, and what the next hop learns of it: X-Forwarded-For and its relatives. Only peers that the
 * operator trusts are believed. Which fields of a client have to go before ours are added, the caller decides.
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

/** An address as proxies write it, with or without a port; undefined when the text is not valid. */
export function forwardedAddress(text: string): string | undefined {
  const bare = text.trim().replace(/^"(.*)"$/, '$1')
  const plain = normaliseAddress(bare)
  if (plain !== undefined) return plain
  const withPort = /^(\[[0-9A-Fa-f:.]+\]|\d+\.\d+\.\d+\.\d+):\d{1,5}$/.exec(bare)
  return withPort?.[1] === undefined ? undefined : normaliseAddress(withPort[1])
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
