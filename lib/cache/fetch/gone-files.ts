/**
 * Decides whether a stored file is gone when its origin says so, or whether the origin is broken.
 *
 * # Facts
 * - Behind one name there can be several servers, of which one is broken or being updated: the next connection may reach another. So
 *   an origin is asked once more, over a new connection, before a 404 for a stored file counts.
 * - An old version of a package stays in the store whether its origin still has it or not: one 404 is enough for that.
 * - A suite has an InRelease, or a Release with its signature. An archive that drops one of them still has the other. An origin
 *   that has neither, although it had one, is likelier broken than without the suite: that counts when it has lasted for a while.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { Logger } from '../../log/log.ts'
import { fetchFailure } from './failures.ts'
import { isOldVersion, type WantedFile } from './found.ts'
import { type Answer, type Ask, askForHead, originName } from './origin-question.ts'
import { isGone } from './revalidation.ts'

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
