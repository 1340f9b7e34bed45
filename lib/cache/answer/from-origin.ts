/**
 * Answers with a file that is arriving from an origin, with the origin's head, or with a response that is passed through.
 *
 * A response that is passed through is neither stored nor shared. That concerns hosts under `passthrough_domains`, requests with
 * credentials, and clients that forbid storing. The origin gets the client's end-to-end fields, and the client gets the origin's
 * response, redirects included.
 */
import { tappedSource } from '../../bytes/source.ts'
import { attempt } from '../../errors.ts'
import type { OriginClient } from '../../http/client/client.ts'
import { ageOf } from '../../http/message/cache-control.ts'
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import { endToEndFields } from '../../http/message/hop-by-hop.ts'
import { type Content, noContent, type Response } from '../../http/message/message.ts'
import { statusByPreconditions, validatorsOf } from '../../http/message/precondition.ts'
import { announcedLengthOf, textResponse } from '../../http/message/reply.ts'
import { appendVia } from '../../http/message/via.ts'
import type { IncomingContent } from '../fetch/fetch-outcome.ts'
import { longestWait } from '../fetch/late-heads.ts'
import type { Rules } from '../policy/policy.ts'
import { factsByParent } from '../request/destination.ts'
import { currentAge } from '../rfc9111/lookup.ts'
import type { MissReason, OutcomeFacts } from '../rfc9111/outcome.ts'
import { keptFields } from '../rfc9111/stored-response.ts'
import { answerOf } from './errors.ts'
import {
  type AllowedRequest,
  baseFields,
  cacheName,
  givenValidators,
  type Representation,
  verifiedWord,
} from './representation.ts'

/** The representation of content that is arriving from the origin or another node. Several requests can share one download. */
export function arrivingRepresentation(
  { draft, length, download, verified, from }: IncomingContent,
  because: MissReason,
  { file, now, via }: Pick<AllowedRequest, 'file' | 'now' | 'via'>,
): Representation {
  const notStored = download.because
  const why = because === 'joined' ? because : (from.near ?? because)
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: because === 'changed' || because === 'superseded' ? 'stale' : 'uri-miss',
    forwardStatus: 200,
    stored: download.stored,
    collapsed: because === 'joined',
    detail: why,
    verified: verifiedWord(verified),
    notStored,
  })
  const xCache = notStored === undefined ? 'MISS' : `MISS (not stored: ${notStored})`
  // RFC 9111 section 5.1: content from another cache can be old already.
  const age = draft.initialAge > 0 ? ['Age', String(currentAge(draft, now))] : []
  const made = [...age, 'X-Cache', xCache, 'Cache-Status', cacheStatus, 'Via', via]
  const facts = {
    outcome: 'miss',
    because: why,
    notStored,
    ...factsByParent(file.about, from.response.parent),
  } satisfies OutcomeFacts
  // The disk can fail after the head was sent. The log is written at the end, so its facts can still say so.
  download.file.whenStopped(reason => {
    facts.notStored = reason
  })
  return {
    size: length,
    validators: givenValidators(draft, now),
    fields: baseFields(draft).followedBy(made),
    facts,
    open: (first, last) =>
      download.canJoin(first)
        ? {
            kind: 'stream',
            length: length === undefined ? undefined : (last ?? length - 1) - first + 1,
            open: () => download.open(first, last),
          }
        : undefined,
  }
}

/** The answer with a range that lies so far ahead of the transfer that an origin is asked for it. It is neither stored nor compared. */
export function aheadResponse(joined: Response): Response {
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: 'partial',
    detail: 'range-ahead' satisfies MissReason,
  })
  const fields = joined.fields
    .with('X-Cache', 'MISS (not stored: range-ahead)')
    .with('Cache-Status', cacheStatus)
  return { ...joined, fields, facts: { ...joined.facts, because: 'range-ahead' } }
}

