/**
 * Entries by key: the log on disk, the table of its entries, and the decoded entries in demand.
 *
 * The catalogue only reads. A process without the lock has nothing more: it calls `refresh` before each answer and sees the entries that
 * the owner has appended meanwhile. The owner has the `Journal` (journal.ts), which also writes.
 */

import { endianness } from 'node:os'
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import type { Milliseconds } from '../../../async/clock.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { explainError, systemCode } from '../../../errors.ts'
import { isCount } from '../../../json.ts'
import { DiskHung, type Surroundings } from '../disk/disk.ts'
import type { Entry } from '../entry.ts'
import { nameOf } from '../key.ts'
import {
  type DurableMark,
  decodeRecord,
  EntryLog,
  isDigests,
  isName,
  isSealed,
  keyInLine,
  type LogLine,
  seal,
  unseal,
} from './entry-log.ts'
import { dumpedWords, EntryTable, unwrittenOffset } from './entry-table.ts'

/** An entry with the moment a client last asked for it. */
export interface UsedEntry extends Entry {
  readonly lastUsed: Milliseconds
}

/** The properties of an entry that a listing shows. */
export type ListedEntry = Pick<UsedEntry, 'key' | 'size' | 'digest' | 'lastUsed'>

interface Known {
  readonly entry: Entry
  readonly name: string
  /** The last use as the table has it, seconds with their fraction. */
  used: number
}

/** An entry that is not yet in the log, or the removal of one. */
interface Unwritten {
  readonly entry: Entry | undefined
  readonly line: Buffer | undefined
}

/** An entry that a walk has found: `bytes` is its line in the log, `waiting` an entry that is not yet written. */
interface Found {
  readonly key: string
  readonly row: number
  readonly bytes?: Buffer
  readonly waiting?: Entry | undefined
}

const memoryBytes = 32 * 1024 * 1024

