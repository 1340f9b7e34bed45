/**
 * Which requests ask to change the protocol of their connection, RFC 9110 section 7.8 and RFC 6455 section 4.1.
 */

import { hasConnectionOption } from '../proxy/hop-by-hop.ts'
import { listMembers } from './field.ts'
import type { Request } from './message.ts'

/** Whether it is the opening handshake of a WebSocket, as far as an intermediary has to check. */
export function asksForWebSocket({
  method,
  version,
  fields,
}: Pick<Request, 'method' | 'version' | 'fields'>): boolean {
  if (method !== 'GET' || version !== '1.1') return false
  if (!hasConnectionOption(fields, 'upgrade')) return false
  const protocols = listMembers(fields.get('Upgrade') ?? '')
  return protocols.length === 1 && protocols[0]?.toLowerCase() === 'websocket'
}

/** Whether a request announces content. */
export function hasContent({ fields }: Pick<Request, 'fields'>): boolean {
  if (fields.has('Transfer-Encoding')) return true
  const length = fields.get('Content-Length')
  return length !== undefined && Number(length) > 0
}
