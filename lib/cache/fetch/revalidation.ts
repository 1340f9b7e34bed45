/**
 * Decides what to answer for a stored file once the origin has been asked about it. The client waits for the origin no longer
 * than the configured time. Then, and when the origin fails, it gets the stored copy, and the answer says so. An origin that
 * says the file is gone, or refuses it, is believed; one that fails (5xx, 408, 429, nonsense) is not. Decides whether a stored file
 * is gone when its origin says so, or whether the origin is broken (`GoneFiles`).
 */

import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Logger } from '../../log/log.ts'
import type { DelayReason, StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import { fetchFailure } from './failures.ts'
import {
  type FetchOutcome,
  type FetchUnderWay,
  type IncomingContent,
  isOldVersion,
  type OriginAnswer,
  type WantedFile,
} from './found.ts'
import { type Answer, type Ask, askForHead, isRedirect, originName } from './origin-question.ts'

/** What a client gets of a stored file that the origin was asked about, when nothing is arriving. */
export type RevalidationResult =
  | {
      readonly use: 'store'
      readonly because: 'validated' | 'changed' | DelayReason
      readonly entry: Entry
    }
  | { readonly use: 'stale'; readonly because: StaleReason }
  /** The content came and was not stored; it must be fetched once more. */
  | { readonly use: 'again' }
  | ({ readonly use: 'answer' } & Omit<OriginAnswer, 'kind'>)

type Revalidated =
  | RevalidationResult
  | { readonly use: 'filling'; readonly filling: IncomingContent }

/** What to answer for `stored`, given the fetch that asks the origin about it. Never rejects. */
export async function revalidate(
  stored: Entry,
  fetching: FetchUnderWay,
  { clock, wait }: { readonly clock: Clock; readonly wait: Milliseconds },
): Promise<Revalidated> {
  const end = clock.elapsed() + wait
  const found = await resultInTime(fetching.found, clock, wait)
  if (found === undefined) return { use: 'stale', because: 'stale-origin-slow' }
  if (found.kind !== 'filling') return unchangedResult(found)
  // From an origin without validators a 200 may be the same bytes again, which the client may have: wait and see.
  const { filling } = found
  if (filling.changed || !filling.download.stored) return { use: 'filling', filling }
  const settled = await resultInTime(filling.settled, clock, end - clock.elapsed())
  if (settled === undefined) return { use: 'filling', filling }
  if (settled.kind === 'failed') return { use: 'stale', because: 'stale-origin-failed' }
  if (settled.kind === 'passed') return { use: 'again' }
  const { entry } = settled
  const because = entry.digest === stored.digest ? 'validated' : 'changed'
  return { use: 'store', entry, because }
}

/** What to answer when the origin was asked and no content came. */
export function unchangedResult(
  found: Exclude<FetchOutcome, { kind: 'filling' }>,
): RevalidationResult {
  if (found.kind === 'validated') {
    return { use: 'store', because: 'validated', entry: found.entry }
  }
  if (found.kind === 'answered' && !isOriginFailure(found)) return { ...found, use: 'answer' }
  return { use: 'stale', because: 'stale-origin-failed' }
}

/**
 * Whether a status other than 200 answers a plain GET for the whole file. Client errors do, except those about proxies,
 * conditions and ranges, which do not fit this request, and redirects do that the client is to follow. Any other status, such
 * as 206 or a redirect without a target, is a failure of the origin.
 */
export function isAnswer({ status, fields }: { status: number; fields?: Fields }): boolean {
  if (isRedirect(status)) return fields?.has('Location') === true
  return status >= 400 && status < 500 && ![407, 412, 416, 417].includes(status)
}

/** Whether an answer says that the origin fails, so that a stored copy is the better response. */
export function isOriginFailure(
  found: Pick<OriginAnswer, 'status' | 'fields' | 'parent'>,
): boolean {
  const { status, parent } = found
  return !isAnswer(found) || status === 408 || status === 429 || isOfParent(status, parent)
}

/**
 * Whether a status is taken for the own answer of a parent proxy: it refuses hosts, most often with 403. Its answer to a request without
 * credentials for it is 407, so 401 is of the origin, and so is what says that there is no such file.
 */
export function isOfParent(status: number, parent: string | undefined): boolean {
  return parent !== undefined && status >= 400 && status < 500 && status !== 401 && !isGone(status)
}

/** Whether the origin declares that there is no such file, now and until it says otherwise. */
export function isGone(status: number): boolean {
  return status === 404 || status === 410
}

/*
 * # Facts
 * - Behind one name there can be several servers, of which one is broken or being updated: the next connection may reach another. So
 *   an origin is asked once more, over a new connection, before a 404 for a stored file counts.
 * - An old version of a package stays in the store whether its origin still has it or not: one 404 is enough for that.
 * - A suite has an InRelease, or a Release with its signature. An archive that drops one of them still has the other. An origin
 *   that has neither, although it had one, is likelier broken than without the suite: that counts when it has lasted for a while.
 */

export interface GoneFilesParts {
  readonly clock: Clock
  readonly log: Logger
  readonly ask: Ask
  /** How long an origin has to have had no Release file of a suite before that counts. */
  readonly goneAfter: () => Milliseconds
}

const mostNoted = 1000

/** For each Release file the one that an archive without it still has. */
const others: ReadonlyMap<string, string> = new Map([
  ['InRelease', 'Release'],
  ['Release', 'InRelease'],
  ['Release.gpg', 'Release'],
])

export class GoneFiles {
  readonly #parts: GoneFilesParts
  /** Since when origins have had no Release file of a suite, by `elapsed`, by the keys of files that are stored. */
  readonly #since = new LRUCache<string, Milliseconds>({ max: mostNoted })

  constructor(parts: GoneFilesParts) {
    this.#parts = parts
  }

  /** Asks, and once more when the answer is that a stored file is gone. */
  async ask(wanted: WantedFile, question: Parameters<Ask>[0]): Promise<Answer> {
    const first = await this.#parts.ask(question)
    const { stored } = wanted
    if (stored === undefined) return first
    if (!isGone(first.response.status)) {
      this.#since.delete(stored.key)
      return first
    }
    if (isOldVersion(wanted)) return first
    first.response.content.close()
    return this.#parts.ask({ ...question, fresh: true })
  }

  /** Throws when the origin is likelier broken than without the stored file. */
  async believe({ stored, uri, archive, via }: WantedFile, lifetime: Lifetime): Promise<void> {
    if (stored === undefined || archive.kind !== 'release') return
    const { clock, log, ask, goneAfter } = this.#parts
    const end = uri.path.lastIndexOf('/') + 1
    const other = others.get(uri.path.slice(end))
    if (other === undefined) return
    const place = { ...uri, path: `${uri.path.slice(0, end)}${other}` }
    const { response } = await askForHead(ask, { uri: place, stored: undefined, lifetime, via })
    response.content.close()
    if (response.status < 400) return
    const now = clock.elapsed()
    const since = this.#since.get(stored.key)
    this.#since.set(stored.key, since ?? now)
    const longestFault = goneAfter()
    if (now - (since ?? now) >= longestFault) return
    if (since === undefined) {
      log.warn('the origin has no Release file of a suite any more; the stored one is kept', {
        key: stored.key,
        minutes: Math.ceil(longestFault / 60_000),
      })
    }
    throw fetchFailure('ORIGIN_WITHOUT_SUITE', { origin: originName(uri) })
  }
}
