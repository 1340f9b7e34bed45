/**
 * The only way from the store to the file system: files and directories, every operation with a deadline.
 *
 * Paths come from `Layout`. Operations on blocks of content take callbacks, because a promise for each block is too slow. Operations that
 * happen once for a file return promises.
 */

import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Failure, systemCode, valueUnlessMissing } from '../../../errors.ts'
import { fromTo, type Owner } from '../../../files/directory-owner.ts'
import type { Logger } from '../../../log/log.ts'
import { type Member, Members } from '../../../members.ts'

/** The functions of `node:fs` that the store uses. Tests pass functions that fail or never answer. */
export interface FileLayer {
  open(path: string, flags: number, mode: number, end: End<number>): void
  close(fd: number, end: End<void>): void
  fstat(fd: number, end: End<fs.Stats>): void
  readv(fd: number, into: readonly Buffer[], position: number, end: End<number>): void
  writev(fd: number, from: readonly Buffer[], position: number, end: End<number>): void
  fdatasync(fd: number, end: End<void>): void
  ftruncate(fd: number, length: number, end: End<void>): void
  rename(from: string, to: string, end: End<void>): void
  unlink(path: string, end: End<void>): void
  rm(path: string, options: { recursive: true; force: true }, end: End<void>): void
  mkdir(path: string, options: { recursive: true }, end: End<string | undefined>): void
  readdir(path: string, end: End<string[]>): void
  lstat(path: string, end: End<fs.Stats>): void
  statfs(path: string, end: End<fs.StatsFs>): void
}

/** The objects that every part of the store works with. */
export interface Surroundings {
  readonly disk: Disk
  readonly layout: Layout
  readonly clock: Clock
  readonly log: Logger
}

export interface DiskOptions extends SlotsOptions {
  readonly files?: FileLayer
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants

/** The flags of each mode. Without O_NONBLOCK an open of a pipe of that name would block a thread for ever. */
const flags = {
  reading: O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
  writing: O_RDWR | O_CREAT | O_NOFOLLOW,
  creating: O_RDWR | O_CREAT | O_EXCL,
} as const

/**
 * - reading: opens an existing file
 * - writing: opens or creates a file
 * - creating: creates a file that must not exist, and its directory when that is missing
 */
export type OpenMode = keyof typeof flags

/** A flush may take this many deadlines. */
const flushing = 6

/** The error codes for a path without a file: the file is missing, or a part of the path is not a directory. */
const noName = ['ENOENT', 'ENOTDIR']

export class Disk {
  readonly #files: FileLayer
  readonly #slots: Slots

  constructor({ files = fs, ...options }: DiskOptions) {
    this.#files = files
    this.#slots = new Slots(options)
  }

  /** Whether an operation is past its deadline; every new operation then fails at once. */
  get hung(): boolean {
    return this.#slots.hung
  }

  async open(path: string, how: OpenMode): Promise<DiskFile> {
    const open = (): Promise<number> =>
      this.#wait({
        begin: end => this.#files.open(path, flags[how], 0o644, end),
        over: late => late !== undefined && closeSoon(this.#files, this.#slots, late),
      })
    const fd = await (how === 'creating' ? this.#inDirectoryOf(path, open) : open())
    return new DiskFile(fd, this.#files, this.#slots)
  }

  openIfThere(path: string): Promise<DiskFile | undefined> {
    return valueUnlessMissing(this.open(path, 'reading'), noName)
  }

  /**
   * Renames a file and replaces any file of the new name. Makes the new directory when it is missing. A rename that has failed has not
   * happened and will not happen later.
   */
  rename(from: string, to: string): Promise<void> {
    return this.#inDirectoryOf(to, () =>
      this.#wait({ begin: end => this.#files.rename(from, to, end), certain: true }),
    )
  }