/** The answer to HEAD with the fields and the length of the origin's head. */
export function originHead(
  { request, file, now, via }: AllowedRequest,
  response: { readonly fields: Fields; readonly parent?: string | undefined },
): Response {
  const age = ageOf(response.fields)
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: 'method',
    detail: 'head',
  })
  const fields = Fields.of(
    ...keptFields(response.fields),
    ['Age', age > 0 ? String(age) : undefined],
    ['X-Cache', 'MISS'],
    ['Cache-Status', cacheStatus],
    ['Via', via],
  )
  const validators = validatorsOf(response.fields, now)
  const status = statusByPreconditions(request, { validators, role: 'cache' }, now)
  return {
    status,
    fields,
    content: noContent,
    facts: { outcome: 'miss', because: 'head', ...factsByParent(file.about, response.parent) },
    ...announcedLengthOf(status === 200 ? response.fields : Fields.empty),
  }
}

interface PassParts {
  readonly origin: OriginClient
  readonly pseudonym: string
  readonly rules: () => Rules
  readonly onFetched: (bytes: number) => void
}

/**
 * Passes the request through, and streams the origin's response. The origin may take as long as the client waits, within the limit for
 * the longest head. Throws the failures of the origin client.
 */
export async function passedResponse(
  allowed: AllowedRequest,
  because: MissReason,
  { origin, pseudonym, rules, onFetched }: PassParts,
): Promise<Response> {
  const { request, file, trusted } = allowed
  const { connection } = request
  const { via, timeouts } = rules().config
  const response = await origin.request({
    method: request.method,
    uri: file.uri,
    fields: forwardedFields(allowed, via ? pseudonym : undefined),
    within: request.lifetime,
    trusted,
    line: 'passed',
    // The connection to the origin belongs to the client's connection. There is no identity, because a proxy can send requests of several
    // users over one connection.
    owner: connection && { connection, identity: undefined },
    deadlines: { fields: longestWait(timeouts) },
  })
  const { status, length } = response
  const about = factsByParent(file.about, response.parent)
  const facts = { outcome: 'miss', because, ...about }
  // apt does not try again after a 5xx without a text, nor after 507. After another 5xx with a text it does.
  if (status === 507 || (status >= 500 && length === 0)) {
    response.content.close()
    const sentence = answerOf(about, status)
    return textResponse(status === 507 ? 503 : status, sentence, { facts })
  }
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: 'bypass',
    forwardStatus: status,
    detail: because,
  })
  const fields = appendVia(
    endToEndFields(response.fields).without('Content-Length'),
    '1.1',
    pseudonym,
  )
    .with('X-Cache', 'MISS')
    .plus('Cache-Status', cacheStatus)
  if (request.method === 'HEAD' || status === 304) {
    response.content.close()
    const announcement = request.method === 'HEAD' ? announcedLengthOf(response.fields) : {}
    return { status, fields, content: noContent, facts, ...announcement }
  }
  let bytes = 0
  const open = () =>
    tappedSource(response.content, {
      onPiece: length => {
        bytes += length
      },
      onOver: () => onFetched(bytes),
    })
  const content: Content = { kind: 'stream', length, open }
  return { status, fields, content, facts }
}

/** The client's end-to-end fields. Credentials in the URI become the field Authorization (RFC 3986 section 3.2.1). */
function forwardedFields(
  { request, file: { uri, credentials, underOurAddress } }: AllowedRequest,
  pseudonym: string | undefined,
): Fields {
  // With a URL prefix, a cookie of the client belongs to the site of this proxy: archives can set none there (`sandboxedResponse`).
  const cookie = credentials && !underOurAddress ? [] : ['Cookie']
  const withhold = credentials ? cookie : ['Authorization', ...cookie]
  const passing = endToEndFields(request.fields).without('Host', 'Content-Length', ...withhold)
  const fields =
    pseudonym === undefined
      ? passing.without('Via')
      : appendVia(passing, request.version, pseudonym)
  if (uri.userinfo === undefined || fields.has('Authorization')) return fields
  return fields.plus('Authorization', `Basic ${basic(uri.userinfo)}`)
}

function basic(userinfo: string): string {
  // Text that is not percent-encoded is used unchanged.
  const text = attempt(() => decodeURIComponent(userinfo)) ?? userinfo
  return Buffer.from(text.includes(':') ? text : `${text}:`).toString('base64')
}
