/**
 * Marks that are remembered until a moment, in memory and in a file that several processes share: used IDs of messages, sessions that
 * have ended.
 *
 * A mark costs one line at the end of the file, however many are there. The file is written anew when most of its lines say
 * nothing any more.
 *
 * # Format of the file, version 2
 *     {"version":2}
 *     ["<mark>",<until>]
 *     ["<mark>",<until>,<before>]
 * Moments are milliseconds since the epoch. Of several lines of one mark the latest `before` counts, then the latest `until`. A last
 * line without its newline was never finished, and nothing was answered that relied on it. Version 1 was one JSON object, which is
 * read and replaced at the next write.
 */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { unlessMissing } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import { WatchedFile } from './watched-file.ts'

/** What is remembered of a mark. */
export interface Lapse {
  /** It may be forgotten after this. */
  readonly until: Milliseconds
  /** What it is about: all that was made at or before this moment. 0 where that does not matter. */
  readonly before: Milliseconds
}

interface LapsingMarksOptions {
  readonly path: string
  readonly clock: Clock
  /** A larger file is not read, bytes. */
  readonly largest: number
  /** Reads the object of version 1. Throws a sentence when it is not what that version wrote. */
  readonly legacy: (file: Readonly<Record<string, unknown>>) => Iterable<readonly [string, Lapse]>
  /** What is believed of a line of the file; the line itself unless given. */
  readonly believed?: (mark: string, lapse: Lapse) => Lapse
  /** Is told when the file cannot be written, and when one that another process has changed cannot be read. */
  readonly failed: (error: unknown, doing: 'write' | 'read') => void
}

/** How far the file has been read. */
interface Place {
  readonly inode: number
  readonly offset: number
}

/** What a look at the file found. */
interface Found {
  readonly lapses: ReadonlyArray<readonly [string, Lapse]>
  /** Whether these are all lines of the file. */
  readonly whole: boolean
}

const HEAD = '{"version":2}\n'
/** Lines that may say nothing before the file is written anew, beside as many as there are marks. */
const SPARE = 1000
/** How often the file is written anew when another process replaces it meanwhile. */
const TURNS = 3
/** Lines that are made in one turn of the event loop. */
const IN_A_TURN = 5000

export class LapsingMarks {
  readonly #options: LapsingMarksOptions
  readonly #file: WatchedFile
  #lapses = new Map<string, Lapse>()
  /** Marks that are not in the file yet. */
  #pending: string[] = []
  /** Whether the next write is to be of all. */
  #anew = false
  #place: Place | undefined
  /** Lines of the file, about. */
  #lines = 0
  #turn: Promise<void> = Promise.resolve()

