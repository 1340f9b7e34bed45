/**
 * Marks that lapse, on disk: what must outlive a restart and count for a second process of the same instance. A login or a logout
 * appends a line; all lines are written anew only when as many have been appended as live.
 *
 * The user of this file holds the marks in memory. Marks of several files are merged by their user, for whom their order and
 * their number do not matter.
 *
 * # Files
 * `P` is the path that all names begin with, HEX are 16 random digits, new ones for each name.
 *
 *     P.HEX              the file of a process, which alone writes it
 *     P.HEX.HEX.old      a file that a start takes over; nothing is confirmed by it any more
 *     P.json             written by versions before 0.2.0, in one piece; also P.json.HEX.old
 *     P.damaged          the last file that could not be read, for a person
 *
 * # Format, version 2
 * `<crc32 of the JSON, 8 hex digits> <JSON>\n`:
 *
 *     {"marks":2,"id":"8d41…"}            first line; the file has a new id each time it is written anew
 *     ["3fa1c0…",1900000000000,…]         a mark and moments, milliseconds since the epoch; what they mean is known to the user of this file
 *     {"end":2}                           behind the marks that were written with the first line, how many they are; marks were appended behind it
 *
 * A last line without its line feed was not confirmed to any caller, and does not count. A file without its `end`, and a whole line that
 * is none of these, are damage.
 *
 * # Who does what, and what a crash or a power cut then leaves
 * | Step | Done by | Found after a crash right behind it |
 * |---|---|---|
 * | 1 rename each file of another process to `P.HEX.HEX.old` | a start | both names count alike; the owner, if it runs, notices in 5 or 6 |
 * | 2 read them, all after 1; a file that is missing was taken by another start: list the names again | a start | the same |
 * | 3 write its own file anew: temporary name, fsync, rename, fsync of the directory | a start | the own file, and those of 1, which say nothing else |
 * | 4 remove the files of 1; the last damaged one becomes `P.damaged` | a start | a part of them, or all: their marks are merged once more |
 * | 5 append lines, fdatasync | the owner | whole lines, and perhaps a torn one, which was not confirmed |
 * | 6 look whether its path still has the inode that it wrote to; only then the lines are confirmed | the owner | the lines |
 * | 7 when not, when 5 fails, or when the file is not as it left it: write the file anew, as in 3 | the owner | the old file as in 5, or the new one |
 * | 8 each second: read what has been appended to the files of others | each process | nothing is written |
 *
 * A confirmed line was in the file before 1, so that 2 has read it, or is in a file that no start has taken yet. Whether another process
 * lives is never asked. Where files cannot be renamed (a read-only file system), they are read and left, and 3 fails, which is told; it is
 * tried again each minute and with each line.
 */
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../async/clock.ts'
import { systemCode, valueUnlessMissing } from '../errors.ts'
import { isRecord } from '../json.ts'
import type { LogFacts, Logger } from '../log/log.ts'
import { writeFileAtomically } from './atomic-file.ts'
import { readBounded } from './bounded-file.ts'
import { type FileCalls, systemFiles } from './file-calls.ts'
import { appearance, WatchedFile } from './watched-file.ts'

interface LapsingMarksOptions<Mark> {
  /** The path that the names of all files begin with. */
  readonly path: string
  readonly clock: Clock
  /** All marks that have not lapsed, for a new file. The iteration pauses, and other marks may be entered meanwhile. */
  readonly livingMarks: () => Iterable<Mark>
  readonly isMark: (found: unknown) => found is Mark
  /** The marks of a `P.json`. Throws one sentence when it is of another form. */
  readonly fromVersion1: (file: unknown) => readonly Mark[]
  /** Takes marks from a file; known marks may be among them. */
  readonly merge: (marks: readonly Mark[]) => void
  readonly log: Pick<Logger, 'error'>
  readonly sentences: {
    /** A start could not read a whole file, so that marks of another run are lost. */
    readonly lost: string
    /** A file of another process cannot be read, or the own file was changed; the own file is then written anew. */
    readonly unreadable: string
    /** Marks could not be written; they wait for the next attempt. */
    readonly unwritten: string
  }
  /** Called when marks of another run are lost, before the own file is written. */
  readonly onLoss?: () => void
  readonly files?: FileCalls | undefined
}

/** The state of a file by which a change shows. */
type FileState = Pick<Stats, 'ino' | 'size'>

/** The facts about a file of another process. */
interface OtherFile {
  readonly appearance: string | undefined
  readonly id: string | undefined
  /** The number of bytes that have been read. */
  readonly end: number
}

