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
import { isDigest, isForbidden, shards } from '../disk/disk.ts'
import { nameOf } from '../key.ts'
import {
  type ContentStanding,
  type Forecast,
  findVictims,
  keepAll,
  type NextRemoval,
  type RemovalReason,
  type RetentionRules,
  reasonCounts,
  removalReasons,
  standingSentences,
} from '../retention-rules.ts'
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
  /** The removed entries by reason, such as `unused 3, superseded 1`; undefined when there are none. */
  readonly because?: string
}

/** Rows that go for one reason. */
interface DueRows {
  readonly reason: RemovalReason
  readonly rows: readonly number[]
  readonly due: (row: number) => boolean
}

interface RetentionParts extends UpkeepParts {
  readonly downloads: Downloads
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
    const counts = new Map<RemovalReason, number>()
    if (!journal.incomplete) {
      const freed = new Set(await this.#forget({ ...keepAll, ...some }, now, counts))
      swept.entriesRemoved = before.count - table.count
      swept.bytesFreed = before.bytes - table.bytes
      const since = clock.elapsed() - grace
      const due = blobs.unnamed().filter(one => one.since <= since || freed.has(one.digest))
      swept.blobsRemoved = await this.#remove(due)
      swept.leftoversRemoved = await this.#removeStrays(now)
    }
    const because = reasonCounts(counts)
    const kept = { entriesKept: table.count, blobsKept: table.contents }
    return { ...swept, ...kept, ...(because !== '' && { because }) }
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

  /**
   * Forgets entries that were not used for long and older versions of packages, and counts them by reason. Answers the digests that entries
   * no longer name.
   */
  async #forget(
    rules: RetentionRules,
    now: Milliseconds,
    counts: Map<RemovalReason, number>,
  ): Promise<readonly string[]> {
    const { table } = this.#parts.journal
    const { signal } = this.#closing
    const freed: string[] = []
    for await (const { reason, rows, due } of this.#due(rules, now)) {
      const before = table.count
      freed.push(...(await forget(this.#parts, rows, { due, signal })))
      counts.set(reason, (counts.get(reason) ?? 0) + Math.max(0, before - table.count))
    }
    return freed
  }

  /** The rows that a sweep removes, some at a time. `due` answers whether that still holds for a row. */
  async *#due({ unusedDays, versions, standing }: RetentionRules, now: Milliseconds) {
    const { journal } = this.#parts
    const { table } = journal
    const { signal } = this.#closing
    const among = (
      reason: RemovalReason,
      days: number,
      standings: readonly ContentStanding[],
    ): ((rows: readonly number[]) => DueRows) => {
      const before = (now - days * day) / 1000
      const due = (row: number): boolean =>
        table.used(row) < before && standings.includes(standing?.(table.digest(row)) ?? 'unknown')
      return rows => ({ reason, due, rows: rows.filter(due) })
    }
    if (unusedDays > 0) {
      const unused = among('unused', unusedDays, ['named', 'unknown'])
      for await (const rows of rowsOf(table, signal)) yield unused(rows)
    }
    if (versions > 0) {
      const old = await olderVersions(() => journal.list(), versions)
      const rows = old.flatMap(key => table.find(nameOf(key)) ?? [])
      signal.throwIfAborted()
      yield among('superseded', versionUnusedDays, ['unknown'])(rows)
    }
  }

  /**
   * What the sweep would remove now, and then the order in which room is made; at most `most` files of each. `unreferenced` are the
   * keys that go because no index names them. Nothing is changed.
   */
  async forecast({
    now,
    most,
    unreferenced,
  }: {
    readonly now: Milliseconds
    readonly most: number
    readonly unreferenced: readonly string[]
  }): Promise<Forecast> {
    const { journal, room } = this.#parts
    const { table } = journal
    const { signal } = this.#closing
    const { rules } = room
    const reasons = new Map<number, RemovalReason>()
    for await (const { reason, rows } of this.#due(rules, now)) {
      for (const row of rows) if (!reasons.has(row)) reasons.set(row, reason)
    }
    for (const row of unreferenced.flatMap(key => table.find(nameOf(key)) ?? [])) {
      if (!reasons.has(row)) reasons.set(row, 'unreferenced')
    }
    const goes = (row: number): boolean => reasons.has(row)
    const whole = (row: number): boolean => [...table.sharing(row)].every(goes)
    const bytes = new Map<string, number>()
    for (const row of reasons.keys()) if (whole(row)) bytes.set(table.digest(row), table.size(row))
    const rankOfRow = (row: number): number => removalReasons[reasons.get(row) ?? 'floor'].rank
    const order = (a: number, b: number): number =>
      rankOfRow(a) - rankOfRow(b) || table.used(a) - table.used(b)
    const swept = [...reasons.keys()].sort(order).slice(0, most)
    async function* staying(): AsyncGenerator<readonly number[]> {
      for await (const rows of rowsOf(table, signal)) {
        yield rows.filter(row => table.length(row) > 0 && !whole(row))
      }
    }
    const victims = await findVictims(staying(), table, rules)
    const next = victims
      .slice(0, most)
      .flatMap(({ row }) => [...table.sharing(row)].filter(one => !goes(one)))
      .slice(0, most)
    const named = await this.#named(new Set([...swept, ...next]))
    const { nearest, ...measured } = room.forecast()
    const removal = (row: number, reason: RemovalReason, because: string) => {
      const entry = named.get(row)
      return entry ? [{ reason, because, ...entry }] : []
    }
    return {
      sweep: {
        files: reasons.size,
        bytes: [...bytes.values()].reduce((sum, one) => sum + one, 0),
        first: swept.flatMap(row => {
          const reason = reasons.get(row) ?? 'unused'
          return removal(row, reason, removalReasons[reason].sentence)
        }),
      },
      room: next.flatMap(row => {
        const standing = rules.standing?.(table.digest(row)) ?? 'unknown'
        return removal(row, nearest, standingSentences[standing])
      }),
      ...measured,
    }
  }

  /** The keys of rows, in one walk over the log. */
  async #named(rows: ReadonlySet<number>) {
    const { journal } = this.#parts
    const named = new Map<number, Pick<NextRemoval, 'key' | 'bytes' | 'lastUsed'>>()
    if (rows.size === 0) return named
    for await (const some of journal.list()) {
      this.#closing.signal.throwIfAborted()
      for (const { key, size, lastUsed } of some) {
        const row = journal.table.find(nameOf(key))
        if (row !== undefined && rows.has(row)) named.set(row, { key, bytes: size, lastUsed })
      }
    }
    return named
  }

  async #removeStrays(now: Milliseconds): Promise<number> {
    const { disk, layout, blobs, downloads, log } = this.#parts
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
      if (downloads.inUse(path)) continue
      if (!(await olderThan(path, day))) continue
      await disk.removeTree(path)
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
