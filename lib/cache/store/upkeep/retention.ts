/**
 * What goes: entries unused for long, contents that no entry names, what crashes have left.
 *
 * Entries are found in the index by their last use, without reading anything. They and their contents are removed at a bounded rate. A content goes some
 * time after its last entry, once the log says so even after a power cut. Files that neither the index nor this process knows
 * are found by a walk of the directories. After a part of the log could not be read nothing is removed: the entries in it are
 * not known.
 */
import { join } from 'node:path'
import type { Milliseconds } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import type { Journal } from '../catalogue/journal.ts'
import type { Blobs, Unnamed } from '../disk/blobs.ts'
import type { Surroundings } from '../disk/disk.ts'
import { isDigest, shards } from '../disk/layout.ts'

export interface SweepOptions {
  /** Entries that no client asked for in so many days go; 0 keeps them for ever. */
  readonly unusedDays: number
  readonly now: Milliseconds
  readonly signal?: AbortSignal
}

/** What a sweep found. */
export interface Swept {
  readonly entriesKept: number
  readonly entriesRemoved: number
  readonly blobsKept: number
  readonly blobsRemoved: number
  readonly bytesFreed: number
  readonly leftoversRemoved: number
}

export interface RetentionParts extends Surroundings {
  readonly journal: Journal
  readonly blobs: Blobs
  /** Told that the disk failed. */
  readonly failed: (error: unknown) => void
  /** Makes the log survive a power cut. */
  readonly checkpoint: () => Promise<void>
  /** Whether a file below `tmp/` is in use. */
  readonly inUse: (path: string) => boolean
}

const day: Milliseconds = 24 * 60 * 60 * 1000

/** How long a content stays after its last entry: a client may have been promised it. */
const grace: Milliseconds = 60_000
/** How young a content must be to be left alone when nothing is known of it. Below `tmp/` it is a day. */
const strayGrace: Milliseconds = 60 * 60 * 1000

/** Not while every client comes back after a restart. */
const firstSweep: Milliseconds = 15 * 60 * 1000

/** Rows looked at in one turn of the event loop; rows removed in one turn, and the rest after them. */
const rowsLookedAt = 16_384
const rowsAtOnce = 500
const restAfterRows: Milliseconds = 10

/** Files removed at once, in one burst, and the time a burst takes: 2,200 a second. */
const filesAtOnce = 2
const filesInBurst = 100
const burstTime: Milliseconds = 45

export class Retention {
  readonly #parts: RetentionParts
  readonly #closing = new AbortController()
  #collecting: (() => void) | undefined

  constructor(parts: RetentionParts) {
    this.#parts = parts
  }