  /** Calls `act`. When it fails because the directory of `path` is missing, makes the directory and calls `act` again. */
  async #inDirectoryOf<T>(path: string, act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
      await this.makeDirectory(dirname(path))
      return act()
    }
  }

  /** Removes a file. Answers whether it existed. */
  async remove(path: string): Promise<boolean> {
    const removed = this.#wait<void>({ begin: end => this.#files.unlink(path, end) })
    return (
      (await valueUnlessMissing(
        removed.then(() => true),
        noName,
      )) ?? false
    )
  }

  removeTree(path: string): Promise<void> {
    const options = { recursive: true, force: true } as const
    return this.#wait({ begin: end => this.#files.rm(path, options, end) })
  }

  async makeDirectory(path: string): Promise<void> {
    // Node's recursive mkdir tries for ever where the kernel refuses to make a directory.
    if (/^\/(proc|sys)\//.test(path)) {
      throw Object.assign(new Error(`no directory can be made at ${path}`), { code: 'ENOENT' })
    }
    await this.#wait({ begin: end => this.#files.mkdir(path, { recursive: true }, end) })
  }

  /** The names in a directory; none when it does not exist or is not a directory. */
  async names(directory: string): Promise<readonly string[]> {
    const listed = this.#wait<string[]>({ begin: end => this.#files.readdir(directory, end) })
    return (await valueUnlessMissing(listed, noName)) ?? []
  }

  /** The status of a path; undefined when it does not exist. Links are not followed. */
  look(path: string): Promise<fs.Stats | undefined> {
    const found = this.#wait<fs.Stats>({ begin: end => this.#files.lstat(path, end) })
    return valueUnlessMissing(found, noName)
  }

  space(path: string): Promise<fs.StatsFs> {
    return this.#wait({ begin: end => this.#files.statfs(path, end) })
  }

  async syncDirectory(path: string): Promise<void> {
    const directory = await this.open(path, 'reading')
    try {
      await directory.sync()
    } finally {
      directory.close()
    }
  }

  #wait<T>(operation: Operation<T>): Promise<T> {
    return waited(done => this.#slots.run(operation, done))
  }
}

/** Whether the error says that this process lacks the permission. Such an error concerns one file or directory, not the whole disk. */
export function isForbidden(error: unknown): boolean {
  return ['EACCES', 'EPERM'].includes(systemCode(error) ?? '')
}

type FileOperation<T> = Pick<Operation<T>, 'begin' | 'over' | 'patience'>

/** An open file. After `close` it is closed when its last operation has ended. */
export class DiskFile {
  readonly #fd: number
  readonly #files: FileLayer
  readonly #slots: Slots
  #busy = 0
  #closing = false

  constructor(fd: number, files: FileLayer, slots: Slots) {
    this.#fd = fd
    this.#files = files
    this.#slots = slots
  }

  /**
   * Reads as many bytes as the buffers hold from `position` on, or fewer at the end of the file. `over` is called when the kernel no
   * longer uses the buffers. After a missed deadline that is later than `done`.
   */
  read(into: readonly Buffer[], position: number, done: End<number>, over?: () => void): void {
    this.#run({ begin: this.#vector('readv', into, position), over }, done)
  }

  /** Writes the buffers at `position` and answers how many bytes the disk took. `over` is called as in `read`. */
  write(from: readonly Buffer[], position: number, done: End<number>, over?: () => void): void {
    this.#run({ begin: this.#vector('writev', from, position), over }, done)
  }

  /** Reads `length` bytes from `position` on, or fewer at the end of the file. */
  async bytes(position: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(length)
    return bytes.subarray(0, await this.#all('readv', bytes, position))
  }

  /** Writes all of `bytes` at `position`. Throws what the file system throws, for example ENOSPC; some bytes may be written then. */
  async put(bytes: Buffer, position: number): Promise<void> {
    const written = await this.#all('writev', bytes, position)
    if (written < bytes.length) throw new Error('the disk took no bytes')
  }

  sync(): Promise<void> {
    return this.#wait({
      begin: end => this.#files.fdatasync(this.#fd, end),
      patience: flushing,
    })
  }

  truncate(length: number): Promise<void> {
    return this.#wait({ begin: end => this.#files.ftruncate(this.#fd, length, end) })
  }

  look(): Promise<fs.Stats> {
    return this.#wait({ begin: end => this.#files.fstat(this.#fd, end) })
  }

  /** Closes the file and ignores errors: they concern bytes that were flushed already or that can be fetched again. */
  close(): void {
    if (this.#closing) return
    this.#closing = true
    if (this.#busy === 0) closeSoon(this.#files, this.#slots, this.#fd)
  }

  #vector(operation: 'readv' | 'writev', buffers: readonly Buffer[], position: number) {
    return (end: End<number>): void => this.#files[operation](this.#fd, buffers, position, end)
  }

  /** Reads or writes until the whole buffer is used or an operation moves no byte. Answers how many bytes were moved. */
  async #all(operation: 'readv' | 'writev', bytes: Buffer, position: number): Promise<number> {
    let at = 0
    while (at < bytes.length) {
      const begin = this.#vector(operation, [bytes.subarray(at)], position + at)
      const moved = await this.#wait<number>({ begin })
      if (moved === 0) break
      at += moved
    }
    return at
  }

  #run<T>(operation: FileOperation<T>, done: End<T>): void {
    if (this.#closing) {
      operation.over?.()
      return done(new Error('the file is closed'))
    }
    this.#busy += 1
    const over = (): void => {
      operation.over?.()
      this.#busy -= 1
      if (this.#closing && this.#busy === 0) closeSoon(this.#files, this.#slots, this.#fd)
    }
    // The properties are written out, because a copy with `...` costs more than the operation.
    const { begin, patience } = operation
    this.#slots.run({ begin, over, patience }, done)
  }

  #wait<T>(operation: FileOperation<T>): Promise<T> {
    return waited(done => this.#run(operation, done))
  }
}

