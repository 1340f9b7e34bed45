/**
 * Entries by key: the log on disk, the table of them, and the decoded entries in demand.
 *
 * This part reads. It is all a process without the lock has: it looks at the log again before each answer and sees what the
 * owner has appended meanwhile. The owner's part is journal.ts.
 */
import { LRUCache } from 'lru-cache'
import type { Milliseconds } from '../../../async/clock.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Surroundings } from '../disk/disk.ts'
import { DiskHung } from '../disk/slots.ts'
import type { Entry } from '../entry.ts'
import { nameOf } from '../key.ts'
import { EntryLog, type LogLine } from './entry-log.ts'
import { EntryTable, notWritten } from './entry-table.ts'
import { type Durable, decodeRecord, isSealed, keyInLine } from './record.ts'
import { readSnapshot } from './snapshot.ts'

/** An entry with the moment a client last asked for it. */
export interface UsedEntry extends Entry {
  readonly lastUsed: Milliseconds
}

/** As much of an entry as a listing shows. */
export type ListedEntry = Pick<UsedEntry, 'key' | 'size' | 'digest' | 'lastUsed'>

interface Known {
  readonly entry: Entry
  readonly name: string
  /** The last use that is in the table, seconds with their fraction. */
  used: number
}

/** An entry that is not yet in the log, or the removal of one. */
interface Unwritten {
  readonly entry: Entry | undefined
  readonly line: Buffer | undefined
}

/** An entry as a walk finds it: in a line of the log, or not yet written. */
interface Found {
  readonly key: string
  readonly row: number
  readonly bytes?: Buffer
  readonly waiting?: Entry | undefined
}

const memoryBytes = 32 * 1024 * 1024

export class Catalogue<Parts extends Surroundings = Surroundings> {
  table = new EntryTable()
  /** Up to where contents survive a power cut, as the log says. */
  durable: Durable = nothingDurable
  /** The disk failed while the log was read: entries may be missing. */
  incomplete = false
  protected readonly parts: Parts
  protected file: EntryLog | undefined
  protected covered = 0
  protected walks = 0
  protected readonly unwritten = new Map<string, Unwritten>()
  protected readonly memory = new LRUCache<string, Known>({
    maxSize: memoryBytes,
    sizeCalculation: weigh,
  })
  readonly #loads = new SingleFlight<Entry | undefined>()
  #garbled = 0

  constructor(parts: Parts) {
    this.parts = parts
  }

  /** Reads the log and its snapshot. Throws what the file system throws when there is no opening it. */
  async load(how: 'reading' | 'writing'): Promise<void> {
    const { disk, layout } = this.parts
    try {
      this.file = await EntryLog.open(disk, layout.log, how)
    } catch (error) {
      if (how === 'reading' && systemCode(error) === 'ENOENT') return
      throw error
    }
    await this.#useSnapshot(this.file)
    await this.#follow(this.file)
  }

  peek(key: string): Entry | undefined {
    return this.memory.get(key)?.entry
  }

  /** The entry: at once when it is in memory or not stored. Rejects when the disk fails. */
  get(key: string): Entry | undefined | Promise<Entry | undefined> {
    const known = this.memory.get(key)
    if (known !== undefined) return known.entry
    const name = nameOf(key)
    const waiting = this.unwritten.get(name)?.entry
    if (waiting?.key === key) return waiting
    if (this.table.find(name) === undefined) return undefined
    return this.#loads.run(key, () => this.#read(key, name))
  }

  /** Every entry, in the order of the log. One that is replaced meanwhile may come twice. */
  async *walk(): AsyncGenerator<UsedEntry> {
    for await (const found of this.#found()) {
      for (const { row, bytes, waiting } of found) {
        const record = bytes && decodeRecord(bytes)
        const entry = record?.is === 'entry' ? record.entry : waiting
        if (entry !== undefined) yield { ...entry, lastUsed: this.table.used(row) * 1000 }
      }
    }
  }

  /** The same, some at a time and without reading all of each. */
  async *list(): AsyncGenerator<readonly ListedEntry[]> {
    const { table } = this
    for await (const found of this.#found()) {
      yield found.map(({ key, row }) => ({
        key,
        size: table.size(row),
        digest: table.digest(row),
        lastUsed: table.used(row) * 1000,
      }))
    }
  }

  /** Takes notice of what the owner has written since; for a process that is not the owner. */
  async refresh(): Promise<void> {
    const { disk, layout } = this.parts
    const found = await disk.look(layout.log)
    if (found === undefined) return
    this.memory.clear()
    if (this.file?.inode === found.ino) return this.#follow(this.file)
    // The entries of a walk stand in the old log.
    if (this.walks > 0) return
    this.file?.close()
    this.file = undefined
    this.table = new EntryTable()
    await this.load('reading')
  }

