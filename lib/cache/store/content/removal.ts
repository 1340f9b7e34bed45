/**
 * Removes entries and contents at a bounded rate, so that requests are not delayed.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import type { EntryTable } from '../catalogue/entry-table.ts'
import type { Journal } from '../catalogue/journal.ts'
import { isForbidden, type Surroundings } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import type { Blobs } from './blobs.ts'
import type { UnnamedContent } from './content-life.ts'

/** The objects that the upkeep of a store works with. */
export interface UpkeepParts extends Surroundings {
  readonly journal: Journal
  readonly blobs: Blobs
  readonly health: DiskHealth
}

/** One turn of the event loop looks at `rowsLookedAt` rows, or removes `rowsAtOnce` rows and then pauses for `restAfterRows`. */
const rowsLookedAt = 16_384
const rowsAtOnce = 500
const restAfterRows: Milliseconds = 10

/** `filesAtOnce` files are removed at the same time. A burst of `filesInBurst` takes at least `burstTime`: 2,200 files a second. */
const filesAtOnce = 2
const filesInBurst = 100
const burstTime: Milliseconds = 45

/** Every row of the table, with turns of the event loop in between. Rejects with the reason of `signal`. */
export async function* rowsOf(
  table: EntryTable,
  signal: AbortSignal,
): AsyncGenerator<readonly number[]> {
  let some: number[] = []
  for (const row of table.rows()) {
    if (some.push(row) < rowsLookedAt) continue
    yield some
    some = []
    await new Promise(resolve => setImmediate(resolve))
    signal.throwIfAborted()
  }
  yield some
}

/**
 * Forgets the entries in these rows. `due` is asked again for each, because a row may have got another entry meanwhile. Answers the
 * digests that entries no longer name. Rejects with the reason of `signal`.
 */
export async function forget(
  { journal, clock }: UpkeepParts,
  rows: readonly number[],
  { due, signal }: { readonly due: (row: number) => boolean; readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const freed: string[] = []
  for (let at = 0; at < rows.length; at += rowsAtOnce) {
    if (at > 0) await pause(clock, restAfterRows, signal)
    signal.throwIfAborted()
    const some = rows.slice(at, at + rowsAtOnce)
    freed.push(...journal.removeRows(some.filter(row => journal.table.length(row) > 0 && due(row))))
  }
  return freed
}

/**
 * Removes contents that no entry names, and passes over files that this process may not remove. Rejects when the disk fails, and
 * with the reason of `signal`.
 */
export async function removeContents(
  { blobs, clock, layout, log }: UpkeepParts,
  contents: readonly UnnamedContent[],
  signal: AbortSignal,
): Promise<{ readonly contents: number; readonly bytes: number }> {
  const removed = { contents: 0, bytes: 0 }
  const before = blobs.staying().length
  let due = clock.elapsed()
  for (let at = 0; at < contents.length; at += filesInBurst) {
    if (at > 0) await pause(clock, Math.max(0, due - clock.elapsed()), signal)
    due = Math.max(due, clock.elapsed()) + burstTime
    const burst = contents.slice(at, at + filesInBurst).values()
    const lane = async (): Promise<void> => {
      for (const content of burst) {
        signal.throwIfAborted()
        const gone = await blobs.remove(content).catch(error => {
          if (!isForbidden(error)) throw error
          return false
        })
        if (!gone) continue
        removed.contents += 1
        removed.bytes += content.size
      }
    }
    await Promise.all(Array.from({ length: filesAtOnce }, lane))
  }
  const kept = blobs.staying().length
  if (kept > before) {
    log.warn('removed contents stay on the disk: permission denied', {
      contents: kept,
      directory: layout.directory,
    })
  }
  return removed
}
