/**
 * The daily sweep: removes entries that were not used for long, older versions of packages, contents that no entry names, and files that
 * crashes have left.
 *
 * The sweep finds old entries by their last use in the table, without reading the disk; it reads the log to find versions. It finds files
 * that neither the table nor this process knows by a walk of the directories. Nothing is removed after a part of the log could not be
 * read, because its entries are not known.
 */
import { join } from 'node:path'
import { day, type Milliseconds } from '../../../async/clock.ts'
import { pause } from '../../../async/deadline.ts'
import { explainError } from '../../../errors.ts'
import type { UnnamedContent } from '../content/content-life.ts'
import type { Downloads } from '../content/downloads.ts'
import { forget, removeContents, rowsOf, type UpkeepParts } from '../content/removal.ts'
import type { Room } from '../content/room.ts'
import type { Partials } from '../content/write-behind.ts'
import { isDigest, isForbidden, shards } from '../disk/disk.ts'
import { nameOf } from '../key.ts'
import { type ContentStanding, keepAll, type RetentionRules } from '../retention-rules.ts'
import type { Checkpoints } from './checkpoint.ts'
import { olderVersions } from './versions.ts'

export interface SweepOptions extends Partial<RetentionRules> {
  readonly now: Milliseconds
}

/** The figures of a sweep. */
export interface SweepResult {
  readonly entriesKept: number
  readonly entriesRemoved: number
  readonly blobsKept: number
  readonly blobsRemoved: number
  readonly bytesFreed: number
  readonly leftoversRemoved: number
}

interface RetentionParts extends UpkeepParts {
  readonly downloads: Downloads
  readonly partials: Partials
  readonly checkpoints: Checkpoints
  readonly room: Room
}

/** How long a content stays after its last entry, because a response may still announce it. */
const grace: Milliseconds = 60_000
/** An unknown file of content younger than this stays. An unknown file below `tmp/` stays for a day. */
const strayGrace: Milliseconds = 60 * 60 * 1000

/** The first sweep comes this long after the start, because all clients come back after a restart. */
const firstSweep: Milliseconds = 15 * 60 * 1000

/** An older version that a client used within these days stays: file names lack the epoch, so the order of versions may be wrong. */
const versionUnusedDays = 7

export class Retention {
  readonly #parts: RetentionParts
  readonly #closing = new AbortController()
  #collecting: (() => void) | undefined
  #sweeping: Promise<void> | undefined

  constructor(parts: RetentionParts) {
    this.#parts = parts
  }

