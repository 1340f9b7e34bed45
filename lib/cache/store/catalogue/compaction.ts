/**
 * Writes the log of entries anew without its dead lines, while it is being appended to.
 *
 * The old log is read from its beginning; what is live is copied with its last use, to a file of another name. Removals and
 * uses are copied only when they came after the beginning, for by then their entry may have been copied. What was appended
 * meanwhile follows, and at the end, while nothing is appended, the rest; the new file is flushed and takes the name. A crash
 * before that leaves the old log, and a file the next owner removes.
 */
import type { Disk } from '../disk/disk.ts'
import { nameOf } from '../key.ts'
import { EntryLog, type LogLine } from './entry-log.ts'
import type { EntryTable } from './entry-table.ts'
import { type Durable, decodeRecord, encodeRecord, keyInLine } from './record.ts'

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

/** One compaction: `begin`, `finish` and, whatever came of them, `close`. They throw what the disk throws. */
export class Compaction {
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
