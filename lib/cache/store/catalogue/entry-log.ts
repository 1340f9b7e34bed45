/**
 * The log of entries: a file of lines, each with its checksum. Lines are appended at a known position and read in order.
 *
 * A failed append does not move the position, and the next append cuts off the bytes that it may have written. A torn last line of an
 * earlier process is not cut off: the next line begins after a line feed. The caller passes over lines that cannot be decoded.
 */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Seconds } from '../../../async/clock.ts'
import { isCount, isRecord, type JsonObject } from '../../../json.ts'
import { type Disk, type DiskFile, DiskHung, isDigest, type OpenMode } from '../disk/disk.ts'
import { checkEntry, type Entry } from '../entry.ts'

/** A line of the log, which may be damaged. */
export interface LogLine {
  readonly offset: number
  readonly bytes: Buffer
}

/** The number of bytes that are read at once; decoding them takes some milliseconds. */
const pieceBytes = 256 * 1024

export class EntryLog {
  /** The position of the next line; in a reader, the position up to which it has read. */
  position = 0
  /** The inode and the generation in the first line distinguish this log from one that replaces it. */
  inode = 0
  generation = randomBytes(8).toString('hex')
  readonly #file: DiskFile
  /** Whether the file may have bytes of a failed append after the position. */
  #torn = false
  /** Whether the last line may lack its line feed. */
  #open = false
  /** Whether this process appends lines. Then the log ends at the position, and later bytes do not belong to it. */
  #appending = false
  #closed = false

  private constructor(file: DiskFile) {
    this.#file = file
  }

  static async open(disk: Disk, path: string, how: OpenMode): Promise<EntryLog> {
    const file = await disk.open(path, how)
    const log = new EntryLog(file)
    log.inode = (await file.look()).ino
    const first = await file.bytes(0, 256).catch(() => Buffer.alloc(0))
    const record = decodeRecord(first.subarray(0, first.indexOf('\n') + 1))
    if (record?.is === 'header') log.generation = record.generation
    return log
  }

