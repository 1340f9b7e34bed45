/**
 * Writes the log of entries anew without its dead lines, while it is being appended to.
 *
 * The old log is read from its beginning; what is live is copied with its last use, to a file of another name. Removals and
 * uses are copied only when they came after the beginning, for by then their entry may have been copied. What was appended
 * meanwhile follows, and at the end, while nothing is appended, the rest; the new file is flushed and takes the name. A crash
 * before that leaves the old log, and a file the next owner removes.
 */
import type { Disk } from '../disk/disk.ts'
import { EntryLog, type Line } from './entry-log.ts'
import { type EntryTable, nameOf } from './entry-table.ts'
import { type Durable, decodeRecord, encodeRecord, keyIn } from './record.ts'

interface CompactionParts {
  readonly disk: Disk
  readonly path: string
  readonly from: EntryLog
  readonly table: EntryTable
  /** What the old log says of contents; nothing may change it meanwhile. */
  readonly durable: Durable
  /** Runs the last step while nothing is appended. */
  readonly alone: (act: () => Promise<void>) => Promise<void>
  /** The old log may be left now: no reading of all entries is under way. */
  readonly mayEnd: () => boolean
}

interface Compacted {
  readonly log: EntryLog
  readonly durable: Durable
}

/** So little is left to copy that appending may wait for it. */
const littleLeft = 1024 * 1024

/**
 * Calls `swap` with the new log as soon as it has its name and the table leads to it; not at all when the old one may not be
 * left. Throws what the disk throws, and the old log is then still in place.
 */
export async function compact(
  parts: CompactionParts,
  swap: (compacted: Compacted) => void,
): Promise<void> {
  const { disk, path, from, alone, mayEnd } = parts
  const temporary = `${path}.new`
  await disk.remove(temporary)
  const to = await EntryLog.open(disk, temporary, 'creating')
  if (to === undefined) return
  const copy = new Copy(parts, to)
  let swapped = false
  try {
    for (let before = -1; copy.at > before && from.position - copy.at > littleLeft; ) {
      before = copy.at
      await copy.go()
    }
    await alone(async () => {
      await copy.go()
      if (!mayEnd() || copy.incomplete) return
      const durable = await copy.mark()
      await to.sync()
      await disk.rename(temporary, path)
      copy.place()
      swapped = true
      swap({ log: to, durable })
    })
  } finally {
    if (!swapped) {
      to.close()
      await disk.remove(temporary)
    }
  }
}

/** Two words for each row of the table: where its line stands in the new log, and how long it is. */
const words = 2

class Copy {
  /** How far the old log has been read. */
  at = 0
  /** The disk could not read all of it. */
  incomplete = false
  readonly #parts: CompactionParts
  readonly #to: EntryLog
  /** Where the old log ended at the beginning. */
  readonly #begun: number
  #places = new Float64Array(1024)
  /** Where the new log stood when the first line came that the old one does not call durable. */
  #durable: number | undefined

  constructor(parts: CompactionParts, to: EntryLog) {
    this.#parts = parts
    this.#to = to
    this.#begun = parts.from.position
  }

  /** Copies what is live from where it stopped to the end. */
  async go(): Promise<void> {
    const { from, durable } = this.#parts
    const unreadable = (): void => {
      this.incomplete = true
    }
    for await (const lines of from.lines(this.at, unreadable)) {
      const first = lines.findIndex(({ offset }) => offset >= durable.durable)
      if (this.#durable === undefined && first >= 0) {
        await this.#append(lines.slice(0, first))
        this.#durable = this.#to.position
        await this.#append(lines.slice(first))
      } else await this.#append(lines)
      const last = lines.at(-1)
      if (last !== undefined) this.at = last.offset + last.bytes.length
    }
  }

  async mark(): Promise<Durable> {
    const { unproven } = this.#parts.durable
    const durable = { durable: this.#durable ?? this.#to.position, unproven, clean: false }
    await this.#to.append([encodeRecord({ is: 'durable', ...durable })])
    return durable
  }

  /** Leads the table to the new log. */
  place(): void {
    const { table } = this.#parts
    for (const row of table.rows()) {
      if (table.offset(row) < 0) continue
      table.place(row, this.#places[row * words] ?? 0, this.#places[row * words + 1] ?? 0)
    }
  }

  async #append(lines: readonly Line[]): Promise<void> {
    const kept: Buffer[] = []
    const rows: { readonly row: number; readonly before: number; readonly length: number }[] = []
    let length = 0
    for (const line of lines) {
      const row = this.#rowOf(line)
      const copied = row === undefined ? this.#lasting(line) : this.#renewed(line, row)
      if (copied === undefined) continue
      if (row !== undefined) rows.push({ row, before: length, length: copied.length })
      kept.push(copied)
      length += copied.length
    }
    if (kept.length === 0) return
    const first = await this.#to.append(kept)
    for (const one of rows) this.#moved(one.row, first + one.before, one.length)
  }

  /** The row of an entry whose line is live. */
  #rowOf({ bytes, offset }: Line): number | undefined {
    const key = keyIn(bytes)
    const { table } = this.#parts
    const row = key === undefined ? undefined : table.find(nameOf(key))
    return row !== undefined && table.offset(row) === offset ? row : undefined
  }

  /** A use after the line was written is written into it. */
  #renewed({ bytes }: Line, row: number): Buffer {
    const used = this.#parts.table.used(row)
    if (bytes.toString('latin1', bytes.length - 32).endsWith(`,"used":${used}}\n`)) return bytes
    const record = decodeRecord(bytes)
    return record?.is === 'entry' ? encodeRecord({ ...record, used }) : bytes
  }

  #lasting({ bytes, offset }: Line): Buffer | undefined {
    if (offset < this.#begun) return undefined
    const is = decodeRecord(bytes)?.is
    return is === 'gone' || is === 'uses' ? bytes : undefined
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