export class Catalogue<Parts extends Surroundings = Surroundings> {
  table = new EntryTable()
  /** The last mark of the log. */
  durable: DurableMark = nothingDurable
  /** Whether the disk failed while the log was read, so that entries may be missing. */
  incomplete = false
  protected readonly parts: Parts
  protected file: EntryLog | undefined
  protected covered = 0
  protected walks = 0
  protected readonly unwritten = new Map<string, Unwritten>()
  protected readonly memory = new LRUCache<string, Known>({
    maxSize: memoryBytes,
    sizeCalculation: weigh,
    dispose: ({ name }, key) => {
      if (this.#keys.get(name) === key) this.#keys.delete(name)
    },
  })
  /** The keys of the entries in `memory`, by the names that the table has. */
  readonly #keys = new Map<string, string>()
  readonly #loads = new SingleFlight<Entry | undefined>()
  #garbled = 0

  constructor(parts: Parts) {
    this.parts = parts
  }

  /** Reads the snapshot and the log. Throws what the file system throws when the log cannot be opened. A reader needs no log. */
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

  /** Keeps an entry in memory. */
  protected remember(known: Known): void {
    const { key } = known.entry
    this.memory.set(key, known)
    this.#keys.set(known.name, key)
  }

  /** Drops the entry with this name from memory. */
  protected forgetNamed(name: string): void {
    const key = this.#keys.get(name)
    if (key !== undefined) this.memory.delete(key)
  }

  peek(key: string): Entry | undefined {
    return this.memory.get(key)?.entry
  }

  /** The entry, at once when it is in memory or not stored. Rejects when the disk fails. */
  get(key: string): Entry | undefined | Promise<Entry | undefined> {
    const known = this.memory.get(key)
    if (known !== undefined) return known.entry
    const name = nameOf(key)
    const waiting = this.unwritten.get(name)?.entry
    if (waiting?.key === key) return waiting
    if (this.table.find(name) === undefined) return undefined
    return this.#loads.run(key, () => this.#read(key, name))
  }

  /** Every entry, in the order of the log. An entry that is replaced during the walk may come twice. */
  async *walk(): AsyncGenerator<UsedEntry> {
    for await (const found of this.#found()) {
      for (const { row, bytes, waiting } of found) {
        const record = bytes && decodeRecord(bytes)
        const entry = record?.is === 'entry' ? record.entry : waiting
        if (entry !== undefined) yield { ...entry, lastUsed: this.table.used(row) * 1000 }
      }
    }
  }

  /** The same for a listing: some entries at a time, and only their keys are decoded. */
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

  /** Reads what the owner has written since the last call. Only a process that is not the owner calls it. */
  async refresh(): Promise<void> {
    const { disk, layout } = this.parts
    const found = await disk.look(layout.log)
    if (found === undefined) return
    this.memory.clear()
    if (this.file?.inode === found.ino) return this.#follow(this.file)
    // A walk that is under way still reads the old log.
    if (this.walks > 0) return
    this.file?.close()
    this.file = undefined
    this.table = new EntryTable()
    await this.load('reading')
  }

  /** Called when the log has no entry at the place that this row names. The journal of the owner removes the row. */
  protected lost(_row: number): void {}

  /** Counts a walk. The log is not replaced until the walk ends. */
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
        this.#foundAt(entry?.key, unwrittenOffset, { waiting: entry }),
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
      // The entry was replaced or moved meanwhile.
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
      this.remember({ entry: record.entry, name, used: this.table.used(row) })
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

const nothingDurable: DurableMark = { durable: 0, unproven: [], clean: false }

function weigh({ entry }: Known): number {
  let weight = 700 + entry.key.length
  for (const [name, value] of entry.fields) weight += 80 + name.length + value.length
  return weight
}

/** The facts in the head of a snapshot. */
interface Covered extends DurableMark {
  readonly generation: string
  readonly covered: number
}

const version = 3
const headBytes = 4096
const mostUnproven = 50
const rowBytes = dumpedWords * 4
const inPiece = 16_384

/**
 * Writes the table of entries to a file, the snapshot, so that a start need not read the whole log. Throws what the file system throws.
 *
 * # Format
 * The head has 4,096 bytes with a line of JSON and its checksum (entry-log.ts). Then come 64 bytes for each entry: the first sixteen words
 * of its row in the table (entry-table.ts), in this machine's byte order.
 *
 *     {"snapshot":3,"order":"LE","generation":"8d41…","covered":81920,"durable":…,"rows":1000,"crc":…}
 *
 * The rows cover the log of that generation up to `covered`; a start reads the rest from the log. A row may be newer than that, and the
 * rest of the log then repeats it. A snapshot that is torn, belongs to another log, or covers more than its log has is not used; the owner
 * of the directory removes it.
 */
export async function writeSnapshot(
  { disk, layout }: Pick<Surroundings, 'disk' | 'layout'>,
  table: EntryTable,
  covered: Covered,
): Promise<void> {
  // The head has no place for more digests, so the next start reads the log instead.
  if (covered.unproven.length > mostUnproven) return
  const temporary = `${layout.snapshot}.new`
  await disk.remove(temporary)
  const file = await disk.open(temporary, 'creating')
  try {
    const words = new Uint32Array(inPiece * dumpedWords)
    let [rows, inThis, crc] = [0, 0, 0]
    const write = async (): Promise<void> => {
      const piece = Buffer.from(words.buffer, 0, inThis * rowBytes)
      crc = crc32(piece, crc)
      await file.put(piece, headBytes + (rows - inThis) * rowBytes)
      inThis = 0
    }
    for (const row of table.rows()) {
      if (table.offset(row) < 0) continue
      table.dump(row, words, inThis * dumpedWords)
      inThis += 1
      rows += 1
      if (inThis === inPiece) await write()
    }
    await write()
    const { unproven, ...known } = covered
    const head = { snapshot: version, order: endianness(), ...known, rows, crc }
    await file.put(seal({ ...head, unproven }), 0)
    await disk.rename(temporary, layout.snapshot)
  } finally {
    file.close()
  }
}

/** Fills an empty table. Undefined when there is no usable snapshot of this generation; the table must not be used then. */
async function readSnapshot(
  { disk, layout }: Pick<Surroundings, 'disk' | 'layout'>,
  table: EntryTable,
  generation: string,
): Promise<Covered | undefined> {
  const file = await disk.open(layout.snapshot, 'reading')
  try {
    const head = headOf(await file.bytes(0, headBytes))
    if (head === undefined || head.generation !== generation) return undefined
    table.reserve(head.rows)
    let crc = 0
    for (let row = 0; row < head.rows; row += inPiece) {
      const wanted = Math.min(inPiece, head.rows - row) * rowBytes
      const piece = await file.bytes(headBytes + row * rowBytes, wanted)
      if (piece.length < wanted) return undefined
      crc = crc32(piece, crc)
      const words = new Uint32Array(piece.buffer, piece.byteOffset, wanted / 4)
      for (let at = 0; at < words.length; at += dumpedWords) table.load(words, at)
    }
    return crc === head.crc ? head : undefined
  } finally {
    file.close()
  }
}

function headOf(bytes: Buffer) {
  const value = unseal(bytes.subarray(0, bytes.indexOf(10) + 1))
  if (value?.['snapshot'] !== version || value['order'] !== endianness()) return undefined
  const { generation, covered, durable, unproven, clean, rows, crc } = value
  if (!isName(generation) || !isCount(covered) || !isCount(durable)) return undefined
  if (!isDigests(unproven) || !isCount(rows) || !isCount(crc)) return undefined
  return { generation, covered, durable, unproven, clean: clean === true, rows, crc }
}
