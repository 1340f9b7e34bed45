/**
 * The answers that carry a file, each saying why: the fields Age, Cache-Status (RFC 9211), X-Cache and Via, and the facts for
 * the log.
 */
import { sourceOf } from '../../bytes/source.ts'
import { ageOf } from '../../http/message/cache-control.ts'
import { type CacheStatus, formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import { type Content, noContent, type Request, type Response } from '../../http/message/message.ts'
import { evaluatePreconditions } from '../../http/message/precondition.ts'
import { announced } from '../../http/message/reply.ts'
import type { Validators } from '../../http/message/validator.ts'
import { validatorsOf } from '../../http/message/validator.ts'
import type { Filling } from '../fetch/fetch.ts'
import { currentAge } from '../rfc9111/freshness.ts'
import { type HitReason, type MissReason, verdictFacts } from '../rfc9111/outcome.ts'
import { keptFields } from '../rfc9111/stored-response.ts'
import type { Entry } from '../store/entry.ts'
import { serve } from './serve.ts'

/** What every answer about one target has in common. */
export interface About {
  readonly key: string
  readonly kind: string
  readonly origin: string
}

export interface AnswerTools {
  readonly now: number
  readonly boundary: () => string
  /** Our Via member, such as `1.1 cachesvc`. */
  readonly via: string
}

/** The name we go by in Cache-Status. */
export const cacheName = 'cachesvc'

/** An entry and the way to its bytes. */
export interface Stored {
  readonly entry: Entry
  /** Undefined: the bytes are gone. */
  readonly content: (
    first: number,
    last: number,
  ) => Content | undefined | Promise<Content | undefined>
}

/** From the store, with or without asking the origin first. */
export function hit(
  request: Request,
  stored: Stored,
  because: HitReason,
  about: About,
  tools: AnswerTools,
): Promise<Response | undefined> {
  const history = { outcome: 'hit', because, cache: 'HIT', status: hitStatus[because] } as const
  return fromStore(request, stored, history, about, tools)
}

/** From the store, where the content has just arrived for this request. */
export function fetched(
  request: Request,
  stored: Stored,
  about: About,
  tools: AnswerTools,
): Promise<Response | undefined> {
  const history = {
    outcome: 'miss',
    because: 'changed',
    cache: 'MISS',
    status: changedStatus,
  } as const
  return fromStore(request, stored, history, about, tools)
}

interface History {
  readonly outcome: 'hit' | 'miss'
  readonly because: HitReason | MissReason
  readonly cache: 'HIT' | 'MISS'
  readonly status: string
}

function fromStore(
  request: Request,
  stored: Stored,
  history: History,
  about: About,
  tools: AnswerTools,
): Promise<Response | undefined> {
  const { entry } = stored
  const prepared = preparedFor(entry)
  const age = ['Age', String(currentAge(entry, tools.now))]
  return serve(
    request,
    {
      size: entry.size,
      validators: prepared.validators,
      fields: prepared.fields(history, tools.via).followedBy(age),
      content: (first, last) => stored.content(first, last ?? entry.size - 1),
    },
    {
      now: tools.now,
      boundary: tools.boundary,
      added: () => Fields.fromFlat([...told(history, tools.via), ...age]),
      facts: verdictFacts({ outcome: history.outcome, because: history.because, ...about }),
    },
  )
}

/** From content that is arriving. */
export function miss(
  request: Request,
  filling: Filling,
  because: MissReason,
  about: About,
  tools: AnswerTools,
): Promise<Response | undefined> {
  const { draft, length, download } = filling
  const status: CacheStatus = {
    hit: false,
    forward: because === 'changed' ? 'stale' : 'uri-miss',
    forwardStatus: 200,
    stored: download.stored,
    collapsed: because === 'joined',
    detail: because,
  }
  const added = Fields.of(
    // 5.1: what comes from another cache on the way is not new.
    ['Age', draft.initialAge > 0 ? String(currentAge(draft, tools.now)) : undefined],
    ['X-Cache', 'MISS'],
    ['Cache-Status', formatCacheStatus(cacheName, status)],
    ['Via', tools.via],
  )
  return serve(
    request,
    {
      size: length,
      validators: validatorsGiven(draft, tools.now),
      fields: baseFields(draft).followedBy(added.flat),
      content: async (first, last) =>
        download.canJoin(first)
          ? {
              kind: 'stream',
              length: length === undefined ? undefined : (last ?? length - 1) - first + 1,
              open: () => sourceOf(signal => download.open(first, last, signal)),
            }
          : undefined,
    },
    {
      now: tools.now,
      boundary: tools.boundary,
      added: () => added,
      facts: verdictFacts({ outcome: 'miss', because, ...about }),
    },
  )
}

/** HEAD answered by the origin's head: its fields and its length. */
export function headOnly(
  request: Request,
  response: { fields: Fields },
  about: About,
  tools: AnswerTools,
): Response {
  const status = formatCacheStatus(cacheName, { hit: false, forward: 'method', detail: 'head' })
  const fields = Fields.of(
    ...keptFields(response.fields),
    ['Age', ageOf(response.fields) > 0 ? String(ageOf(response.fields)) : undefined],
    ['X-Cache', 'MISS'],
    ['Cache-Status', status],
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
    facts: verdictFacts({ outcome: 'miss', because: 'head', ...about }),
    ...announced(outcome.proceed ? response.fields : Fields.empty),
  }
}

const hitStatus: Readonly<Record<HitReason, string>> = {
  immutable: formatCacheStatus(cacheName, { hit: true, detail: 'immutable' }),
  fresh: formatCacheStatus(cacheName, { hit: true, detail: 'fresh' }),
  'validated-just-now': formatCacheStatus(cacheName, { hit: true, detail: 'validated-just-now' }),
  validated: formatCacheStatus(cacheName, { hit: false, forward: 'stale', detail: 'validated' }),
  'max-stale': formatCacheStatus(cacheName, { hit: true, detail: 'max-stale' }),
  'stale-origin-failed': formatCacheStatus(cacheName, {
    hit: false,
    forward: 'stale',
    detail: 'stale-origin-failed',
  }),
  'stale-origin-slow': formatCacheStatus(cacheName, {
    hit: false,
    forward: 'stale',
    detail: 'stale-origin-slow',
  }),
}

const changedStatus = formatCacheStatus(cacheName, {
  hit: false,
  forward: 'stale',
  forwardStatus: 200,
  stored: true,
  detail: 'changed',
})

/** What never changes about an entry is worked out once: hits are many. */
class Prepared {
  readonly validators: Validators
  readonly #base: Fields
  /** By status: seldom more than one, never more than there are reasons. */
  readonly #told = new Map<string, Fields>()

  constructor(entry: Entry) {
    this.validators = validatorsGiven(entry, entry.validated)
    this.#base = baseFields(entry)
  }

  /** All fields of the answer but Age. `via` is the same for every answer of a service. */
  fields(history: History, via: string): Fields {
    const known = this.#told.get(history.status)
    if (known !== undefined) return known
    const made = this.#base.followedBy(told(history, via))
    this.#told.set(history.status, made)
    return made
  }
}

const allPrepared = new WeakMap<Entry, Prepared>()

function preparedFor(entry: Entry): Prepared {
  const known = allPrepared.get(entry)
  if (known !== undefined) return known
  const made = new Prepared(entry)
  allPrepared.set(entry, made)
  return made
}

/** What became of the request, as fields. */
function told({ cache, status }: History, via: string): readonly string[] {
  return ['X-Cache', cache, 'Cache-Status', status, 'Via', via]
}

function baseFields(of: Pick<Entry, 'fields' | 'lastModified'>): Fields {
  return Fields.of(...of.fields)
    .without('Last-Modified')
    .plus('Last-Modified', of.lastModified)
    .plus('Accept-Ranges', 'bytes')
}

/**
 * The validators clients were given. We vouch for our Last-Modified: it is tied to one digest, so it counts as strong whatever
 * Date came with it.
 */
function validatorsGiven(of: Pick<Entry, 'fields' | 'lastModified'>, now: number): Validators {
  const { etag, lastModified } = validatorsOf(
    Fields.of(...of.fields).with('Last-Modified', of.lastModified),
    now,
  )
  return { etag, lastModified }
}