  /** A content has no entry any more: it goes after a while. */
  soon(): void {
    if (this.#closing.signal.aborted) return
    this.#collecting ??= this.#parts.clock.after(grace, () => {
      this.#collecting = undefined
      this.#collect().catch(error => {
        this.#parts.failed(error)
        this.soon()
      })
    })
  }

  /** Removes what is due. Rejects when the disk fails, and with the reason of `signal`; what was removed by then is gone. */
  async sweep({ unusedDays, now, signal = this.#closing.signal }: SweepOptions): Promise<Swept> {
    const { journal, blobs, clock } = this.#parts
    const { index } = journal
    const before = { count: index.count, bytes: index.bytes }
    const swept = { entriesRemoved: 0, blobsRemoved: 0, bytesFreed: 0, leftoversRemoved: 0 }
    if (!journal.incomplete) {
      const freed =
        unusedDays > 0
          ? await this.#removeUnused((now - unusedDays * day) / 1000, signal)
          : new Set()
      swept.entriesRemoved = before.count - index.count
      swept.bytesFreed = before.bytes - index.bytes
      const since = clock.elapsed() - grace
      const due = blobs.unnamed(Number.POSITIVE_INFINITY).filter(one => {
        return one.since <= since || freed.has(one.digest)
      })
      swept.blobsRemoved = await this.#removeContents(due, signal)
      swept.leftoversRemoved = await this.#removeStrays(now, signal)
    }
    return { ...swept, entriesKept: index.count, blobsKept: index.contents }
  }

  /** Sweeps once after a while and then every day, and logs the figures; `unusedDays` is asked anew each time. */
  daily(unusedDays: () => number, after: Milliseconds = firstSweep): void {
    const { clock, log } = this.#parts
    const { signal } = this.#closing
    const cancel = clock.after(after, () => {
      this.sweep({ unusedDays: unusedDays(), now: clock.now() })
        .then(
          swept => log.info('retention: swept', { ...swept }),
          error => {
            if (signal.aborted) return
            log.warn('retention: the sweep stopped half-way', { because: explainError(error) })
          },
        )
        .finally(() => this.daily(unusedDays, day))
    })
    if (signal.aborted) cancel()
    else signal.addEventListener('abort', cancel, { once: true })
  }

  close(): void {
    this.#closing.abort(new Error('the store closes'))
    this.#collecting?.()
  }

  async #collect(): Promise<void> {
    const { journal, blobs, clock } = this.#parts
    if (journal.incomplete) return
    await this.#removeContents(blobs.unnamed(clock.elapsed() - grace), this.#closing.signal)
    if (blobs.unnamed(Number.POSITIVE_INFINITY).length > 0) this.soon()
  }

  /** Removes entries last used before a moment, in seconds. Answers the digests they alone named. */
  async #removeUnused(before: number, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const { journal } = this.#parts
    const { index } = journal
    const freed = new Set<string>()
    let unused: number[] = []
    const remove = (): void => {
      for (const digest of journal.removeRows(unused)) freed.add(digest)
      unused = []
    }
    let looked = 0
    for (const row of index.rows()) {
      if (index.used(row) < before) unused.push(row)
      looked += 1
      const full = unused.length === rowsAtOnce
      if (!full && looked % rowsLookedAt > 0) continue
      remove()
      await (full ? this.#rest(restAfterRows) : new Promise(resolve => setImmediate(resolve)))
      signal.throwIfAborted()
    }
    remove()
    return freed
  }

  /** After a checkpoint, and at a bounded rate, so that requests go first. Answers how many are gone. */
  async #removeContents(contents: readonly Unnamed[], signal: AbortSignal): Promise<number> {
    const { blobs, clock, checkpoint } = this.#parts
    if (contents.length > 0) await checkpoint()
    let removed = 0
    let due = clock.elapsed()
    for (let at = 0; at < contents.length; at += filesInBurst) {
      due = Math.max(due, clock.elapsed() - burstTime) + burstTime
      const burst = contents.slice(at, at + filesInBurst).values()
      const lane = async (): Promise<void> => {
        for (const content of burst) {
          signal.throwIfAborted()
          if (await blobs.remove(content)) removed += 1
        }
      }
      await Promise.all(Array.from({ length: filesAtOnce }, lane))
      const more = at + filesInBurst < contents.length
      if (more) await this.#rest(due - clock.elapsed())
    }
    return removed
  }

  #rest(time: Milliseconds): Promise<void> {
    return new Promise(resolve => this.#parts.clock.after(Math.max(0, time), resolve))
  }

  async #removeStrays(now: Milliseconds, signal: AbortSignal): Promise<number> {
    const { disk, layout, blobs, inUse } = this.#parts
    let removed = 0
    const olderThan = async (path: string, age: Milliseconds): Promise<boolean> => {
      const found = await disk.look(path)
      return found !== undefined && found.mtimeMs < now - age
    }
    for (const shard of shards) {
      for (const digest of await disk.names(join(layout.blobs, shard))) {
        signal.throwIfAborted()
        if (!isDigest(digest) || blobs.has(digest)) continue
        if (!(await olderThan(layout.blob(digest), strayGrace))) continue
        if (await blobs.removeStray(digest)) removed += 1
      }
    }
    for (const name of await disk.names(layout.temporary)) {
      const path = join(layout.temporary, name)
      if (inUse(path) || !(await olderThan(path, day))) continue
      await disk.removeTree(path)
      removed += 1
    }
    return removed
  }
}
