/**
 * The catalogue of the process that owns the directory: changes are seen at once and written behind.
 *
 * What changes waits by name, the latest state only, until it is in the log; everything that waits is written together. So a
 * disk that fails for hours costs one waiting line for each key that changed, and the order of changes does not matter. Appends, the
 * marks of a checkpoint and the last step of a compaction take turns at the log.
 */
import { dirname } from 'node:path'
import type { Milliseconds, Seconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import type { Disk, Surroundings } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import type { Entry } from '../entry.ts'
import type { StoreEvents } from '../events.ts'
import { nameOf } from '../key.ts'
import { Catalogue, writeSnapshot } from './catalogue.ts'
import {
  type Durable,
  decodeRecord,
  EntryLog,
  encodeRecord,
  keyInLine,
  type LogLine,
  type Use,
} from './entry-log.ts'
import { type EntryTable, notWritten } from './entry-table.ts'

interface JournalParts extends Surroundings {
  /** Told when the disk did not take lines; they wait. */
  readonly health: Pick<DiskHealth, 'failed'>
  readonly events: Pick<StoreEvents, 'tell'>
}

/** Of the uses in each period of so long one is written down: retention by age counts in days. */
const usePeriod: Seconds = 6 * 60 * 60
/** A use so soon after another is not noted in memory either. */
const sameUse: Seconds = 0.01
/** Uses not yet written down: after so long, or so many. */
const flushInterval: Milliseconds = 60_000
const mostUses = 1_000
const linesAtOnce = 1_000
/** What changes within so long is written together. */
const together: Milliseconds = 25
/** So many bytes of log, or as many as the snapshot has, make a new snapshot worth while. */
const snapshotEvery = 16 * 1024 * 1024
const snapshotRow = 64

/** A smaller log is not worth being compacted. */
const smallLog = 8 * 1024 * 1024

export class Journal extends Catalogue<JournalParts> {
  readonly #uses = new Map<string, Seconds>()
  readonly #turns = new KeyedMutex()
  #cancelUses: (() => void) | undefined
  #writing: Promise<void> | undefined
  #cancelFlush: (() => void) | undefined
  /** The name of the log survives a power cut. */
  #named = false
  /** The disk failed to flush the log: the kernel forgets what it could not write, and only a new file can be relied on. */
  #spoiled = false

  /** Reads what there is, to go on writing behind it. Throws what the file system throws. */
  async open(): Promise<void> {
    const { disk, layout } = this.parts
    await disk.remove(`${layout.log}.new`)
    await this.load('writing')
    // A snapshot that goes further than its log would be believed as soon as the log has grown. The first mark flushes its removal.
    if (this.covered === 0) await disk.remove(layout.snapshot)
    await this.#log.toEnd()
    // What was read counts from now on, removals among it: a power cut must not bring back what was before.
    if (!this.durable.clean) await this.#log.sync()
  }

  get position(): number {
    return this.#log.position
  }

  /** Digests whose contents may not have survived the last stop. */
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

  /** Remembers an entry, in place of any before, as used now unless told. It is written soon. */
  put(entry: Entry, now: Seconds = this.parts.clock.now() / 1000): void {
    const name = nameOf(entry.key)
    const used = Math.floor(now)
    const line = encodeRecord({ is: 'entry', entry, used })
    const { digest, size } = entry
    const { table } = this
    const { events } = this.parts
    const before = table.find(name)
    const sizeBefore = before === undefined ? 0 : table.size(before)
    const freed = table.put({ name, offset: notWritten, length: line.length, used, digest, size })
    table.use(before ?? table.find(name) ?? 0, now)
    this.unwritten.set(name, { entry, line })
    this.memory.set(entry.key, { entry, name, used: now })
    events.tell('named', entry)
    this.#uses.delete(name)
    this.#flushSoon()
    if (freed !== undefined) events.tell('freed', { digest: freed, size: sizeBefore })
  }

  /** The same for one that an operator changes, which is no use: retention counts as before. */
  amend(entry: Entry): void {
    const row = this.table.find(nameOf(entry.key))
    this.put(entry, row === undefined ? undefined : this.table.exactUse(row))
  }

  /** Forgets an entry; with `digest`, only as long as it names that content. Answers whether it is gone. */
  remove(key: string, digest?: string): boolean {
    const row = this.table.find(nameOf(key))
    if (row !== undefined && digest !== undefined && this.table.digest(row) !== digest) return false
    this.memory.delete(key)
    if (row !== undefined) this.#remove(row)
    return true
  }

  /** Forgets the entries in these rows. Answers the digests that no entry names any more. */
  removeRows(rows: readonly number[]): readonly string[] {
    const names = new Set(rows.map(row => this.table.name(row)))
    const freed = rows.flatMap(row => this.#remove(row) ?? [])
    if (names.size === 0) return freed
    for (const [key, { name }] of [...this.memory.entries()]) {
      if (names.has(name)) this.memory.delete(key)
    }
    return freed
  }

  /** Notes that it was used, now unless told. Costs nothing but a look-up most of the time. */
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

  /** When it was used last; undefined for an entry that is not known. */
  lastUsed(key: string): Milliseconds | undefined {
    const row = this.table.find(nameOf(key))
    return row === undefined ? undefined : this.table.exactUse(row) * 1000
  }

  /** Resolves when all that waits now is in the log. Rejects when the disk fails; it goes on waiting then. */
  flush(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  /**
   * Notes up to where contents survive a power cut, and makes the log itself do so. Rejects when the disk fails; after a failed
   * flush also until `tidy` has written the log anew.
   */
  async mark(durable: Durable): Promise<void> {
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

  /** Writes a snapshot or compacts the log, when it is time. Not while `mark` is under way. */
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

  /** Writes the log anew without what is dead. Not when a part of it could not be read: that would be lost. */
  async compact(): Promise<void> {
    if (this.incomplete) return
    const { disk, layout } = this.parts
    const { table, durable } = this
    const from = this.#log
    const compaction = new Compaction({ disk, path: layout.log, from, table, durable })
    try {
      await compaction.begin()
      const finish = async (): Promise<void> => {
        const compacted = await compaction.finish(() => this.walks === 0)
        if (compacted === undefined) return
        this.file = compacted.log
        this.durable = compacted.durable
        this.#named = false
        this.#spoiled = false
        from.close()
        this.removeRows(compacted.lost)
      }
      await this.#turns.run('log', () => this.#turns.run('walks', finish))
    } finally {
      await compaction.close()
    }
    await this.snapshot()
  }

  /** Writes down all that waits, that the log was closed in order, and the table. Rejects when the disk fails. */
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

  /** Not while a new log takes the place of the one that is read. */
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

  /** Answers the digest that no entry names any more, if there is one. */
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
  readonly disk: Disk
  readonly path: string
  readonly from: EntryLog
  readonly table: EntryTable
  /** What the old log says of contents; nothing may change it meanwhile. */
  readonly durable: Durable
}

/** The new log, which has its name, and to which the table leads. */
interface Compacted {
  readonly log: EntryLog
  readonly durable: Durable
  /** Rows of entries whose lines were damaged: they are not in it. */
  readonly lost: readonly number[]
}

/** A line for the new log; of an entry with its row. */
interface Copied {
  readonly bytes: Buffer
  readonly row: number | undefined
  readonly offset: number
}

/** So little is left to copy that appending may wait for it. */
const littleLeft = 1024 * 1024

/** Two words for each row of the table: where its line stands in the new log, and how long it is. */
const words = 2

/**
 * Writes the log of entries anew without its dead lines, while it is being appended to.
 *
 * The old log is read from its beginning; what is live is copied with its last use, to a file of another name. Removals and
 * uses are copied only when they came after the beginning, for by then their entry may have been copied. What was appended
 * meanwhile follows, and at the end, while nothing is appended, the rest; the new file is flushed and takes the name. A crash
 * before that leaves the old log, and a file the next owner removes.
 *
 * One compaction: `begin`, `finish` and, whatever came of them, `close`. They throw what the disk throws.
 */
class Compaction {
  readonly #parts: CompactionParts
  readonly #temporary: string
  #to: EntryLog | undefined
  /** How far the old log has been read, and where it ended at the beginning. */
  #at = 0
  readonly #begun: number
  #incomplete = false
  #places = new Float64Array(1024)
  /** Where the new log stood when the first line came that the old one does not call durable. */
  #durable: number | undefined

  constructor(parts: CompactionParts) {
    this.#parts = parts
    this.#temporary = `${parts.path}.new`
    this.#begun = parts.from.position
  }

  /** Copies what is live; to be called first. */
  async begin(): Promise<void> {
    const { disk } = this.#parts
    await disk.remove(this.#temporary)
    this.#to = await EntryLog.open(disk, this.#temporary, 'creating')
    await this.#copy(this.#to, littleLeft)
  }

  /**
   * Copies the rest and puts the new log in place of the old one; to be called while nothing is appended. Undefined when the old
   * one is to stay: a part of it could not be read, or `mayEnd` says so.
   */
  async finish(mayEnd: () => boolean): Promise<Compacted | undefined> {
    const { disk, path, durable } = this.#parts
    const log = this.#to
    if (log === undefined) return undefined
    await this.#copy(log, 0)
    if (this.#incomplete || !mayEnd()) return undefined
    const { unproven } = durable
    const mark = { durable: this.#durable ?? log.position, unproven, clean: false }
    await log.append([encodeRecord({ is: 'durable', ...mark })])
    await log.sync()
    await disk.rename(this.#temporary, path)
    this.#to = undefined
    return { log, durable: mark, lost: this.#place() }
  }

  async close(): Promise<void> {
    if (this.#to === undefined) return
    this.#to.close()
    await this.#parts.disk.remove(this.#temporary)
  }

  async #copy(to: EntryLog, left: number): Promise<void> {
    const { from, durable } = this.#parts
    const unreadable = (): void => {
      this.#incomplete = true
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

  #copied({ bytes, offset }: LogLine): Copied | undefined {
    const { table } = this.#parts
    const key = keyInLine(bytes)
    const row = key === undefined ? undefined : table.find(nameOf(key))
    if (row !== undefined && table.offset(row) === offset) {
      return { bytes: withUse(bytes, table.used(row)), row, offset }
    }
    if (offset < this.#begun) return undefined
    const is = decodeRecord(bytes)?.is
    return is === 'gone' || is === 'uses' ? { bytes, row: undefined, offset } : undefined
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

  /** Answers the rows of which no line was copied. */
  #place(): readonly number[] {
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
}

/** The line of an entry with a use that came after it was written. */
function withUse(bytes: Buffer, used: number): Buffer {
  if (bytes.toString('latin1', bytes.length - 32).endsWith(`,"used":${used}}\n`)) return bytes
  const record = decodeRecord(bytes)
  return record?.is === 'entry' ? encodeRecord({ ...record, used }) : bytes
}
