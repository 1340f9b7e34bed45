/**
 * Marks that lapse, on disk: what must outlive a restart. A login or a logout appends a line; all lines are written again only when more
 * have been appended than were alive.
 *
 * One process alone writes them: it owns the directory (`lib/admin-socket.ts`) before it opens them. The user of this file holds the
 * marks in memory. Marks of several files are merged by their user, for whom their order and their number do not matter.
 *
 * # Files
 * `P` is the path that all names begin with, HEX are 16 random digits, new ones at each start.
 *
 *     P.HEX              the file of the running process
 *     P.HEX.HEX.old      left behind when version 1.0.0 was killed during a start
 *     P.json             written by an operator who puts a backup back (authproxy(8)). It has no marks and counts as damaged, on purpose
 *     P.damaged          the last file that could not be read, for a person
 *
 * # Format, version 2
 * `<crc32 of the JSON, 8 hex digits> <JSON>\n`:
 *
 *     {"marks":2,"id":"8d41…"}            first line. The id is the HEX of the name; version 1.0.0 reads no file without one
 *     ["3fa1c0…",1900000000000,…]         a mark and moments, milliseconds since the epoch; what they mean is known to the user of this file
 *     {"end":2}                           behind the marks that were written with the first line, how many they are; marks were appended behind it
 *
 * A last line without its line feed was not confirmed to any caller, and does not count. A file without its `end`, and a
 * whole line that is not one of these, are damage.
 *
 * # Steps, and what a crash or a power cut then leaves
 * | Step | Found after a crash right behind it |
 * |---|---|
 * | 1 a start reads all files | the same files |
 * | 2 it writes all marks to its own file: temporary name, fsync, rename, fsync of the directory | the own file, and those of 1, which say nothing else |
 * | 3 it removes the files of 1; the last damaged one becomes `P.damaged` | a part of them, or all: their marks are merged once more |
 * | 4 lines are appended, fdatasync, and only then confirmed | whole lines, and perhaps a torn one, which was not confirmed |
 * | 5 when more lines are dead than alive, when 4 fails, or when the file is not as it was left: the file is written again, as in 2 | the old file as in 4, or the new one |
 *
 * When 2 or 5 fail, the log says so, the files of 1 stay, and it is tried again each minute and with each line.
 */
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../async/clock.ts'
import { valueUnlessMissing } from '../errors.ts'
import { isRecord } from '../json.ts'
import type { LogFacts, Logger } from '../log/log.ts'
import { writeFileAtomically } from './atomic-file.ts'
import { readBounded } from './bounded-file.ts'
import { type FileCalls, systemFiles } from './file-calls.ts'
import { WatchedFile } from './watched-file.ts'

interface LapsingMarksOptions<Mark> {
  /** The path that the names of all files begin with. */
  readonly path: string
  readonly clock: Clock
  /** All marks that have not lapsed, for a new file. The iteration pauses, and other marks may be entered meanwhile. */
  readonly livingMarks: () => Iterable<Mark>
  readonly isMark: (found: unknown) => found is Mark
  /** Takes the marks of a file that an earlier run has left. */
  readonly merge: (marks: readonly Mark[]) => void
  readonly log: Pick<Logger, 'error'>
  readonly sentences: {
    /** A start could not read a whole file, so that marks of another run are lost. */
    readonly lost: string
    /** Another program has changed the file, which is then written again. */
    readonly changed: string
    /** Marks could not be written; they wait for the next attempt. */
    readonly unwritten: string
  }
  /** Called when marks of another run are lost, before the own file is written. */
  readonly onLoss?: () => void
  readonly files?: FileCalls | undefined
}

/** The state of a file by which a change shows. */
type FileState = Pick<Stats, 'ino' | 'size'>

const VERSION = 2
/** The largest file, in bytes: more than three times the size of 200,000 marks. */
const LARGEST = 64 * 1024 * 1024
/** The lines that are made without a pause, which takes about a millisecond. */
const TOGETHER = 1000
/** A file with fewer appended lines is not written again. */
const FEW = 1000
const ANY = /^(?:[0-9a-f]{16}|json)(?:\.[0-9a-f]{16}\.old)?$/

/** The paths of all files there are of the marks at `path`. */
export async function filesOfMarks(
  path: string,
  { readdir }: Pick<FileCalls, 'readdir'> = systemFiles,
): Promise<readonly string[]> {
  const first = `${basename(path)}.`
  const names = (await valueUnlessMissing(readdir(dirname(path)))) ?? []
  const own = names.filter(name => name.startsWith(first) && ANY.test(name.slice(first.length)))
  return own.map(name => join(dirname(path), name))
}

export class LapsingMarks<Mark extends readonly unknown[]> {
  readonly #options: LapsingMarksOptions<Mark>
  readonly #files: FileCalls
  readonly #id = randomBytes(8).toString('hex')
  readonly #path: string
  readonly #file: WatchedFile
  /** The state in which this process left its file; undefined when the file has to be written again. */
  #left: FileState | undefined
  /** The lines of the file: those of its last complete writing, and those appended since. */
  #written = 0
  #appended = 0
  /** Lines to append. */
  #waiting: string[] = []
  /** The files of earlier runs, until the own file has what they say. Damaged files are kept. */
  #earlier = new Map<string, 'remove' | 'keep'>()