  /** Has contents without an entry removed after the grace. */
  soon(): void {
    if (this.#closing.signal.aborted) return
    this.#collecting ??= this.#parts.clock.after(grace, () => {
      this.#collecting = undefined
      this.#collect().catch(error => {
        this.#parts.health.failed(error, 'removing contents')
        this.soon()
      })
    })
  }

  /** Removes what is due. Rejects when the disk fails and when the store closes; a sweep that rejects has removed a part. */
  async sweep({ now, ...some }: SweepOptions): Promise<SweepResult> {
    const { journal, blobs, clock } = this.#parts
    const { table } = journal
    const before = { count: table.count, bytes: table.bytes }
    const swept = { entriesRemoved: 0, blobsRemoved: 0, bytesFreed: 0, leftoversRemoved: 0 }
    if (!journal.incomplete) {
      const freed = new Set(await this.#forget({ ...keepAll, ...some }, now))
      swept.entriesRemoved = before.count - table.count
      swept.bytesFreed = before.bytes - table.bytes
      const since = clock.elapsed() - grace
      const due = blobs.unnamed().filter(one => one.since <= since || freed.has(one.digest))
      swept.blobsRemoved = await this.#remove(due)
      swept.leftoversRemoved = await this.#removeStrays(now)
    }
    return { ...swept, entriesKept: table.count, blobsKept: table.contents }
  }

  /** Removes those of these contents that no entry names. A content that the disk refuses to remove is not served, and is tried again. */
  async removeNow(digests: ReadonlySet<string>): Promise<void> {
    const { journal, blobs, health } = this.#parts
    if (journal.incomplete) return
    const unnamed = blobs.unnamed().filter(({ digest }) => digests.has(digest))
    try {
      await this.#remove(unnamed)
    } catch (error) {
      await blobs.setAside(unnamed, error)
      if (!this.#closing.signal.aborted) health.failed(error, 'removing contents')
    }
  }

  /** Sweeps once after a while and then every day, by the present rules, and logs the figures. */
  daily(): void {
    this.#sweeping ??= this.#sweepDaily()
  }

  async #sweepDaily(): Promise<void> {
    const { clock, log, room } = this.#parts
    const { signal } = this.#closing
    for (let time = firstSweep; ; time = day) {
      await pause(clock, time, signal)
      if (signal.aborted) return
      try {
        const swept = await this.sweep({ ...room.rules, now: clock.now() })
        log.info('retention: swept', { ...swept })
      } catch (error) {
        if (signal.aborted) return
        log.warn('retention: the sweep stopped half-way', { because: explainError(error) })
      }
    }
  }

  close(): void {
    this.#closing.abort(new Error('the store closes'))
    this.#collecting?.()
  }

  async #collect(): Promise<void> {
    const { journal, blobs, clock } = this.#parts
    if (journal.incomplete) return
    await this.#remove(blobs.unnamed(clock.elapsed() - grace))
    if (blobs.unnamed().length > 0) this.soon()
  }

  /** Removes contents after a checkpoint, so that no durable entry names them. Answers how many are gone. */
  async #remove(contents: readonly UnnamedContent[]): Promise<number> {
    if (contents.length > 0) await this.#parts.checkpoints.run()
    return (await removeContents(this.#parts, contents, this.#closing.signal)).contents
  }

  /** Forgets entries that were not used for long and older versions of packages. Answers the digests that no entry names any more. */
  async #forget(
    { unusedDays, versions, standing }: RetentionRules,
    now: Milliseconds,
  ): Promise<readonly string[]> {
    const { journal } = this.#parts
    const { table } = journal
    const { signal } = this.#closing
    const freed: string[] = []
    const among = async (
      rows: readonly number[],
      days: number,
      standings: readonly ContentStanding[],
    ): Promise<void> => {
      const before = (now - days * day) / 1000
      const due = (row: number): boolean =>
        table.used(row) < before && standings.includes(standing?.(table.digest(row)) ?? 'unknown')
      signal.throwIfAborted()
      freed.push(...(await forget(this.#parts, rows.filter(due), { due, signal })))
    }
    if (unusedDays > 0) {
      for await (const rows of rowsOf(table, signal)) {
        await among(rows, unusedDays, ['named', 'unknown'])
      }
    }
    if (versions > 0) {
      const old = await olderVersions(() => journal.list(), versions)
      const rows = old.flatMap(key => table.find(nameOf(key)) ?? [])
      await among(rows, versionUnusedDays, ['unknown'])
    }
    return freed
  }

  async #removeStrays(now: Milliseconds): Promise<number> {
    const { disk, layout, blobs, downloads, partials, log } = this.#parts
    let [removed, forbidden] = [0, 0]
    const olderThan = async (path: string, age: Milliseconds): Promise<boolean> => {
      const found = await disk.look(path)
      return found !== undefined && found.mtimeMs < now - age
    }
    for (const shard of shards) {
      for (const digest of await disk.names(join(layout.blobs, shard))) {
        this.#closing.signal.throwIfAborted()
        if (!isDigest(digest) || blobs.has(digest)) continue
        if (!(await olderThan(layout.blob(digest), strayGrace))) continue
        const gone = await blobs.removeStray(digest).catch(error => {
          if (!isForbidden(error)) throw error
          forbidden += 1
          return false
        })
        if (gone) removed += 1
      }
    }
    for (const name of await disk.names(layout.temporary)) {
      const path = join(layout.temporary, name)
      if (downloads.inUse(path) || partials.isResuming(path)) continue
      if (!(await olderThan(path, day))) continue
      await disk.removeTree(path)
      partials.removed(path)
      removed += 1
    }
    if (forbidden > 0) {
      log.warn('files without an entry stay on the disk: permission denied', {
        files: forbidden,
        directory: layout.directory,
      })
    }
    return removed
  }
}
