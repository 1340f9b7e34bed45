/**
 * The catalogue of the process that owns the directory: readers see a change at once, and the log gets it some milliseconds later.
 *
 * Changes wait by name until they are in the log, only the latest for each name, and all waiting changes are written together. So a disk
 * that fails for hours costs one waiting line for each changed key, and the order of changes does not matter. Appends, the marks of
 * checkpoints and the last step of a compaction take turns at the log.
 */
import { dirname } from 'node:path'
import type { Milliseconds, Seconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import type { Surroundings } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import type { Entry } from '../entry.ts'
import type { StoreEvents } from '../events.ts'
import { nameOf } from '../key.ts'
import { Catalogue, writeSnapshot } from './catalogue.ts'
import {
  type DurableMark,
  decodeRecord,
  EntryLog,
  encodeRecord,
  keyInLine,
  type LogLine,
  type Use,
} from './entry-log.ts'
import { type EntryTable, unwrittenOffset } from './entry-table.ts'

interface JournalParts extends Surroundings {
  /** Is called when the disk did not take lines, which then go on waiting. */
  readonly health: Pick<DiskHealth, 'failed'>
  readonly events: Pick<StoreEvents, 'tell'>
}

/** One use in each period of this length is written, because retention by age counts in days. */
const usePeriod: Seconds = 6 * 60 * 60
/** A use within this time of the last one is not noted at all. */
const sameUse: Seconds = 0.01
/** Uses are written after this time, or when there are `mostUses` of them. */
const flushInterval: Milliseconds = 60_000
const mostUses = 1_000
const linesAtOnce = 1_000
/** Changes within this time are written together. */
const together: Milliseconds = 25
/** A new snapshot is written when the log has grown by this many bytes, or by the size of a snapshot when that is more. */
const snapshotEvery = 16 * 1024 * 1024
const snapshotRow = 64

/** A smaller log is not compacted. */
const smallLog = 8 * 1024 * 1024

export class Journal extends Catalogue<JournalParts> {
  readonly #uses = new Map<string, Seconds>()
  readonly #turns = new KeyedMutex()
  #cancelUses: (() => void) | undefined
  #writing: Promise<void> | undefined
  #cancelFlush: (() => void) | undefined
  /** Whether the name of the log survives a power cut. */
  #named = false
  /** Whether a flush of the log failed. The kernel forgets the bytes that it could not write, so only a new file is reliable. */
  #spoiled = false

  /** Reads the log and prepares to append to it. Throws what the file system throws. */
  async open(): Promise<void> {
    const { disk, layout } = this.parts
    await disk.remove(`${layout.log}.new`)
    await this.load('writing')
    // A snapshot that covers more than its log has would be used as soon as the log has grown. The first mark flushes the removal.
    if (this.covered === 0) await disk.remove(layout.snapshot)
    await this.#log.toEnd()
    // The lines that were read, also removals, count from now on. A power cut must not undo them.
    if (!this.durable.clean) await this.#log.sync()
  }

  get position(): number {
    return this.#log.position
  }

  /** Digests of contents that may not have survived the last stop. */
  unproven(): ReadonlySet<string> {
    const { table } = this
    const { durable, unproven, clean } = this.durable
    const digests = new Set(unproven.filter(digest => table.references(digest)))
    if (clean) return digests
    for (const row of table.rows()) {
      if (table.offset(row) >= durable) digests.add(table.digest(row))
    }
    return digests
  }

  /** Remembers an entry and replaces an earlier one of its key. Its last use is `now`. The log gets it some milliseconds later. */
  put(entry: Entry, now: Seconds = this.parts.clock.now() / 1000): void {
    const name = nameOf(entry.key)
    const used = Math.floor(now)
    const line = encodeRecord({ is: 'entry', entry, used })
    const { digest, size } = entry
    const { table } = this
    const { events } = this.parts
    const before = table.find(name)
    const sizeBefore = before === undefined ? 0 : table.size(before)
    const freed = table.put({
      name,
      offset: unwrittenOffset,
      length: line.length,
      used,
      digest,
      size,
    })
    table.use(before ?? table.find(name) ?? 0, now)
    this.unwritten.set(name, { entry, line })
    this.remember({ entry, name, used: now })
    events.tell('named', entry)
    this.#uses.delete(name)
    this.#flushSoon()
    if (freed !== undefined) events.tell('freed', { digest: freed, size: sizeBefore })
  }

  /** Forgets an entry; with `digest`, only when it names that content. Answers whether it is gone. */
  remove(key: string, digest?: string): boolean {
    const row = this.table.find(nameOf(key))
    if (row !== undefined && digest !== undefined && this.table.digest(row) !== digest) return false
    this.memory.delete(key)
    if (row !== undefined) this.#remove(row)
    return true
  }

  /** Forgets the entries in these rows. Answers the digests that entries no longer name. */
  removeRows(rows: readonly number[]): readonly string[] {
    return rows.flatMap(row => {
      this.forgetNamed(this.table.name(row))
      return this.#remove(row) ?? []
    })
  }

  /** Notes that an entry was used, by default now. Most calls cost only a look-up. */
  touch(key: string, now: Seconds = this.parts.clock.now() / 1000): void {
    const known = this.memory.peek(key)
    if (known !== undefined && Math.abs(now - known.used) < sameUse) return
    const name = known?.name ?? nameOf(key)
    const row = this.table.find(name)
    if (row === undefined) return
    if (known !== undefined) known.used = now
    const written = periodOf(this.table.used(row))
    this.table.use(row, now)
    if (periodOf(now) === written) return
    this.#uses.set(name, Math.floor(now))
    if (this.#uses.size >= mostUses) this.#flushSoon()
    else this.#cancelUses ??= this.parts.clock.after(flushInterval, this.#flushUses)
  }

  /** When an entry was last used; undefined for an unknown entry. */
  lastUsed(key: string): Milliseconds | undefined {
    const row = this.table.find(nameOf(key))
    return row === undefined ? undefined : this.table.exactUse(row) * 1000
  }

  /** Resolves when all waiting changes are in the log. Rejects when the disk fails; the changes go on waiting then. */
  flush(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  /**
   * Appends a mark and flushes the log. Rejects when the disk fails. After a failed flush it rejects until `tidy` has written the log
   * again.
   */
  async mark(durable: DurableMark): Promise<void> {
    if (this.#spoiled) throw new Error('the log of entries could not be flushed')
    await this.#turns.run('log', async () => {
      await this.#log.append([encodeRecord({ is: 'durable', ...durable })])
      this.#spoiled = true
      await this.#log.sync()
      this.#spoiled = false
      if (!this.#named) await this.parts.disk.syncDirectory(dirname(this.parts.layout.log))
      this.#named = true
    })
    this.durable = durable
  }

  /** Writes a snapshot or compacts the log, when one of them is due. The caller must not run `mark` at the same time. */
  async tidy(): Promise<void> {
    const { position, table } = this
    const dead = position - table.live
    const due = Math.max(snapshotEvery, table.count * snapshotRow)
    if (this.#spoiled || (position > smallLog && dead > position / 2)) await this.compact()
    else if (position - this.covered > due) await this.snapshot()
  }

  async snapshot(): Promise<void> {
    if (this.incomplete) return
    const { table, durable, position: covered } = this
    const { generation } = this.#log
    await writeSnapshot(this.parts, table, { ...durable, generation, covered })
    this.covered = covered
  }

  /** Writes the log again without its dead lines. A log that could not be read in part stays, because that part would be lost. */
  async compact(): Promise<void> {
    if (this.incomplete) return
    const { disk, layout } = this.parts
    const { table, durable } = this
    const from = this.#log
    const temporary = `${layout.log}.new`
    await disk.remove(temporary)
    const to = await EntryLog.open(disk, temporary, 'creating')
    const compaction = new Compaction({ from, to, table, durable })
    const finish = async (): Promise<void> => {
      await compaction.copy(0)
      if (compaction.incomplete || this.walks > 0) return
      const mark = compaction.mark()
      await to.append([encodeRecord({ is: 'durable', ...mark })])
      await to.sync()
      await disk.rename(temporary, layout.log)
      this.file = to
      this.durable = mark
      this.#named = false
      this.#spoiled = false
      from.close()
      this.removeRows(compaction.place())
    }
    try {
      await compaction.copy(littleLeft)
      await this.#turns.run('log', () => this.#turns.run('walks', finish))
    } finally {
      if (this.file !== to) {
        to.close()
        await disk.remove(temporary)
      }
    }
    await this.snapshot()
  }

  /** Writes all waiting changes and a snapshot. Rejects when the disk fails. */
  async close(): Promise<void> {
    this.#cancelUses?.()
    this.#cancelFlush?.()
    try {
      await this.flush()
      await this.snapshot()
    } finally {
      this.file?.close()
    }
  }

  /** A walk does not begin while a new log replaces the old one. */
  protected override beginWalk(): Promise<void> {
    return this.#turns.run('walks', () => super.beginWalk())
  }

  protected override lost(row: number): void {
    this.#remove(row)
  }

  get #log(): EntryLog {
    if (this.file === undefined) throw new Error('the log of entries is not open')
    return this.file
  }

  /** Removes an entry. Answers the digest that entries no longer name, if there is one. */
  #remove(row: number): string | undefined {
    const name = this.table.name(row)
    const size = this.table.size(row)
    const freed = this.table.remove(row)
    this.unwritten.set(name, { entry: undefined, line: undefined })
    this.#uses.delete(name)
    this.#flushSoon()
    if (freed !== undefined) this.parts.events.tell('freed', { digest: freed, size })
    return freed
  }

  readonly #flushUses = (): void => {
    this.#cancelUses = undefined
    this.#flushNow()
  }

  #flushSoon(): void {
    this.#cancelFlush ??= this.parts.clock.after(together, () => this.#flushNow())
  }

  #flushNow(): void {
    this.#cancelFlush?.()
    this.#cancelFlush = undefined
    this.flush().catch(error => this.parts.health.failed(error, 'writing entries'))
  }

  async #writeAll(): Promise<void> {
    while (this.unwritten.size > 0 || this.#uses.size > 0) {
      await this.#turns.run('log', () => this.#writeSome())
    }
  }

  async #writeSome(): Promise<void> {
    const some = firstOf(this.unwritten, linesAtOnce)
    const gone = some.filter(([, { line }]) => line === undefined).map(([name]) => name)
    const uses: readonly Use[] = firstOf(this.#uses, mostUses)
    const lines = some.flatMap(([, { line }]) => line ?? [])
    if (gone.length > 0) lines.push(encodeRecord({ is: 'gone', gone }))
    if (uses.length > 0) lines.push(encodeRecord({ is: 'uses', uses }))
    let offset = await this.#log.append(lines)
    this.durable = { ...this.durable, clean: false }
    for (const [name, waiting] of some) {
      const { line } = waiting
      if (this.unwritten.get(name) === waiting) {
        this.unwritten.delete(name)
        const row = this.table.find(name)
        if (line !== undefined && row !== undefined) this.table.place(row, offset, line.length)
      }
      offset += line?.length ?? 0
    }
    for (const [name, at] of uses) if (this.#uses.get(name) === at) this.#uses.delete(name)
  }
}