  constructor(options: LapsingMarksOptions<Mark>) {
    const { clock, files = systemFiles } = options
    this.#options = options
    this.#files = files
    this.#path = `${options.path}.${this.#id}`
    this.#file = new WatchedFile({
      path: this.#path,
      clock,
      reportFailure: error => this.#tell('unwritten', error),
      files,
      write: () => this.#write(),
    })
  }

  /** Takes over the files of earlier runs, and watches the own one. It is called once and never throws. */
  async open(): Promise<void> {
    await this.#readEarlier().catch(error => this.#tellLoss(error))
    if (this.#earlier.size > 0) await this.#file.write()
    this.#file.watch()
  }

  /** Writes marks that their user has entered. Answers whether all marks are on disk; the log says why not. Never throws. */
  add(marks: readonly Mark[]): Promise<boolean> {
    for (const mark of marks) this.#waiting.push(lineOf(mark))
    return this.#file.write()
  }

  /** Checks the file now. Never throws. */
  check(): Promise<void> {
    return this.#file.check()
  }

  /** Ends the watch; settles when nothing is being read or written. */
  close(): Promise<void> {
    return this.#file.close()
  }

  #tell(
    what: keyof LapsingMarksOptions<Mark>['sentences'],
    error: unknown,
    more: LogFacts = {},
  ): void {
    const { path, log, sentences } = this.#options
    log.error(sentences[what], { path, error, ...more })
  }

  /** The damaged file becomes `keptAs` when the own file is written. */
  #tellLoss(error: unknown, keptAs?: string): void {
    this.#options.onLoss?.()
    this.#tell('lost', error, { kept_as: keptAs })
  }

  /** Step 1. */
  async #readEarlier(): Promise<void> {
    for (const path of await filesOfMarks(this.#options.path, this.#files)) {
      const damage = await this.#read(path).catch((error: unknown) => error)
      this.#earlier.set(path, damage === undefined ? 'remove' : 'keep')
      if (damage !== undefined) this.#tellLoss(damage, this.#damaged)
    }
  }

  /** Merges the marks of a file; answers why some of them could not be read. Throws when none can. */
  async #read(path: string): Promise<Error | undefined> {
    const { isMark, merge } = this.#options
    const { bytes } = await readBounded(path, LARGEST, this.#files)
    const end = bytes.lastIndexOf('\n') + 1
    const [first = '', ...lines] = bytes.toString('utf8', 0, end).split('\n').slice(0, -1)
    const head = contentOf(first)
    if (!isRecord(head) || head['marks'] !== VERSION) {
      throw new Error('it has another version, or none')
    }
    const marks: Mark[] = []
    let isWhole = false
    let damaged = 0
    for (const line of lines) {
      const content = contentOf(line)
      if (isMark(content)) marks.push(content)
      else if (isRecord(content) && content['end'] === marks.length) isWhole = true
      else damaged += 1
    }
    merge(marks)
    if (damaged > 0) return new Error(`${damaged} of its lines are damaged`)
    return isWhole ? undefined : new Error('it is cut off')
  }

  /** Step 3. The next start reads again the files that cannot be removed. */
  async #letGo(): Promise<void> {
    const { rename, rm } = this.#files
    for (const [path, then] of this.#earlier) {
      if (then === 'remove') await rm(path, { force: true }).catch(() => undefined)
      else {
        await rm(this.#damaged, { force: true, recursive: true }).catch(() => undefined)
        await rename(path, this.#damaged).catch(() => undefined)
      }
    }
    this.#earlier.clear()
  }

  get #damaged(): string {
    return `${this.#options.path}.damaged`
  }

  /** Steps 4 and 5. When it throws, the file is written again the next time. */
  async #write(): Promise<void> {
    const lines = this.#waiting
    this.#waiting = []
    const left = this.#left
    this.#left = undefined
    const isLong = this.#appended + lines.length > Math.max(FEW, this.#written)
    if (left !== undefined && !isLong) this.#left = await this.#append(lines, left)
    this.#left ??= await this.#writeAgain()
  }

  /** Answers undefined, and confirms nothing, when the file is not as this process left it. */
  async #append(lines: readonly string[], left: FileState): Promise<FileState | undefined> {
    // O_NONBLOCK: opening a FIFO in its place would otherwise wait for a reader.
    const how = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK
    const file = await valueUnlessMissing(this.#files.open(this.#path, how))
    if (file === undefined) return undefined
    try {
      const { ino, size } = await file.stat()
      if (ino !== left.ino || size !== left.size) {
        this.#tell('changed', new Error('another program has changed it'))
        return undefined
      }
      if (lines.length === 0) return left
      await file.writeFile(lines.join(''))
      await file.datasync()
      this.#appended += lines.length
      return await file.stat()
    } finally {
      await file.close()
    }
  }

  async #writeAgain(): Promise<FileState | undefined> {
    const files = this.#files
    await writeFileAtomically(this.#path, this.#pieces(), { mode: 0o600, files })
    this.#appended = 0
    await this.#letGo()
    return valueUnlessMissing(files.stat(this.#path))
  }

  *#pieces(): Iterable<string> {
    yield lineOf({ marks: VERSION, id: this.#id })
    let piece: string[] = []
    let written = 0
    for (const mark of this.#options.livingMarks()) {
      piece.push(lineOf(mark))
      written += 1
      if (piece.length < TOGETHER) continue
      yield piece.join('')
      piece = []
    }
    yield `${piece.join('')}${lineOf({ end: written })}`
    this.#written = written
  }
}

function lineOf(content: object): string {
  const json = JSON.stringify(content)
  return `${checkOf(json)} ${json}\n`
}

/** The content of a line; undefined when the line is damaged. */
function contentOf(line: string): unknown {
  const json = line.slice(9)
  return line.slice(0, 9) === `${checkOf(json)} ` ? JSON.parse(json) : undefined
}

function checkOf(json: string): string {
  return crc32(json).toString(16).padStart(8, '0')
}
