/**
 * Decides the answer for a stored file once the origin has been asked about it. The client waits for the origin no longer than the
 * configured time. After that, and when the origin fails, it gets the stored copy, and the answer says so. A refusal of the origin, or
 * its statement that the file is gone, counts. A failure (5xx, 402, 408, 429, an unusable answer) does not. `GoneFiles` decides whether an
 * origin that says a stored file is gone is broken.
 */

import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Fields } from '../../http/message/field.ts'
import type { Logger } from '../../log/log.ts'
import type { DelayReason, StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import { fetchFailure } from './failures.ts'
import type { FetchOutcome, FetchUnderWay, IncomingContent, OriginAnswer } from './fetch-outcome.ts'
import { type Answer, originName, refusesAll } from './mirrors.ts'
import { type Ask, askForHead, isRedirect } from './origin-question.ts'
import { isOldVersion, type WantedFile } from './wanted-file.ts'

/** The answer for a stored file after the origin was asked about it, when no content is arriving. */
export type RevalidationResult =
  | {
      readonly use: 'store'
      readonly because: 'validated' | 'changed' | DelayReason
      readonly entry: Entry
    }
  | { readonly use: 'stale'; readonly because: StaleReason }
  /** The content has arrived but was not stored, so it must be fetched once more. */
  | { readonly use: 'again' }
  | ({ readonly use: 'answer' } & Omit<OriginAnswer, 'kind'>)

type Revalidated =
  | RevalidationResult
  | { readonly use: 'filling'; readonly filling: IncomingContent }

/** Decides the answer for `stored` by the fetch that asks the origin about it. Never rejects. */
export async function revalidate(
  stored: Entry,
  fetching: FetchUnderWay,
  { clock, wait }: { readonly clock: Clock; readonly wait: Milliseconds },
): Promise<Revalidated> {
  const end = clock.elapsed() + wait
  const found = await resultInTime(fetching.found, clock, wait)
  if (found === undefined) return { use: 'stale', because: 'stale-origin-slow' }
  if (found.kind !== 'filling') return unchangedResult(found)
  // A 200 of an origin without validators may have the same bytes as before, so the decision waits for its end.
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

/** The answer when the origin was asked and sent no content. */
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
 * Whether a status other than 200 answers a plain GET for the whole file. Client errors do, except those about proxies, conditions and
 * ranges, which do not fit this request. Redirects with a Location do, because the client follows them. Any other status, such as 206 or
 * a redirect without a Location, is a failure of the origin.
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
  return !isAnswer(found) || refusesAll(status) || isOfParent(status, parent)
}

/**
 * Whether a status counts as the parent proxy's own answer, which refuses hosts, most often with 403. A parent that wants credentials
 * answers 407, so 401 comes from the origin, and so does the statement that there is no such file.
 */
export function isOfParent(status: number, parent: string | undefined): boolean {
  return parent !== undefined && status >= 400 && status < 500 && status !== 401 && !isGone(status)
}

/** Whether a status says that the origin has no such file. */
export function isGone(status: number): boolean {
  return status === 404 || status === 410
}

/*
 * # Facts
 * - One name can have several servers, one of which is broken or being updated. The next connection may reach another. So an origin is
 *   asked once more, over a new connection, before a 404 for a stored file counts.
 * - An old version of a package stays in the store whether its origin still has it or not, so one 404 is enough.
 * - A suite has an InRelease, or a Release with its signature. An archive that drops one of them still has the other. An origin that had
 *   one and now has neither is more likely broken than without the suite. So that counts only after `suites.gone_after`.
 */

export interface GoneFilesParts {
  readonly clock: Clock
  readonly log: Logger
  readonly ask: Ask
  /** The time after which an origin without a Release file of a suite is believed. */
  readonly goneAfter: () => Milliseconds
  readonly releases: GoneReleases
}

/** The Release files that origins no longer have. */
export interface GoneReleases {
  /** Notes that the origin has no Release file under this key. Returns since when, by `elapsed`; undefined when it had one until now. */
  noteGone(key: string): Milliseconds | undefined
  /** Notes that the origin does not say so of the Release file with this key. */
  noteThere(key: string): void
}

/** For each Release file, the one that an archive without it still has. */
const others: ReadonlyMap<string, string> = new Map([
  ['InRelease', 'Release'],
  ['Release', 'InRelease'],
  ['Release.gpg', 'Release'],
])

export class GoneFiles {
  readonly #parts: GoneFilesParts

  constructor(parts: GoneFilesParts) {
    this.#parts = parts
  }

  /** Asks the origin. It asks once more when the answer says that a stored file is gone. */
  async ask(wanted: WantedFile, question: Parameters<Ask>[0]): Promise<Answer> {
    const first = await this.#parts.ask(question)
    const { stored } = wanted
    if (stored === undefined) return first
    if (!isGone(first.response.status)) {
      if (wanted.archive.kind === 'release') this.#parts.releases.noteThere(stored.key)
      return first
    }
    if (isOldVersion(wanted)) return first
    first.response.content.close()
    return this.#parts.ask({ ...question, fresh: true })
  }

  /** Throws a Failure when the origin is more likely broken than without the stored file. */
  async believe({ stored, uri, archive, via }: WantedFile, lifetime: Lifetime): Promise<void> {
    if (stored === undefined || archive.kind !== 'release') return
    const { clock, log, ask, goneAfter, releases } = this.#parts
    const end = uri.path.lastIndexOf('/') + 1
    const other = others.get(uri.path.slice(end))
    if (other === undefined) return
    const place = { ...uri, path: `${uri.path.slice(0, end)}${other}` }
    const { response } = await askForHead(ask, { uri: place, stored: undefined, lifetime, via })
    response.content.close()
    if (response.status < 400) return
    const since = releases.noteGone(stored.key)
    const longestFault = goneAfter()
    if (since === undefined ? longestFault <= 0 : clock.elapsed() - since >= longestFault) return
    if (since === undefined) {
      log.warn('the origin no longer has a Release file of a suite; the stored one is kept', {
        key: stored.key,
        minutes: Math.ceil(longestFault / 60_000),
      })
    }
    throw fetchFailure('ORIGIN_WITHOUT_SUITE', { origin: originName(uri) })
  }
}