interface FoundMarks<Mark> extends Omit<OtherFile, 'appearance'> {
  readonly marks: readonly Mark[]
  /** The reason why some marks could not be read. */
  readonly damage: string | undefined
}

const VERSION = 2
/** The largest file, in bytes: more than three times the size of 200,000 marks. */
const LARGEST = 64 * 1024 * 1024
/** The lines that are made without a pause, which takes about a millisecond. */
const TOGETHER = 1000
/** A file with fewer appended lines is not written anew. */
const FEW = 1000
/** The most repetitions of a takeover, when starts of other processes take files away meanwhile. */
const MOST_ROUNDS = 100
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
  readonly #path: string
  readonly #file: WatchedFile
  /** The state in which this process left its file; undefined when the file has to be written anew. */
  #left: FileState | undefined
  /** The lines of the own file: those of its first writing, and those appended since. */
  #written = 0
  #appended = 0
  /** Lines to append. */
  #waiting: string[] = []
  #others = new Map<string, OtherFile>()
  /** The files that this start has taken over, until its own file is written. Damaged files are kept. */
  #taken = new Map<string, 'remove' | 'keep'>()

  constructor(options: LapsingMarksOptions<Mark>) {
    const { clock, files = systemFiles } = options
    this.#options = options
    this.#files = files
    this.#path = `${options.path}.${newDigits()}`
    this.#file = new WatchedFile({
      path: this.#path,
      clock,
      reportFailure: error => this.#tell('unwritten', error),
      files,
      write: () => this.#write(),
    })
  }

  /** Takes over the files of earlier runs, and watches all files. It is called once and never throws. */
  async open(): Promise<void> {
    await this.#takeOver().catch(error => this.#tellLoss(error, undefined))
    if (this.#others.size > 0) await this.#file.write()
    this.#file.watch(() => this.check())
  }

  /** Writes marks that their user has entered. Answers whether all marks are on disk; the log says why not. Never throws. */
  add(marks: readonly Mark[]): Promise<boolean> {
    for (const mark of marks) this.#waiting.push(lineOf(mark))
    return this.#file.write()
  }

  /** Checks all files now. Never throws. */
  async check(): Promise<void> {
    await this.#file.check()
    await this.#readOthers().catch(error => this.#tell('unreadable', error))
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
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
  #tellLoss(error: unknown, keptAs: string | undefined): void {
    this.#options.onLoss?.()
    this.#tell('lost', error, { kept_as: keptAs })
  }

  /** Steps 1 and 2. */
  async #takeOver(): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const names = await filesOfMarks(this.#options.path, this.#files)
      const left = names.filter(name => !this.#others.has(name))
      if (left.length === 0) return
      for (const name of left) await this.#take(name)
    }
    throw new Error('other processes took its files away again and again')
  }

  /** Does nothing when the file is missing. */
  async #take(name: string): Promise<void> {
    const path = await this.#setAside(name)
    if (path === undefined) return
    const renamed = path.endsWith('.old')
    const other = await this.#readOther(path, await appearance(path, this.#files), error => {
      if (renamed) this.#taken.set(path, 'keep')
      this.#tellLoss(error, renamed ? this.#damaged : undefined)
    })
    if (other === undefined) return
    this.#others.set(path, other)
    if (renamed && !this.#taken.has(path)) this.#taken.set(path, 'remove')
  }

  /** The new name of the file, or the old one where it cannot be renamed; undefined when it is missing. */
  async #setAside(name: string): Promise<string | undefined> {
    if (name.endsWith('.old')) return name
    // The name is new each time, so that the file removed later is the one that was read.
    const aside = `${name}.${newDigits()}.old`
    try {
      await this.#files.rename(name, aside)
      return aside
    } catch (error) {
      return systemCode(error) === 'ENOENT' ? undefined : name
    }
  }

  /** Step 4. The next start reads again the files that cannot be removed. */
  async #letGo(): Promise<void> {
    const { rename, rm } = this.#files
    for (const [path, then] of this.#taken) {
      if (then === 'remove') await rm(path, { force: true }).catch(() => undefined)
      else {
        await rm(this.#damaged, { force: true, recursive: true }).catch(() => undefined)
        await rename(path, this.#damaged).catch(() => undefined)
      }
    }
    this.#taken.clear()
  }

  get #damaged(): string {
    return `${this.#options.path}.damaged`
  }

  /** Steps 5 to 7. When it throws, the file is written anew the next time. */
  async #write(): Promise<void> {
    const lines = this.#waiting
    this.#waiting = []
    const left = this.#left
    this.#left = undefined
    const long = this.#appended + lines.length > Math.max(FEW, this.#written)
    if (left !== undefined && !long) this.#left = await this.#append(lines, left)
    this.#left ??= await this.#writeAnew()
  }

  /** Answers undefined, and confirms nothing, when the file is not as this process left it, or is no longer at its path. */
  async #append(lines: readonly string[], left: FileState): Promise<FileState | undefined> {
    const { open, stat } = this.#files
    // O_NONBLOCK: opening a FIFO in its place would otherwise wait for a reader.
    const how = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK
    const file = await valueUnlessMissing(open(this.#path, how))
    if (file === undefined) return undefined
    try {
      const { ino, size } = await file.stat()
      if (ino !== left.ino || size !== left.size) {
        this.#tell('unreadable', new Error('another program has changed it'))
        return undefined
      }
      if (lines.length === 0) return left
      await file.writeFile(lines.join(''))
      await file.datasync()
      const after = await file.stat()
      // A start renames the file before it reads it. The inode is not free while the file is open.
      if ((await valueUnlessMissing(stat(this.#path)))?.ino !== ino) return undefined
      this.#appended += lines.length
      return after
    } finally {
      await file.close()
    }
  }

  /** Answers undefined when another process has taken over the new file at once, with all its marks. */
  async #writeAnew(): Promise<FileState | undefined> {
    const files = this.#files
    await writeFileAtomically(this.#path, this.#pieces(), { mode: 0o600, files })
    this.#appended = 0
    await this.#letGo()
    return valueUnlessMissing(files.stat(this.#path))
  }

  *#pieces(): Iterable<string> {
    yield lineOf({ marks: VERSION, id: newDigits() })
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

  /** Step 8. */
  async #readOthers(): Promise<void> {
    const others = new Map<string, OtherFile>()
    for (const name of await filesOfMarks(this.#options.path, this.#files)) {
      if (name === this.#path) continue
      const before = this.#others.get(name)
      const seen = await appearance(name, this.#files)
      const isRead = before !== undefined && (before.appearance === seen || this.#taken.has(name))
      const other = isRead
        ? before
        : await this.#readOther(name, seen, error => this.#tell('unreadable', error))
      if (other !== undefined) others.set(name, other)
    }
    this.#others = others
  }

  /** Merges the marks of a file of another process, and calls `problem` for what cannot be read; undefined when it is missing. */
  async #readOther(
    path: string,
    seen: string | undefined,
    problem: (error: unknown) => void,
  ): Promise<OtherFile | undefined> {
    try {
      const found = await valueUnlessMissing(this.#read(path))
      if (found === undefined) return undefined
      this.#options.merge(found.marks)
      if (found.damage !== undefined) problem(new Error(found.damage))
      return { appearance: seen, id: found.id, end: found.end }
    } catch (error) {
      problem(error)
      return { appearance: seen, id: undefined, end: 0 }
    }
  }

  /** Reads a file from where the last reading ended, under whichever name. Throws one sentence when nothing can be read. */
  async #read(path: string): Promise<FoundMarks<Mark>> {
    const { isMark, fromVersion1 } = this.#options
    const { bytes } = await readBounded(path, LARGEST, this.#files)
    if (basename(path).startsWith(`${basename(this.#options.path)}.json`)) {
      const marks = fromVersion1(JSON.parse(bytes.toString()))
      return { id: undefined, end: bytes.length, marks, damage: undefined }
    }
    const first = bytes.indexOf('\n') + 1
    const head = contentOf(bytes.toString('utf8', 0, Math.max(0, first - 1)))
    if (!isRecord(head) || head['marks'] !== VERSION || typeof head['id'] !== 'string') {
      throw new Error('it has another version, or none')
    }
    const { id } = head
    const before = [...this.#others.values()].find(other => other.id === id)
    const from = before?.end ?? first
    const end = bytes.lastIndexOf('\n') + 1
    const lines = bytes.toString('utf8', from, end).split('\n').slice(0, -1)
    const marks: Mark[] = []
    let whole = before !== undefined
    let damaged = 0
    for (const line of lines) {
      const content = contentOf(line)
      if (isMark(content)) marks.push(content)
      else if (isRecord(content) && content['end'] === marks.length) whole = true
      else damaged += 1
    }
    const cut = whole ? undefined : 'it is cut off'
    const damage = damaged === 0 ? cut : `${damaged} of its lines are damaged`
    return { id, end, marks, damage }
  }
}

function newDigits(): string {
  return randomBytes(8).toString('hex')
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
