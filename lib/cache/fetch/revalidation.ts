/**
 * Decides what to answer for a stored file once the origin has been asked about it. The client waits for the origin no longer
 * than the configured time. Then, and when the origin fails, it gets the stored copy, and the answer says so. An origin that
 * says the file is gone, or refuses it, is believed; one that fails (5xx, 408, 429, nonsense) is not.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { inTime } from '../../async/deadline.ts'
import type { Fields } from '../../http/message/field.ts'
import type { DelayReason, StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { FetchOutcome, FetchUnderWay, IncomingContent, OriginAnswer } from './found.ts'
import { isRedirect } from './origin-question.ts'

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
  const found = await inTime(fetching.found, clock, wait)
  if (found === undefined) return { use: 'stale', because: 'stale-origin-slow' }
  if (found.kind !== 'filling') return unchangedResult(found)
  // From an origin without validators a 200 may be the same bytes again, which the client may have: wait and see.
  const { filling } = found
  if (filling.changed || !filling.download.stored) return { use: 'filling', filling }
  const settled = await inTime(filling.settled, clock, end - clock.elapsed())
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