function periodOf(used: number): number {
  return Math.floor(used / usePeriod)
}

function firstOf<Item>(items: Iterable<Item>, most: number): readonly Item[] {
  const first: Item[] = []
  for (const item of items) if (first.push(item) === most) break
  return first
}

interface CompactionParts {
  readonly from: EntryLog
  readonly to: EntryLog
  readonly table: EntryTable
  /** The last mark of the old log. It must not change during the compaction. */
  readonly durable: DurableMark
}

/** A line for the new log, with its row when it is an entry. */
interface Copied extends LogLine {
  readonly row?: number
}

/** Appending may wait while this many bytes are copied. */
const littleLeft = 1024 * 1024

/** Each row of the table has two words: the position of its line in the new log, and the length of the line. */
const words = 2

/**
 * Copies the live lines of the log of entries to a new log, while lines are appended to the old one.
 *
 * The old log is read from its beginning, and its live lines are copied with their last use. Removals and uses are copied only when they
 * were appended after the compaction began, because their entry may have been copied before. Lines that are appended meanwhile follow,
 * and the last ones are copied while appending waits. After a crash the old log is still there, and the next owner removes the new file.
 */
class Compaction {
  /** Whether a part of the old log could not be read. */
  incomplete = false
  readonly #parts: CompactionParts
  /** The position up to which the old log has been read, and the end of the old log when the compaction began. */
  #at = 0
  readonly #begun: number
  #places = new Float64Array(1024)
  /** The position in the new log of the first line that was after the last mark of the old log. */
  #durable: number | undefined

