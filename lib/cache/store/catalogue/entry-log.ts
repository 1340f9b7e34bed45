/**
 * The log of entries as a file: appended to at a known position, read line by line.
 *
 * A failed append leaves the position where it was, and what it may have written is cut off before the next one. A log whose
 * last line is torn is not cut: the next line begins after a line feed. What cannot be decoded is for the caller to pass over.
 */
import { randomBytes } from 'node:crypto'
import { type Disk, type DiskFile, DiskHung, type OpenMode } from '../disk/disk.ts'
import { decodeRecord, encodeRecord, type LogRecord, maxLine } from './record.ts'

/** A line of the log, which may be damaged. */
export interface LogLine {
  readonly offset: number
  readonly bytes: Buffer
}

/** How much is read at once: some milliseconds of decoding. */
const pieceBytes = 256 * 1024

export class EntryLog {
  /** Where the next line will stand; also how far a reader has read. */
  position = 0
  /** Tells this log from the one that took its place: a number the file system gives, and what its first line says. */
  inode = 0
  generation = randomBytes(8).toString('hex')
  readonly #file: DiskFile
  /** Something may stand behind the position. */
  #torn = false
  /** The last line may be without its end. */
  #open = false
  /** Lines are appended here, so that the log ends at the position: what stands behind is not yet part of it, or never. */
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

  /** Appends lines. Answers where the first of them stands. Throws what the file system throws; nothing is there then. */
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

  /** Reads on from the position to the last whole line, which is then the position. */
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

  /** Moves the position to the end of the file, to append there. */
  async toEnd(): Promise<void> {
    const size = await this.size()
    this.#open = size > this.position
    this.position = size
    this.#appending = true
  }

  /**
   * The lines from `from` to the end of the log, some at a time; also those that are appended meanwhile. Passes over what the
   * disk cannot read and tells `unreadable`. Throws `DiskHung`, and when the log is closed before the end.
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
      // What is longer than any line is none, and what is left of one that cannot be read is none either.
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

/** The whole lines in `bytes`, which stand at `offset`, and where the last of them ends. */
function split(bytes: Buffer, offset: number): { readonly lines: LogLine[]; readonly end: number } {
  const lines: LogLine[] = []
  let begin = 0
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
    // An empty line parts a torn one from the next.
    if (end > begin) lines.push({ offset: offset + begin, bytes: bytes.subarray(begin, end + 1) })
    begin = end + 1
  }
  return { lines, end: begin }
}
