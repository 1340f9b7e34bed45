/**
 * Makes representations of files that are being fetched, and answers HEAD from the origin's head.
 */
import { ageOf } from '../../http/message/cache-control.ts'
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions } from '../../http/message/precondition.ts'
import { announced } from '../../http/message/reply.ts'
import { validatorsOf } from '../../http/message/validator.ts'
import type { Filling } from '../fetch/found.ts'
import { currentAge } from '../rfc9111/freshness.ts'
import type { MissReason } from '../rfc9111/outcome.ts'
import { keptFields } from '../rfc9111/stored-response.ts'
import { type About, type AnswerTools, cacheName, type Representation } from './representation.ts'
import { baseFields, validatorsGiven, verifiedWord } from './stored.ts'

/** Content that is arriving from the origin, for the request that began it and those that join. */
export function arrivingRepresentation(
  { draft, length, download, verified }: Filling,
  because: MissReason,
  about: About,
  tools: AnswerTools,
): Representation {
  const told = Fields.of(
    // RFC 9111 section 5.1: content from another cache can be old already.
    ['Age', draft.initialAge > 0 ? String(currentAge(draft, tools.now)) : undefined],
    ['X-Cache', 'MISS'],
    [
      'Cache-Status',
      formatCacheStatus(cacheName, {
        hit: false,
        forward: because === 'changed' || because === 'superseded' ? 'stale' : 'uri-miss',
        forwardStatus: 200,
        stored: download.stored,
        collapsed: because === 'joined',
        detail: because,
        verified: verifiedWord(verified),
      }),
    ],
    ['Via', tools.via],
  )
  return {
    size: length,
    validators: validatorsGiven(draft, tools.now),
    fields: baseFields(draft).followedBy(told.flat),
    told: () => told,
    facts: { outcome: 'miss', because, ...about },
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

/** HEAD answered by the origin's head: its fields and its length. */
export function originHead(
  request: Request,
  response: { readonly fields: Fields },
  about: About,
  tools: AnswerTools,
): Response {
  const age = ageOf(response.fields)
  const fields = Fields.of(
    ...keptFields(response.fields),
    ['Age', age > 0 ? String(age) : undefined],
    ['X-Cache', 'MISS'],
    [
      'Cache-Status',
      formatCacheStatus(cacheName, { hit: false, forward: 'method', detail: 'head' }),
    ],
    ['Via', tools.via],
  )
  const outcome = evaluatePreconditions(
    request,
    { validators: validatorsOf(response.fields, tools.now), role: 'cache' },
    tools.now,
  )
  return {
    status: outcome.proceed ? 200 : outcome.status,
    fields,
    content: noContent,
    facts: { outcome: 'miss', because: 'head', ...about },
    ...announced(outcome.proceed ? response.fields : Fields.empty),
  }
}
