/**
 * The replay cache of IDs that must not be used again: of requests, assertions and logout messages.
 *
 * Bounded, in memory, and kept in a small file across restarts: a captured answer must not sign in a second time because the
 * service was updated in between. Each ID is kept, as a hash, until the checks of times refuse its message anyway. Several
 * processes can put a store of their own behind the same interface.
 *
 * # Format of the file, version 1
 *     { "version": 1, "used": [["<hash>", <until, milliseconds since the epoch>], …] }
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { unlessMissing } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isRecord } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { WatchedFile } from '../keys/watched-file.ts'

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
/** Three times what the most IDs take. */
const LARGEST = 16 * 1024 * 1024

/** Reads the file if there is one, and watches it. One that cannot be read is told, and written anew. */
export async function openReplayCache(options: {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
}): Promise<UsedIds> {
  const { path, clock, log } = options
  const used = new Map<string, Milliseconds>()
  const merge = async () => {
    for (const [mark, until] of await readUsed(path)) {
      used.set(mark, Math.max(until, used.get(mark) ?? until))
    }
  }
  const sweep = (now: Milliseconds) => {
    for (const [mark, until] of used) if (until <= now) used.delete(mark)
  }
  const file: WatchedFile = new WatchedFile({
    path,
    clock,
    changed: merge,
    write: async () => {
      // What another process has written since is not to be lost.
      if (await file.look()) await merge().catch(() => undefined)
      sweep(clock.now())
      const text = JSON.stringify({ version: 1, used: [...used] })
      await writeFileAtomically(path, text, { mode: 0o600 })
    },
    failed: error =>
      log.error(
        'used IDs could not be kept: after a restart a captured answer could be used again',
        {
          ...{ path, error },
        },
      ),
  })
  await file.look()
  await merge().catch(error =>
    log.error('the file of used IDs cannot be read: what it held is forgotten', { path, error }),
  )
  file.watch()
  return {
    async consume(ids, until) {
      const now = clock.now()
      const marks = ids.map(id => createHash('sha256').update(id).digest('base64url').slice(0, 22))
      // No wait between the question and the answer, or two requests could ask before either has taken.
      if (marks.some(mark => (used.get(mark) ?? Number.NEGATIVE_INFINITY) > now)) return false
      if (used.size + marks.length > MOST) sweep(now)
      if (used.size + marks.length > MOST) return false
      for (const mark of marks) used.set(mark, until)
      await file.write()
      return true
    },
    close: () => file.close(),
  }
}

/** What the file says; nothing when there is none. Throws when it is not what we write. */
async function readUsed(path: string): Promise<ReadonlyArray<readonly [string, Milliseconds]>> {
  const found = await unlessMissing(readBounded(path, LARGEST))
  if (found === undefined) return []
  const file: unknown = JSON.parse(found.bytes.toString())
  const used = isRecord(file) && file['version'] === 1 ? file['used'] : undefined
  if (!Array.isArray(used) || !used.every(isUsed)) throw new Error('it is of another form')
  return used
}

function isUsed(found: unknown): found is readonly [string, Milliseconds] {
  const [mark, until]: readonly unknown[] = Array.isArray(found) ? found : []
  return typeof mark === 'string' && Number.isFinite(until)
}