  /** Appends lines and answers the position of the first. Throws what the file system throws; the log has none of the lines then. */
  async append(lines: readonly Buffer[]): Promise<number> {
    const { position } = this
    this.#appending = true
    if (this.#torn) await this.#file.truncate(position)
    const before =
      position === 0
        ? encodeRecord({ is: 'header', generation: this.generation })
        : Buffer.from(this.#open ? '\n' : '')
    const bytes = Buffer.concat([before, ...lines])
    this.#torn = true
    await this.#file.put(bytes, position)
    this.#torn = false
    this.#open = false
    this.position = position + bytes.length
    return position + before.length
  }

  async record(offset: number, length: number): Promise<LogRecord | undefined> {
    return decodeRecord(await this.#file.bytes(offset, length))
  }

  async size(): Promise<number> {
    return (await this.#file.look()).size
  }

  /** Visits the lines from the position on, and moves the position to the end of the last whole line. */
  async follow(
    visit: (line: LogLine) => void,
    unreadable: (error: unknown) => void,
  ): Promise<void> {
    for await (const lines of this.lines(this.position, unreadable)) {
      for (const line of lines) {
        this.position = line.offset + line.bytes.length
        visit(line)
      }
    }
  }

  /** Moves the position to the end of the file, so that lines can be appended. */
  async toEnd(): Promise<void> {
    const size = await this.size()
    this.#open = size > this.position
    this.position = size
    this.#appending = true
  }

  /**
   * The lines from `from` to the end of the log, some at a time, also lines that are appended meanwhile. Passes over a part that the disk
   * cannot read and calls `unreadable`. Throws `DiskHung`, and the error of a log that is closed before the end.
   */
  async *lines(
    from: number,
    unreadable: (error: unknown) => void,
  ): AsyncGenerator<readonly LogLine[]> {
    let rest: Buffer = Buffer.alloc(0)
    let size = 0
    for (let at = from; ; ) {
      if (at >= size) size = this.#appending ? this.position : await this.size()
      if (at >= size) return
      const wanted = Math.min(pieceBytes, size - at)
      const piece = await this.#file.bytes(at, wanted).catch((error: unknown) => {
        if (error instanceof DiskHung || this.#closed) throw error
        unreadable(error)
        return undefined
      })
      if (piece?.length === 0) return
      at += piece?.length ?? wanted
      // Bytes that are longer than any line are not a line, nor is the rest of a line of which a part cannot be read.
      const before = piece === undefined || rest.length > maxLine ? Buffer.from('?') : rest
      const bytes = Buffer.concat([before, piece ?? Buffer.alloc(0)])
      const { lines, end } = split(bytes, at - bytes.length)
      rest = bytes.subarray(end)
      yield lines
    }
  }

  sync(): Promise<void> {
    return this.#file.sync()
  }

  close(): void {
    this.#closed = true
    this.#file.close()
  }
}

/** The whole lines in `bytes`, which begin at `offset` of the log, and the end of the last line in `bytes`. */
function split(bytes: Buffer, offset: number): { readonly lines: LogLine[]; readonly end: number } {
  const lines: LogLine[] = []
  let begin = 0
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
    // An empty line is no error: `append` may begin with a line feed after a torn line.
    if (end > begin) lines.push({ offset: offset + begin, bytes: bytes.subarray(begin, end + 1) })
    begin = end + 1
  }
  return { lines, end: begin }
}

/*
 * One line of the log of entries: encoding, and decoding without any trust in the bytes. This part is pure. docs/decisions/0027 has the
 * format of each line. JSON has no raw line feed, so damage ends with its line.
 */

export type LogRecord =
  | { readonly is: 'header'; readonly generation: string }
  | { readonly is: 'entry'; readonly entry: Entry; readonly used: Seconds }
  | { readonly is: 'uses'; readonly uses: readonly Use[] }
  | { readonly is: 'gone'; readonly gone: readonly string[] }
  | ({ readonly is: 'durable' } & DurableMark)

export type Use = readonly [name: string, at: Seconds]

/** A mark of a checkpoint: contents that entries before the position `durable` name survive a power cut. */
export interface DurableMark {
  readonly durable: number
  /** Digests that entries before the position name and that must be hashed before they are used. */
  readonly unproven: readonly string[]
  /** Whether the log was closed in order, with this mark as its last line. */
  readonly clean: boolean
}

const logVersion = 2

/** Longest line that is read, bytes. */
export const maxLine = 1024 * 1024

/** The line of a record, with its checksum and line feed. */
export function encodeRecord({ is, ...record }: LogRecord): Buffer {
  return seal(is === 'header' ? { log: logVersion, ...record } : record)
}

/** The record in a line, which includes its line feed; undefined when the line is damaged or unknown. */
export function decodeRecord(line: Buffer): LogRecord | undefined {
  const value = unseal(line)
  if (value === undefined) return undefined
  const { log, generation, entry, used, uses, gone, durable, unproven, clean } = value
  if (isRecord(entry)) {
    const checked = checkEntry(entry)
    if (checked.entry === undefined || !isCount(used)) return undefined
    return { is: 'entry', entry: checked.entry, used }
  }
  if (Array.isArray(uses)) return uses.every(isUse) ? { is: 'uses', uses } : undefined
  if (Array.isArray(gone)) return gone.every(isName) ? { is: 'gone', gone } : undefined
  if (isCount(durable) && isDigests(unproven)) {
    return { is: 'durable', durable, unproven, clean: clean === true }
  }
  if (log === logVersion && isName(generation)) return { is: 'header', generation }
  return undefined
}

/** The key in the line of an entry. It is faster than `decodeRecord`: the checksum is compared, and only the key is decoded. */
export function keyInLine(line: Buffer): string | undefined {
  const key = PLAIN_ENTRY.exec(line.toString('latin1', 9, 2048))?.[1]
  if (key !== undefined) return isSealed(line) ? key : undefined
  const record = decodeRecord(line)
  return record?.is === 'entry' ? record.entry.key : undefined
}

/** The beginning of an entry whose key needs no escapes in JSON, as no canonical key does. */
const PLAIN_ENTRY = /^\{"entry":\{"key":"([\x20\x21\x23-\x5b\x5d-\x7e]+)",/

/** A line of JSON with its checksum. */
export function seal(value: JsonObject): Buffer {
  const json = JSON.stringify(value)
  return Buffer.from(`${crc32(json).toString(16).padStart(8, '0')} ${json}\n`)
}

/** The JSON object in a sealed line, which includes its line feed; undefined for any other line. */
export function unseal(line: Buffer): JsonObject | undefined {
  if (!isSealed(line)) return undefined
  try {
    const value: unknown = JSON.parse(line.toString('utf8', 9))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Whether the JSON of a line has the checksum with which the line begins. */
export function isSealed(line: Buffer): boolean {
  if (line.length < 12 || line[8] !== 0x20 || line.at(-1) !== 0x0a) return false
  return Number.parseInt(line.toString('latin1', 0, 8), 16) === crc32(line.subarray(9, -1))
}

function isUse(value: unknown): value is Use {
  return Array.isArray(value) && value.length === 2 && isName(value[0]) && isCount(value[1])
}

export function isDigests(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(one => typeof one === 'string' && isDigest(one))
}

export function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value)
}

const NAME = /^[0-9a-f]{16}$/