function closeSoon(files: FileLayer, slots: Slots, fd: number): void {
  slots.run<void>({ begin: end => files.close(fd, end), insists: true }, () => {})
}

function waited<T>(run: (done: End<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    run((error, value) => {
      if (error) reject(error)
      // The file system gives a value wherever it gives no error.
      else resolve(value as T)
    })
  })
}

/** The callback of an operation, in the manner of `node:fs`. It is called once; `value` is set when there is no error. */
export type End<T> = (error: Error | null | undefined, value?: T) => void

interface Operation<T> {
  /** Begins the operation. The file system calls `end` once, without any deadline. */
  readonly begin: (end: End<T>) => void
  /**
   * Called once when the operation has really ended or will never begin; only then may the caller use its buffers again. `late` is the
   * result of an operation whose caller already got a `DiskHung`.
   */
  readonly over?: ((late?: T) => void) | undefined
  /** How many deadlines the operation may take. A flush takes longer the more bytes there are. */
  readonly patience?: number | undefined
  /** Whether the operation waits for a disk that hangs instead of failing, as closing a file does. */
  readonly insists?: boolean | undefined
  /** Whether the caller waits for the real end also after the deadline. A rename needs that: it must have happened or not. */
  readonly certain?: boolean | undefined
}

interface SlotsOptions {
  readonly clock: Clock
  readonly slots?: number
  readonly deadline?: Milliseconds
  /** Called when an operation is past its deadline and no other was. */
  readonly onHung?: (error: DiskHung) => void
}

interface Entered extends Member {
  readonly operation: Omit<Operation<never>, 'begin'>
  /** The tick at which the operation began. */
  begun: number
  /** Whether the operation is past its deadline. */
  late: boolean
  begin(): void
  fail(error: Error): void
}

/** At most this many operations wait. Thousands of clients may each wait for one read. */
const mostWaiting = 16_384

/** Ticks in a deadline. */
const ticks = 10

/**
 * Runs a few file operations at once, each with a deadline. The others wait in a bounded queue.
 *
 * # Facts
 * - libuv runs file operations in a few threads (16, see bin/cachesvc), which look-ups of names need as well. An operation on a disk that
 *   hangs keeps its thread until the kernel answers, perhaps for ever. It cannot be cancelled.
 *
 * # Representation
 * An operation past its deadline fails its caller with `DiskHung` and keeps its slot until it has really ended. While there is one such
 * operation, every new one fails at once. Age is counted in ticks of one coarse timer that runs while an operation runs, so that not
 * each operation needs a timer. There is a turn of the event loop between two ticks: a process that itself stood still for a minute
 * counts one tick and does not blame the disk.
 */
export class Slots {
  readonly #options: Required<SlotsOptions>
  readonly #running = new Members<Entered>()
  #waiting: Entered[] = []
  #tick = 0
  #late = 0
  #watching = false

  constructor(options: SlotsOptions) {
    this.#options = { slots: 10, deadline: 10_000, onHung: () => {}, ...options }
  }

  get hung(): boolean {
    return this.#late > 0
  }

  /** Begins the operation when a slot is free. `done` is called once; only an operation that fails at once calls it before `run` returns. */
  run<T>(operation: Operation<T>, done: End<T>): void {
    const entered: Entered = {
      place: 0,
      operation,
      begun: 0,
      late: false,
      begin: () =>
        operation.begin((error, value) => {
          // A caller that does not wait for the real end got an error at the deadline.
          const told = entered.late && operation.certain !== true
          this.#running.delete(entered)
          if (entered.late) this.#late -= 1
          if (!told) done(error, value)
          operation.over?.(told ? value : undefined)
          this.#next()
        }),
      fail: done,
    }
    if (this.hung && operation.insists !== true) this.#refuse(entered, hung(this.#options.deadline))
    else if (this.#running.size < this.#options.slots) this.#begin(entered)
    else if (this.#waiting.length < mostWaiting) this.#waiting.push(entered)
    else this.#refuse(entered, busy())
  }

  #begin(entered: Entered): void {
    entered.begun = this.#tick
    this.#running.add(entered)
    this.#watch()
    entered.begin()
  }

  #next(): void {
    if (this.#running.size >= this.#options.slots) return
    const next = this.#waiting.shift()
    if (next !== undefined) this.#begin(next)
  }

  #refuse(entered: Entered, error: Error): void {
    entered.fail(error)
    entered.operation.over?.()
  }

