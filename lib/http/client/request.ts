/**
 * A request for an origin, and the message it becomes on the wire: Host, framing (RFC 9112 section 6) and the fields of one
 * hop (RFC 9110 section 7.6.1) are written here and nowhere else.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Fields } from '../message/field.ts'
import { type Content, noContent, type SendInterim } from '../message/message.ts'
import { formatAuthority, formatUri, pathAndQuery, type TargetUri } from '../message/target.ts'
import type { WireRequest } from '../wire/wire-request.ts'
import type { OriginDeadlines } from './limits.ts'
import { type Parent, proxyAuthorization } from './parent-proxy.ts'

export interface OriginRequest {
  readonly method: string
  /** Its userinfo is not sent. */
  readonly uri: TargetUri
  /** End-to-end fields. Host, Connection, framing and the fields of one hop are written here; any given are left out. */
  readonly fields: Fields
  readonly content?: Content
  /** Ends the request in whatever phase it is, its content included. */
  readonly signal: AbortSignal
  /** Whether the host is listed by name and may be at any address, or only at public ones. */
  readonly trusted: boolean
  /**
   * Whose connections it uses: those everybody shares unless told. A client that reads slowly what is `passed` to it alone keeps
   * its connection for as long, and must not keep it from the others.
   */
  readonly line?: 'shared' | 'passed'
  readonly deadlines?: Partial<OriginDeadlines>
  /** Host field, when it is to differ from the host of the URI: a gateway hands on the one it was asked for. */
  readonly host?: string
  /** Whether trailer fields of the response are of use (RFC 9110 section 10.1.4). */
  readonly trailers?: boolean
  /** The longest wait for 100 (Continue); undefined: content is sent at once, and Expect is not. */
  readonly awaitContinue?: Milliseconds
  readonly onInterim?: SendInterim | undefined
}

/** The message as the next hop is to get it; `upgrade` names the protocol asked for. */
export function onWire(asked: OriginRequest, via?: Parent, upgrade?: string): WireRequest {
  const { method, uri, content = noContent, awaitContinue, onInterim } = asked
  const parent = uri.scheme === 'http' ? via : undefined
  const options = [upgrade === undefined ? 'keep-alive' : 'Upgrade']
  if (asked.trailers) options.push('TE')
  const fields = Fields.of(
    ['Host', asked.host ?? formatAuthority(uri, uri.scheme)],
    ...asked.fields.without(...OURS),
    ...framing(method, content),
    ['Proxy-Authorization', parent === undefined ? undefined : proxyAuthorization(parent)],
    ['Expect', awaitContinue === undefined ? undefined : '100-continue'],
    ['TE', asked.trailers ? 'trailers' : undefined],
    ['Upgrade', upgrade],
    ['Connection', options.join(', ')],
  )
  const target = parent === undefined ? pathAndQuery(uri) : formatUri(uri)
  return { method, target, fields, content, awaitContinue, onInterim }
}

/** Fields of one hop, of framing, and those we write ourselves. Expect is ours to write when we wait. */
const OURS = [
  ...['Host', 'Connection', 'Keep-Alive', 'Proxy-Connection', 'Proxy-Authorization', 'TE'],
  ...['Transfer-Encoding', 'Trailer', 'Upgrade', 'Content-Length', 'Expect'],
]

/** RFC 9112 section 6; methods that define content for requests say so when there is none (RFC 9110 section 8.6). */
function framing(method: string, content: Content): ReadonlyArray<readonly [string, string]> {
  const length =
    content.kind === 'none' ? 0 : content.kind === 'bytes' ? content.bytes.length : content.length
  if (length === undefined) return [['Transfer-Encoding', 'chunked']]
  const implied = content.kind === 'none' && !['POST', 'PUT', 'PATCH'].includes(method)
  return implied ? [] : [['Content-Length', String(length)]]
}
