/**
 * The replay cache of IDs that must not be used again: of requests, assertions and logout messages.
 *
 * Bounded, in memory, and kept in a small file across restarts: a captured answer must not sign in a second time because the
 * service was updated in between. Each ID is kept, as a hash, until the checks of times refuse its message anyway. Several
 * processes can put a store of their own behind the same interface.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Logger } from '../../log/log.ts'
import { LapsingMarks } from '../keys/lapsing-marks.ts'

/** Where used IDs are kept. */
export interface UsedIds {
  /**
   * Uses all of `ids` up, or none when one of them has been used before; in one step, so that of several requests at the same
   * time only one succeeds. False also when that cannot be known: a login is refused rather than taken twice. Settles when the IDs
   * are on disk, or cannot be, which the log tells. Never throws.
   */
  consume(ids: readonly string[], until: Milliseconds): Promise<boolean>
  /** Settles when nothing is being read or written any more. */
  close(): Promise<void>
}

/** An ID costs some 200 bytes. Only verified messages get this far, so strangers cannot fill it. */
const MOST = 100_000
/** Bytes, twice what the most IDs take, and as many that have lapsed. */
const LARGEST = 16 * 1024 * 1024

/** Reads the file if there is one, and watches it. One that cannot be read is told, and written anew. */
export async function openReplayCache(options: {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
}): Promise<UsedIds> {
  const { path, clock, log } = options
  const used = new LapsingMarks({
    path,
    clock,
    largest: LARGEST,
    legacy: ({ used }) => {
      if (!Array.isArray(used) || !used.every(isUsed)) throw new Error('it is of another form')
      return used.map(([mark, until]) => [mark, { until, before: 0 }] as const)
    },
    failed: (error, doing) =>
      log.error(
        doing === 'write'
          ? 'used IDs could not be kept: after a restart a captured answer could be used again'
          : 'the file of used IDs was changed and cannot be read; ours is written',
        { path, error },
      ),
  })
  const sweep = (now: Milliseconds) => {
    for (const [mark, { until }] of used) if (until <= now) used.remove(mark)
  }
  await used.load().catch(error => {
    log.error('the file of used IDs cannot be read: what it held is forgotten', { path, error })
  })
  used.watch()
  return {
    async consume(ids, until) {
      const now = clock.now()
      const marks = ids.map(id => createHash('sha256').update(id).digest('base64url').slice(0, 22))
      // No wait between the question and the answer, or two requests could ask before either has taken.
      if (marks.some(mark => (used.get(mark)?.until ?? Number.NEGATIVE_INFINITY) > now))
        return false
      if (used.size + marks.length > MOST) sweep(now)
      if (used.size + marks.length > MOST) return false
      for (const mark of marks) used.set(mark, { until, before: 0 })
      await used.save()
      return true
    },
    close: () => used.close(),
  }
}

function isUsed(found: unknown): found is readonly [string, Milliseconds] {
  const [mark, until]: readonly unknown[] = Array.isArray(found) ? found : []
  return typeof mark === 'string' && Number.isFinite(until)
}