  #watch(): void {
    if (this.#watching) return
    this.#watching = true
    this.#options.clock.after(this.#options.deadline / ticks, () => {
      this.#tick += 1
      this.#look()
      setImmediate(() => {
        this.#watching = false
        if (this.#running.size > 0) this.#watch()
      })
    })
  }

  #look(): void {
    const before = this.#late
    for (const entered of this.#running) {
      const { patience = 1, certain } = entered.operation
      if (entered.late || this.#tick - entered.begun <= ticks * patience) continue
      this.#late += 1
      entered.late = true
      if (certain !== true) entered.fail(hung(this.#options.deadline))
    }
    if (this.#late === 0) return
    if (before === 0) this.#options.onHung(hung(this.#options.deadline))
    const failing = this.#waiting.filter(({ operation }) => operation.insists !== true)
    this.#waiting = this.#waiting.filter(({ operation }) => operation.insists === true)
    for (const entered of failing) this.#refuse(entered, hung(this.#options.deadline))
  }
}

/** The failure of an operation that did not end before its deadline. */
export class DiskHung extends Failure {}

function hung(deadline: Milliseconds): DiskHung {
  return new DiskHung(`the disk has not answered for ${deadline / 1000} seconds`, {
    code: 'disk-hung',
    fault: 'internal',
    publicText: 'The disk of the cache does not answer.',
  })
}

function busy(): Failure {
  return new Failure(`${mostWaiting} operations wait for the disk`, {
    code: 'disk-busy',
    fault: 'internal',
    publicText: 'The disk of the cache is too busy.',
  })
}

/**
 * The file system for a root process that writes to the directory of another user: files and directories that it makes are given to
 * `owner`. An error of chown is ignored.
 *
 * # Facts
 * - The user may have put a link, or a hard link to a file of another user, under a name of ours. So a file is given away only when it is
 *   a plain file of root with one name.
 */
export function givenFiles({ uid, gid }: Owner): FileLayer {
  return {
    ...fs,
    open(path, flags, mode, end) {
      fs.open(path, flags, mode, (error, fd) => {
        if (error || fd === undefined || (flags & O_CREAT) === 0) return end(error, fd)
        fs.fstat(fd, (_, found) => {
          const ours = found?.isFile() === true && found.uid === 0 && found.nlink === 1
          if (ours) fs.fchown(fd, uid, gid, () => end(null, fd))
          else end(null, fd)
        })
      })
    },
    mkdir(path, options, end) {
      fs.mkdir(path, options, (error, first) => {
        if (error || first === undefined) return end(error, first)
        const made = fromTo(first, path)
        const next = (at: number): void => {
          const one = made[at]
          if (one === undefined) end(null, first)
          else fs.lchown(one, uid, gid, () => next(at + 1))
        }
        next(0)
      })
    },
  }
}

/** The version of the layout that this program reads and writes. The path contains it, so that versions never mix. */
export const layoutVersion = 2

/** The suffix of the files of downloads below `tmp/`. */
const temporarySuffix = '.part'

/** The text of CACHEDIR.TAG. The Cache Directory Tagging Specification fixes its first line, by which back-up programs skip the directory. */
export const cacheDirectoryTag = `Signature: 8a477f597d28d172789f06886806bc55
# This directory holds copies of files from package archives, kept by cachesvc.
# Whatever is lost here is fetched again. See https://bford.info/cachedir/
`

const DIGEST = /^[0-9a-f]{64}$/

/** Whether a text is a SHA-256 in lower-case hex: the name of a blob. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

/** The paths of one cache directory (docs/decisions/0027). It does not touch the disk. */
export class Layout {
  readonly directory: string
  readonly tag: string
  readonly root: string
  readonly blobs: string
  readonly temporary: string
  /** The log of entries, and the snapshot of their table. */
  readonly log: string
  readonly snapshot: string
  /** The tables of adopted indexes, which can be derived from contents again. */
  readonly suites: string
  /** A random text that no other process uses in names, and the number of names that were made with it. */
  readonly #run = randomBytes(12).toString('hex')
  #count = 0

  constructor(directory: string) {
    this.directory = directory
    this.tag = join(directory, 'CACHEDIR.TAG')
    this.root = join(directory, `v${layoutVersion}`)
    this.blobs = join(this.root, 'blobs')
    this.temporary = join(this.root, 'tmp')
    this.log = join(this.root, 'entries.log')
    this.snapshot = join(this.root, 'entries.index')
    this.suites = join(this.root, 'suites')
  }

  blob(digest: string): string {
    return `${this.blobs}/${digest.slice(0, 2)}/${digest}`
  }

  /** A new path that no file has yet. */
  temporaryFile(): string {
    this.#count += 1
    const count = this.#count.toString(16).padStart(8, '0')
    return `${this.temporary}/${this.#run}${count}${temporarySuffix}`
  }
}

/** The names of the directories of contents: the first two digits of each digest, so that no directory is too long to list. */
export const shards: readonly string[] = Array.from({ length: 256 }, (_, i) =>
  i.toString(16).padStart(2, '0'),
)