  constructor(parts: CompactionParts) {
    this.#parts = parts
    this.#begun = parts.from.position
  }

  /** Copies the lines that were not copied yet, until at most `left` bytes are left. */
  async copy(left: number): Promise<void> {
    const { from, to, durable } = this.#parts
    const unreadable = (): void => {
      this.incomplete = true
    }
    for await (const lines of from.lines(this.#at, unreadable)) {
      const last = lines.at(-1)
      if (last !== undefined) this.#at = last.offset + last.bytes.length
      const copied = lines.flatMap(line => this.#copied(line) ?? [])
      let at = copied.length > 0 ? await to.append(copied.map(({ bytes }) => bytes)) : 0
      for (const { offset, bytes, row } of copied) {
        if (offset >= durable.durable) this.#durable ??= at
        if (row !== undefined) this.#moved(row, at, bytes.length)
        at += bytes.length
      }
      if (left > 0 && from.position - this.#at <= left) return
    }
  }

  /** The mark for the end of the new log. */
  mark(): DurableMark {
    const { to, durable } = this.#parts
    const { unproven } = durable
    return { durable: this.#durable ?? to.position, unproven, clean: false }
  }

  /** Sets the new places in the table. Answers the rows whose lines were damaged: the new log does not have them. */
  place(): readonly number[] {
    const { table } = this.#parts
    const lost: number[] = []
    for (const row of table.rows()) {
      if (table.offset(row) < 0) continue
      const [offset = 0, length = 0] = this.#places.subarray(row * words, (row + 1) * words)
      if (length > 0) table.place(row, offset, length)
      else lost.push(row)
    }
    return lost
  }

  #copied({ bytes, offset }: LogLine): Copied | undefined {
    const { table } = this.#parts
    const key = keyInLine(bytes)
    const row = key === undefined ? undefined : table.find(nameOf(key))
    if (row !== undefined && table.offset(row) === offset) {
      return { bytes: withUse(bytes, table.used(row)), row, offset }
    }
    if (offset < this.#begun) return undefined
    const is = decodeRecord(bytes)?.is
    return is === 'gone' || is === 'uses' ? { bytes, offset } : undefined
  }

  #moved(row: number, offset: number, length: number): void {
    if (row * words >= this.#places.length) {
      const more = new Float64Array(Math.max(row * words * 2, this.#places.length * 2))
      more.set(this.#places)
      this.#places = more
    }
    this.#places[row * words] = offset
    this.#places[row * words + 1] = length
  }
}

/** The line of an entry with its last use, which may be later than the line. */
function withUse(bytes: Buffer, used: number): Buffer {
  if (bytes.toString('latin1', bytes.length - 32).endsWith(`,"used":${used}}\n`)) return bytes
  const record = decodeRecord(bytes)
  return record?.is === 'entry' ? encodeRecord({ ...record, used }) : bytes
}
