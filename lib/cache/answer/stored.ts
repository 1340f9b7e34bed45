/**
 * Makes representations of stored files. The response fields of an entry are made once and kept, because hits are frequent.
 */
import { formatCacheStatus } from '../../http/message/cache-status.ts'
import { Fields } from '../../http/message/field.ts'
import { type Validators, validatorsOf } from '../../http/message/validator.ts'
import { currentAge } from '../rfc9111/freshness.ts'
import type { StoreReason } from '../rfc9111/lookup.ts'
import type { HitReason } from '../rfc9111/outcome.ts'
import type { Entry, Verified } from '../store/entry.ts'
import { type About, type AnswerTools, cacheName, type Representation } from './representation.ts'

/** Why a stored file is the answer: a hit, or the content has just arrived for this request. */
export type StoredReason = HitReason | 'changed'

/** The entry as it is answered now, `because`. */
export function storedRepresentation(
  entry: Entry,
  because: StoredReason,
  about: About,
  tools: AnswerTools,
  open: Representation['open'],
): Representation {
  const answers = answersOf(entry)
  const age = ['Age', String(currentAge(entry, tools.now))]
  return {
    size: entry.size,
    validators: answers.validators,
    fields: answers.fields(because, tools.via).followedBy(age),
    told: () => Fields.fromFlat([...told(entry, because, tools.via), ...age]),
    facts: { outcome: because === 'changed' ? 'miss' : 'hit', because, ...about },
    open,
  }
}

/** What never changes about the answers from one entry. */
class StoredAnswers {
  readonly validators: Validators
  readonly #entry: Entry
  readonly #base: Fields
  /** By reason. */
  readonly #fields = new Map<StoredReason, Fields>()

  constructor(entry: Entry) {
    this.validators = validatorsGiven(entry, entry.validated)
    this.#entry = entry
    this.#base = baseFields(entry)
  }

  /** All fields of the answer but Age. `via` is the same for every answer of a service. */
  fields(because: StoredReason, via: string): Fields {
    const known = this.#fields.get(because)
    if (known !== undefined) return known
    const made = this.#base.followedBy(told(this.#entry, because, via))
    this.#fields.set(because, made)
    return made
  }
}

const allAnswers = new WeakMap<Entry, StoredAnswers>()

function answersOf(entry: Entry): StoredAnswers {
  const known = allAnswers.get(entry)
  if (known !== undefined) return known
  const made = new StoredAnswers(entry)
  allAnswers.set(entry, made)
  return made
}

/** The fields that say where the response came from. */
function told(entry: Entry, because: StoredReason, via: string): readonly string[] {
  const cache = because === 'changed' ? 'MISS' : 'HIT'
  return ['X-Cache', cache, 'Cache-Status', cacheStatus(entry, because), 'Via', via]
}

function cacheStatus({ verified }: Entry, because: StoredReason): string {
  const remarks = { detail: because, verified: verifiedWord(verified) }
  if (withoutQuestion.has(because)) return formatCacheStatus(cacheName, { hit: true, ...remarks })
  const changed = because === 'changed' && { forwardStatus: 200, stored: true }
  return formatCacheStatus(cacheName, { hit: false, forward: 'stale', ...changed, ...remarks })
}

/** Reasons for which the origin was not asked. */
const withoutQuestion: ReadonlySet<StoredReason> = new Set<StoreReason>([
  'immutable',
  'fresh',
  'validated-just-now',
  'max-stale',
  'offline',
  'as-released',
])

/** By what content was verified, in one word for Cache-Status. */
export function verifiedWord(verified: Verified | undefined): string | undefined {
  return verified?.signer === undefined ? verified?.by : 'signature'
}

/** The fields of a file, stored or arriving, without those that say where the response came from. */
export function baseFields(of: Pick<Entry, 'fields' | 'lastModified'>): Fields {
  return Fields.of(...of.fields)
    .without('Last-Modified')
    .plus('Last-Modified', of.lastModified)
    .plus('Accept-Ranges', 'bytes')
}

/**
 * The validators clients were given. Our Last-Modified is tied to one digest, so it counts as strong whatever Date came with it.
 */
export function validatorsGiven(
  of: Pick<Entry, 'fields' | 'lastModified'>,
  now: number,
): Validators {
  const given = Fields.of(...of.fields).with('Last-Modified', of.lastModified)
  const { etag, lastModified } = validatorsOf(given, now)
  return { etag, lastModified }
}
