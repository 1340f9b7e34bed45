/**
 * Passes a request through to the origin: nothing is stored and nothing shared. For hosts that are only passed through, for
 * requests with credentials, and for clients that forbid storing. The origin gets the client's end-to-end fields, the client
 * gets the origin's response, redirects included.
 */

import type { Clock } from '../../async/clock.ts'
import { within } from '../../async/deadline.ts'
import { iterate, sourceOf } from '../../bytes/source.ts'
import type { OriginClient } from '../../http/client/client.ts'
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import type { Fields } from '../../http/message/field.ts'
import { type Content, noContent, type Request, type Response } from '../../http/message/message.ts'
import { announced, textResponse } from '../../http/message/reply.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { endToEnd } from '../../http/proxy/hop-by-hop.ts'
import { appendVia } from '../../http/proxy/via.ts'
import { firstByteDeadline, slowOrigin } from '../fetch/failures.ts'
import type { MissReason } from '../rfc9111/outcome.ts'
import { type About, cacheName } from './representation.ts'

interface RelayOptions {
  readonly origin: OriginClient
  readonly trusted: boolean
  /** Whether the client's credentials are for this origin. */
  readonly credentials: boolean
  /** Our pseudonym in Via, which also finds loops. */
  readonly pseudonym: string
  readonly because: MissReason
  readonly onFetched: (bytes: number) => void
  readonly clock: Clock
}

/** Asks the origin and streams its answer. Throws the origin client's failures, and that it is slow. */
export async function relay(
  request: Request,
  uri: TargetUri,
  about: About,
  options: RelayOptions,
): Promise<Response> {
  const limit = {
    clock: options.clock,
    after: firstByteDeadline,
    signal: request.signal,
    late: () => slowOrigin(about.origin),
    aborted: () => slowOrigin(about.origin),
  }
  const response = await within(limit, stop =>
    options.origin.request({
      method: request.method,
      uri,
      fields: forwardedFields(request, uri, options),
      signal: AbortSignal.any([request.signal, stop]),
      trusted: options.trusted,
      line: 'passed',
    }),
  )
  const facts = { outcome: 'miss', because: options.because, ...about }
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: 'bypass',
    forwardStatus: response.status,
    detail: options.because,
  })
  const fields = appendVia(
    endToEnd(response.fields).without('Content-Length'),
    '1.1',
    options.pseudonym,
  )
    .plus('X-Cache', 'MISS')
    .plus('Cache-Status', cacheStatus)
  // apt gives up at once after a 5xx without a text, and after 507. After another 5xx with a text it tries again.
  if (response.status === 507 || (response.status >= 500 && response.length === 0)) {
    response.content.close()
    return textResponse(
      response.status === 507 ? 503 : response.status,
      `The origin ${about.origin} answered ${response.status}.`,
      { facts },
    )
  }
  if (request.method === 'HEAD' || response.status === 304) {
    response.content.close()
    const length = request.method === 'HEAD' ? announced(response.fields) : {}
    return { status: response.status, fields, content: noContent, facts, ...length }
  }
  const content: Content = {
    kind: 'stream',
    length: response.length,
    open: () => sourceOf(() => counted(iterate(response.content), options.onFetched)),
  }
  return { status: response.status, fields, content, facts }
}

/** The client's end-to-end fields. Credentials in the URI are sent as Authorization (RFC 3986 section 3.2.1). */
function forwardedFields(
  request: Request,
  uri: TargetUri,
  { pseudonym, credentials }: Pick<RelayOptions, 'pseudonym' | 'credentials'>,
): Fields {
  const withhold = credentials ? [] : ['Authorization', 'Cookie']
  const fields = appendVia(
    endToEnd(request.fields).without('Host', 'Content-Length', ...withhold),
    request.version,
    pseudonym,
  )
  if (uri.userinfo === undefined || fields.has('Authorization')) return fields
  return fields.plus('Authorization', `Basic ${basic(uri.userinfo)}`)
}

function basic(userinfo: string): string {
  let text = userinfo
  try {
    text = decodeURIComponent(userinfo)
  } catch {
    // Not percent-encoded: used as it came.
  }
  return Buffer.from(text.includes(':') ? text : `${text}:`).toString('base64')
}

async function* counted(
  content: AsyncIterable<Buffer>,
  onFetched: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  let bytes = 0
  try {
    for await (const block of content) {
      bytes += block.length
      yield block
    }
  } finally {
    onFetched(bytes)
  }
}
