/**
 * The answers of the proxy path, each saying why: the fields Age, Cache-Status (RFC 9211), X-Cache and Via, and the facts for
 * the log. What apt makes of each status decided which one is used where: an outage is 503 with a text (apt keeps its lists
 * and tries again), a refusal is 403 with a sentence that names the setting, an origin's 404 stays a 404 (apt then looks for
 * the next compression), and nothing is ever 507, which apt takes as final.
 */
import type { Failure } from '../errors.ts'
import { type CacheStatus, formatCacheStatus } from '../http/cache-status.ts'
import { Fields } from '../http/field.ts'
import type { Content, Request, Response } from '../http/message.ts'
import { textResponse, withoutContent } from '../http/reply.ts'
import type { Validators } from '../http/validator.ts'
import { validatorsOf } from '../http/validator.ts'
import type { Filling } from './fetch.ts'
import { currentAge } from './freshness.ts'
import { serve } from './serve.ts'
import type { Entry } from './store/entry.ts'
import type { HitReason, MissReason, Verdict } from './verdict.ts'

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
const cacheName = 'cachesvc'

/** An entry and the way to its bytes. */
export interface Stored {
  readonly entry: Entry
  /** Undefined: the bytes are gone. */
  readonly content: (first: number, last: number) => Promise<Content | undefined>
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
  const added = [
    'Age',
    String(currentAge(entry, tools.now)),
    'X-Cache',
    history.cache,
    'Cache-Status',
    history.status,
    'Via',
    tools.via,
  ]
  return serve(
    request,
    {
      size: entry.size,
      validators: prepared.validators,
      fields: prepared.fields,
      content: (first, last) => stored.content(first, last ?? entry.size - 1),
    },
    {
      now: tools.now,
      boundary: tools.boundary,
      added: Fields.fromFlat(added),
      facts: facts({ outcome: history.outcome, because: history.because, ...about }),
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
  return serve(
    request,
    {
      size: length,
      validators: validatorsGiven(draft, tools.now),
      fields: baseFields(draft),
      content: async (first, last) =>
        download.canJoin(first)
          ? {
              kind: 'stream',
              length: length === undefined ? undefined : (last ?? length - 1) - first + 1,
              open: signal => download.open(first, last, signal),
            }
          : undefined,
    },
    {
      now: tools.now,
      boundary: tools.boundary,
      added: Fields.of(
        ['X-Cache', 'MISS'],
        ['Cache-Status', formatCacheStatus(cacheName, status)],
        ['Via', tools.via],
      ),
      facts: facts({ outcome: 'miss', because, ...about }),
    },
  )
}

/** The origin's own word when it is not content: its status, and a sentence instead of its page. */
export function originSaid(
  request: Request,
  said: { status: number; fields: Fields; because: MissReason },
  about: About,
): Response {
  const status = said.status >= 500 ? 503 : said.status
  const sentence =
    said.because === 'not-found-remembered'
      ? `The origin ${about.origin} answered ${said.status} a moment ago.`
      : `The origin ${about.origin} answered ${said.status}.`
  const cacheStatus = formatCacheStatus(cacheName, {
    hit: false,
    forward: 'uri-miss',
    forwardStatus: said.status,
    detail: said.because,
  })
  return forMethod(
    request,
    textResponse(status, sentence, {
      fields: Fields.of(
        ['WWW-Authenticate', said.fields.get('WWW-Authenticate')],
        ['Retry-After', retryAfter(said.fields)],
        ['X-Cache', 'MISS'],
        ['Cache-Status', cacheStatus],
      ),
      facts: facts({ outcome: 'failed', because: `origin-${said.status}`, ...about }),
    }),
  )
}

/** The origin could not be asked, and there is nothing stored to give instead. */
export function unavailable(request: Request, failure: Failure, about: About): Response {
  return forMethod(
    request,
    textResponse(503, `${failure.publicText} (${about.origin}, ${failure.code})`, {
      fields: Fields.of(
        ['X-Cache', 'MISS'],
        [
          'Cache-Status',
          formatCacheStatus(cacheName, { hit: false, forward: 'uri-miss', detail: failure.code }),
        ],
      ),
      facts: facts({ outcome: 'failed', because: failure.code, ...about }),
    }),
  )
}

/** 504 to only-if-cached (RFC 9111 section 5.2.1.7). */
export function notStored(request: Request, about: About): Response {
  return forMethod(
    request,
    textResponse(504, 'The file is not stored here and the request forbids to fetch it.', {
      facts: facts({ outcome: 'failed', because: 'only-if-cached', ...about }),
    }),
  )
}

/** A refusal by policy: 403 and the sentence that names the rule. */
export function refused(request: Request, rule: string, sentence: string): Response {
  return forMethod(
    request,
    textResponse(403, sentence, { facts: facts({ outcome: 'refused', because: rule }) }),
  )
}

function forMethod(request: Request, response: Response): Response {
  return request.method === 'HEAD' ? withoutContent(response) : response
}

function facts(verdict: Verdict): Response['facts'] {
  return { ...verdict }
}

/** apt refuses the whole head when Retry-After is neither a date nor at most four digits. */
function retryAfter(fields: Fields): string | undefined {
  const value = fields.get('Retry-After')
  return value !== undefined && /^\d{1,4}$/.test(value) ? value : undefined
}

const hitStatus: Readonly<Record<HitReason, string>> = {
  immutable: formatCacheStatus(cacheName, { hit: true, detail: 'immutable' }),
  fresh: formatCacheStatus(cacheName, { hit: true, detail: 'fresh' }),
  'validated-just-now': formatCacheStatus(cacheName, { hit: true, detail: 'validated-just-now' }),
  validated: formatCacheStatus(cacheName, { hit: false, forward: 'stale', detail: 'validated' }),
  'stale-allowed': formatCacheStatus(cacheName, { hit: true, detail: 'stale-allowed' }),
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

interface Prepared {
  readonly fields: Fields
  readonly validators: Validators
}

/** What never changes about an entry is worked out once: hits are many. */
const prepared = new WeakMap<Entry, Prepared>()

function preparedFor(entry: Entry): Prepared {
  const known = prepared.get(entry)
  if (known !== undefined) return known
  const made = { fields: baseFields(entry), validators: validatorsGiven(entry, entry.validated) }
  prepared.set(entry, made)
  return made
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