  constructor(options: LapsingMarksOptions) {
    const { path, clock, failed } = options
    this.#options = options
    this.#file = new WatchedFile({
      path,
      clock,
      changed: () => this.#changed(),
      write: () => this.#inTurn(() => this.#write()),
      failed: error => failed(error, 'write'),
    })
  }

  /** Reads the file if there is one. Throws one sentence when it cannot be read, or is not what we write. */
  async load(): Promise<void> {
    await this.#file.look()
    await this.#read()
  }

  /** Looks at the file every second from now on. */
  watch(): void {
    this.#file.watch()
  }

  get size(): number {
    return this.#lapses.size
  }

  get(mark: string): Lapse | undefined {
    return this.#lapses.get(mark)
  }

  /** All of them, those that were entered last at the end. Marks may be removed meanwhile. */
  [Symbol.iterator](): Iterator<[string, Lapse]> {
    return this.#lapses.entries()
  }

  /** Enters it in memory; `save` writes it down. */
  set(mark: string, lapse: Lapse): void {
    this.#lapses.delete(mark)
    this.#lapses.set(mark, lapse)
    this.#pending.push(mark)
  }

  /** Forgets one that no longer counts. */
  remove(mark: string): void {
    this.#lapses.delete(mark)
  }

  /** Settles when all that was entered is on disk, or cannot be, which `failed` is told; then it is tried again. Never throws. */
  save(): Promise<boolean> {
    return this.#file.write()
  }

  /** Whether all is on disk. */
  get isWritten(): boolean {
    return this.#file.isWritten
  }

  /** Looks at the file now. Never throws. */
  check(): Promise<void> {
    return this.#file.check()
  }

  /** Ends the watch; settles when nothing is being read or written any more. */
  close(): Promise<void> {
    return this.#file.close()
  }

  /** Another process has changed the file: what it says counts as well, and what it lacks is written again. */
  async #changed(): Promise<void> {
    await this.#inTurn(() => this.#readAgain())
    if (this.#anew) await this.#file.write()
  }

  /** The file is read or written, never both: a file that is just being replaced would seem to be that of another process. */
  #inTurn(act: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(act)
    this.#turn = done.catch(() => undefined)
    return done
  }

  async #readAgain(): Promise<void> {
    try {
      await this.#read()
    } catch (error) {
      this.#options.failed(error, 'read')
      this.#anew = true
    }
  }

  async #write(): Promise<void> {
    // What another process has written since is not to be lost.
    if ((await this.#file.look()) || (this.#place === undefined && !this.#anew)) {
      await this.#readAgain()
    }
    const pending = [...new Set(this.#pending)]
    this.#pending = []
    try {
      const outgrown = this.#lines + pending.length > 2 * this.#lapses.size + SPARE
      const appended = !this.#anew && !outgrown && (await this.#append(pending))
      if (appended) return
      for (let turn = 0; turn < TURNS; turn += 1) {
        await this.#writeAnew()
        if (!this.#anew) return
      }
      throw new Error('another process replaces it all the time')
    } catch (error) {
      this.#anew = true
      throw error
    }
  }

  /** False, and nothing is written, when the file is not there, or is not as it was read; then it has been read again. */
  async #append(marks: readonly string[]): Promise<boolean> {
    const text = marks.map(mark => this.#line(mark)).join('')
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK
    const file = await unlessMissing(open(this.#options.path, flags))
    if (file === undefined) return false
    try {
      if (!(await this.#isReadTo(file))) return false
      await file.appendFile(text)
      await file.datasync()
      this.#lines += marks.length
      await this.#advance(file, Buffer.byteLength(text))
      return true
    } finally {
      await file.close()
    }
  }

  async #writeAnew(): Promise<void> {
    const now = this.#options.clock.now()
    for (const [mark, { until }] of this.#lapses) if (until <= now) this.#lapses.delete(mark)
    const marks = [...this.#lapses.keys()]
    const parts = [HEAD]
    for (let i = 0; i < marks.length; i += IN_A_TURN) {
      const some = marks.slice(i, i + IN_A_TURN)
      parts.push(some.map(mark => this.#line(mark)).join(''))
      await new Promise(resolve => setImmediate(resolve))
    }
    await writeFileAtomically(this.#options.path, parts.join(''), { mode: 0o600 })
    this.#anew = false
    // Another process may have put its own in the place of this one.
    this.#place = undefined
    await this.#readAgain()
  }

  /** Whether the file is the one that was read, to its end; else it is read. */
  async #isReadTo(file: FileHandle): Promise<boolean> {
    const { ino, size } = await file.stat()
    const isSo = ino === this.#place?.inode && size === this.#place.offset
    if (!isSo) await this.#readAgain()
    return isSo
  }

  /** Moves the place behind what was written, and reads what another process has written meanwhile. */
  async #advance(file: FileHandle, length: number): Promise<void> {
    const before = this.#place
    if (before !== undefined) this.#place = { ...before, offset: before.offset + length }
    const { size } = await file.stat()
    if (size === this.#place?.offset) return
    this.#place = undefined
    await this.#readAgain()
  }

  #line(mark: string): string {
    const lapse = this.#lapses.get(mark)
    if (lapse === undefined) return ''
    const { until, before } = lapse
    return `${JSON.stringify(before === 0 ? [mark, until] : [mark, until, before])}\n`
  }

  /** Takes over what the file says beyond what was read before, and notes whether it lacks something. */
  async #read(): Promise<void> {
    const { believed = (_, lapse) => lapse } = this.#options
    const { lapses, whole } = await this.#find()
    const said = new Map<string, Lapse>()
    for (const [mark, found] of lapses) {
      const lapse = believed(mark, found)
      if (lapse !== found) this.#anew = true
      said.set(mark, later(lapse, said.get(mark)))
    }
    const own = this.#lapses
    if (whole) {
      const coming = new Set(this.#pending)
      const isLacking = ([mark, lapse]: readonly [string, Lapse]) =>
        !coming.has(mark) && isLater(lapse, said.get(mark))
      const lacks = [...own].some(isLacking)
      if (lacks) this.#anew = true
      this.#lapses = new Map()
      const all = new Map([...said, ...[...own].map(keepLater(said))])
      const inOrder =
        own.size === 0 ? [...all] : [...all].sort(([, a], [, b]) => a.before - b.before)
      for (const [mark, lapse] of inOrder) this.#lapses.set(mark, lapse)
      return
    }
    for (const [mark, lapse] of said) {
      if (isLater(lapse, own.get(mark))) {
        own.delete(mark)
        own.set(mark, lapse)
      }
    }
  }

  /** The lines that have come since the last look; all of them when the file is another one. */
  async #find(): Promise<Found> {
    const { path, largest, legacy } = this.#options
    const before = this.#place
    this.#place = undefined
    // O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    const file = await unlessMissing(open(path, constants.O_RDONLY | constants.O_NONBLOCK))
    if (file === undefined) return { lapses: [], whole: true }
    try {
      const stats = await file.stat()
      if (!stats.isFile()) throw new Error('it is not a regular file')
      if (stats.size > largest) throw new Error(`it is larger than ${largest} bytes`)
      const goesOn = before?.inode === stats.ino && stats.size >= before.offset
      const from = goesOn ? before.offset : 0
      const bytes = Buffer.alloc(stats.size - from)
      const { bytesRead } = await file.read(bytes, 0, bytes.length, from)
      const read = bytes.subarray(0, bytesRead)
      if (!goesOn && !read.includes(LINE_FEED)) {
        this.#anew = true
        return { lapses: [...legacy(versionOne(read))], whole: true }
      }
      const end = read.lastIndexOf(LINE_FEED) + 1
      // A line that was not finished is not to be continued by another one.
      if (end < read.length) this.#anew = true
      const [first, ...others] = read.toString('utf8', 0, end).split('\n').slice(0, -1)
      const lines = goesOn ? [first, ...others].filter(line => line !== undefined) : others
      if (!goesOn && `${first}\n` !== HEAD) throw new Error('it has another version, or none')
      this.#lines = goesOn ? this.#lines + lines.length : lines.length
      const lapses = lines.map(lapseOf)
      this.#place = { inode: stats.ino, offset: from + end }
      return { lapses, whole: !goesOn }
    } finally {
      await file.close()
    }
  }
}

const LINE_FEED = 0x0a

function versionOne(bytes: Buffer): Readonly<Record<string, unknown>> {
  const file: unknown = JSON.parse(bytes.toString())
  if (!isRecord(file) || file['version'] !== 1) throw new Error('it has another version, or none')
  return file
}

function lapseOf(line: string): readonly [string, Lapse] {
  const found: unknown = JSON.parse(line)
  const [mark, until, before = 0]: readonly unknown[] = Array.isArray(found) ? found : []
  const areMoments = typeof until === 'number' && typeof before === 'number'
  if (typeof mark !== 'string' || !areMoments)
    throw new Error('one of its lines is of another form')
  return [mark, { until, before }]
}

function isLater(one: Lapse, other: Lapse | undefined): boolean {
  if (other === undefined || one.before > other.before) return true
  return one.before === other.before && one.until > other.until
}

function later(one: Lapse, other: Lapse | undefined): Lapse {
  return other === undefined || isLater(one, other) ? one : other
}

function keepLater(said: ReadonlyMap<string, Lapse>) {
  return ([mark, lapse]: readonly [string, Lapse]) => [mark, later(lapse, said.get(mark))] as const
}