  /** The log has no entry where the table says that this one stands. The owner of the directory removes the row. */
  protected lost(_row: number): void {}

  /** Counts a walk: what it reads is not replaced until it ends. */
  protected async beginWalk(): Promise<void> {
    this.walks += 1
  }

  async #useSnapshot(file: EntryLog): Promise<void> {
    try {
      const known = await readSnapshot(this.parts, this.table, file.generation)
      if (known !== undefined && known.covered <= (await file.size())) {
        this.durable = known
        this.covered = known.covered
        file.position = known.covered
        return
      }
    } catch (error) {
      if (error instanceof DiskHung) throw error
      if (systemCode(error) !== 'ENOENT') {
        this.parts.log.warn('cannot read the table of entries', { because: explainError(error) })
      }
    }
    this.table = new EntryTable()
    this.durable = nothingDurable
  }

  async #follow(file: EntryLog): Promise<void> {
    await file.follow(line => this.#apply(line), this.#unreadable)
    this.#tellOfDamage()
  }

  async *#found(): AsyncGenerator<readonly Found[]> {
    await this.beginWalk()
    try {
      for await (const lines of this.file?.lines(0, this.#unreadable) ?? []) {
        yield lines.flatMap(({ offset, bytes }) => {
          const key = keyInLine(bytes)
          if (key === undefined && !isSealed(bytes)) this.#garbled += 1
          return this.#foundAt(key, offset, { bytes })
        })
      }
      yield [...this.unwritten.values()].flatMap(({ entry }) =>
        this.#foundAt(entry?.key, notWritten, { waiting: entry }),
      )
    } finally {
      this.walks -= 1
      this.#tellOfDamage()
    }
  }

  #foundAt(
    key: string | undefined,
    offset: number,
    at: Pick<Found, 'bytes' | 'waiting'>,
  ): readonly Found[] {
    const row = key === undefined ? undefined : this.table.find(nameOf(key))
    if (key === undefined || row === undefined || this.table.offset(row) !== offset) return []
    return [{ key, row, ...at }]
  }

  #apply({ offset, bytes }: LogLine): void {
    const { table } = this
    const record = decodeRecord(bytes)
    if (record?.is === 'durable') {
      this.durable = record
      return
    }
    if (this.durable.clean) this.durable = { ...this.durable, clean: false }
    if (record === undefined) this.#garbled += 1
    else if (record.is === 'entry') {
      const { entry, used } = record
      const { digest, size } = entry
      table.put({ name: nameOf(entry.key), offset, length: bytes.length, used, digest, size })
    } else if (record.is === 'uses') {
      for (const [name, at] of record.uses) {
        const row = table.find(name)
        if (row !== undefined) table.use(row, at)
      }
    } else if (record.is === 'gone') {
      for (const name of record.gone) {
        const row = table.find(name)
        if (row !== undefined) table.remove(row)
      }
    }
  }

  async #read(key: string, name: string): Promise<Entry | undefined> {
    for (;;) {
      const row = this.table.find(name)
      const { file } = this
      if (row === undefined || file === undefined) return undefined
      const waiting = this.unwritten.get(name)?.entry
      if (waiting !== undefined) return waiting.key === key ? waiting : undefined
      const offset = this.table.offset(row)
      const record = await file.record(offset, this.table.length(row))
      // It was replaced meanwhile, or moved.
      if (this.file !== file || this.table.find(name) !== row) continue
      if (this.table.offset(row) !== offset) continue
      if (record?.is !== 'entry' || nameOf(record.entry.key) !== name) {
        this.parts.log.warn('not an entry; treated as absent', {
          path: this.parts.layout.log,
          offset,
        })
        this.lost(row)
        return undefined
      }
      if (record.entry.key !== key) return undefined
      this.memory.set(key, { entry: record.entry, name, used: this.table.used(row) })
      return record.entry
    }
  }

  #tellOfDamage(): void {
    if (this.#garbled === 0) return
    this.parts.log.warn('lines of the log of entries are damaged and were passed over', {
      path: this.parts.layout.log,
      lines: this.#garbled,
    })
    this.#garbled = 0
  }

  readonly #unreadable = (error: unknown): void => {
    if (!this.incomplete) {
      this.parts.log.warn('the disk cannot read a part of the log of entries', {
        path: this.parts.layout.log,
        because: explainError(error),
      })
    }
    this.incomplete = true
  }
}

const nothingDurable: Durable = { durable: 0, unproven: [], clean: false }

function weigh({ entry }: Known): number {
  let weight = 700 + entry.key.length
  for (const [name, value] of entry.fields) weight += 80 + name.length + value.length
  return weight
}
