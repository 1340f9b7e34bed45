/**
 * The only way from the store to the file system: files and directories, every operation with a deadline.
 *
 * Paths come from `Layout`. Reading and writing content takes callbacks, because a promise for each block costs more than it
 * gives; everything that is done once for a file is a promise.
 */

import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Failure, systemCode, valueUnlessMissing } from '../../../errors.ts'
import { fromTo, type Owner } from '../../../files/directory-owner.ts'
import type { Logger } from '../../../log/log.ts'
import { type Member, Members } from '../../../members.ts'

/** The functions of `node:fs` the store uses; tests give others that fail, or never answer. */
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

/** What every part of the store works with. */
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

/** How a file is opened. Without O_NONBLOCK a pipe of that name would keep a thread for ever. */
const flags = {
  reading: O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
  writing: O_RDWR | O_CREAT | O_NOFOLLOW,
  creating: O_RDWR | O_CREAT | O_EXCL,
} as const

/** How a file is opened: one that is there; also a new one; only a new one, and its directory when that is missing. */
export type OpenMode = keyof typeof flags

const flushing = 6

/** The codes that say that a path has no file: it is missing, or a part of the path is no directory. */
const noName = ['ENOENT', 'ENOTDIR']

export class Disk {
  readonly #files: FileLayer
  readonly #slots: Slots

  constructor({ files = fs, ...options }: DiskOptions) {
    this.#files = files
    this.#slots = new Slots(options)
  }

  /** Whether an operation is past its deadline: every new one fails at once. */
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
   * Gives a file another name, whatever had that name before. The new directory is made when it is missing. When this has
   * failed it has not happened, and will not.
   */
  rename(from: string, to: string): Promise<void> {
    return this.#inDirectoryOf(to, () =>
      this.#wait({ begin: end => this.#files.rename(from, to, end), certain: true }),
    )
  }

  /** Makes the directory of `path` when `act` fails for want of it, and acts again. */
  async #inDirectoryOf<T>(path: string, act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
      await this.makeDirectory(dirname(path))
      return act()
    }
  }

  /** Removes a file. Answers whether there was one. */
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
    // Where the kernel lets no directory be made, Node's recursive mkdir tries for ever.
    if (/^\/(proc|sys)\//.test(path)) {
      throw Object.assign(new Error(`no directory can be made at ${path}`), { code: 'ENOENT' })
    }
    await this.#wait({ begin: end => this.#files.mkdir(path, { recursive: true }, end) })
  }

  list(directory: string): Promise<readonly string[]> {
    return this.#wait<string[]>({ begin: end => this.#files.readdir(directory, end) })
  }

  /** Names in a directory; none when it is not there, or is none. */
  async names(directory: string): Promise<readonly string[]> {
    return (await valueUnlessMissing(this.list(directory), noName)) ?? []
  }

  /** What has this name; undefined when nothing has. Links are not followed. */
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

/** Whether the file system does not let this process do it: a directory or a file may be another user's. The next may be its own. */
export function isForbidden(error: unknown): boolean {
  return ['EACCES', 'EPERM'].includes(systemCode(error) ?? '')
}

/** An open file. It is closed when it was told to and its last operation has ended. */
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
   * Reads as many bytes as the buffers hold from `position` on, fewer at the end of the file. `over` is called when the kernel
   * has let go of the buffers, which after a deadline is later than `done`.
   */
  read(into: readonly Buffer[], position: number, done: End<number>, over?: () => void): void {
    this.#run({ begin: this.#vector('readv', into, position), ...(over && { over }) }, done)
  }

  /** Writes the buffers at `position` and answers how many bytes were taken. `over` as with `read`. */
  write(from: readonly Buffer[], position: number, done: End<number>, over?: () => void): void {
    this.#run({ begin: this.#vector('writev', from, position), over }, done)
  }

  /** The bytes from `position` on: `length`, or fewer at the end of the file. */
  async bytes(position: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(length)
    return bytes.subarray(0, await this.#all('readv', bytes, position))
  }

  /** Writes all of `bytes` at `position`. Throws ENOSPC and its like; some bytes may be there then. */
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

  /** What `close` of the kernel complains about concerns bytes that were flushed, or that are fetched again. */
  close(): void {
    if (this.#closing) return
    this.#closing = true
    if (this.#busy === 0) closeSoon(this.#files, this.#slots, this.#fd)
  }

  #vector(operation: 'readv' | 'writev', buffers: readonly Buffer[], position: number) {
    return (end: End<number>): void => this.#files[operation](this.#fd, buffers, position, end)
  }

  /** Reads or writes until the buffer is done with or nothing more happens. Answers how many bytes that were. */
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

  #run<T>(operation: Operation<T>, done: End<T>): void {
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
    // Written out: a copy with `...` costs more than the operation.
    const { begin, patience, insists, certain } = operation
    this.#slots.run({ begin, over, patience, insists, certain }, done)
  }

  #wait<T>(operation: Operation<T>): Promise<T> {
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

/** Told once how an operation ended, in the manner of `node:fs`. `value` is there when there is no error. */
export type End<T> = (error: Error | null | undefined, value?: T) => void

interface Operation<T> {
  /** Begins it; the file system calls `end` once, whenever that is. */
  readonly begin: (end: End<T>) => void
  /**
   * Called once when the operation has really ended, or will never begin: only now is memory it was given free. `late` is its
   * result when the caller was told of a deadline before.
   */
  readonly over?: ((late?: T) => void) | undefined
  /** How many deadlines it may take: a flush takes as long as there are bytes to flush. */
  readonly patience?: number | undefined
  /** It waits for a disk that hangs and does not fail: closing a file. */
  readonly insists?: boolean | undefined
  /** Its caller is told of nothing but its real end: giving a file a name has happened or has not. */
  readonly certain?: boolean | undefined
}

interface SlotsOptions {
  readonly clock: Clock
  readonly slots?: number
  readonly deadline?: Milliseconds
  /** Told when an operation is past its deadline and none was before. */
  readonly onHung?: (error: DiskHung) => void
}

interface Entered extends Member {
  readonly operation: Omit<Operation<never>, 'begin'>
  begun: number
  late: boolean
  told: boolean
  begin(): void
  fail(error: Error): void
}

/** Operations that wait at most: thousands of clients wait for one read each. */
const mostWaiting = 16_384

/** Ticks in a deadline. */
const ticks = 10

/**
 * Runs file operations: a few at once, each with a deadline, the others in a bounded queue.
 *
 * # Facts
 * - libuv runs file operations in a few threads (16, see bin/cachesvc) that look-ups of names need as well. An operation on a
 *   disk that hangs keeps its thread until the kernel answers, perhaps for ever, and nothing can take it back.
 *
 * # Representation
 * An operation past its deadline fails its caller with `DiskHung` and keeps its slot until it has really ended. While there is
 * one such operation, every new one fails at once. Age is counted in ticks of one coarse timer that runs while anything is
 * under way, a turn of the event loop between two of them: no timer for each operation, and a process that itself stood still
 * for a minute does not blame the disk.
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

  /** Begins the operation when there is a slot. `done` is called once, not before `run` returns unless it fails at once. */
  run<T>(operation: Operation<T>, done: End<T>): void {
    const entered: Entered = {
      place: 0,
      operation,
      begun: 0,
      late: false,
      told: false,
      begin: () =>
        operation.begin((error, value) => {
          const { told } = entered
          this.#running.delete(entered)
          if (entered.late) this.#late -= 1
          if (!told) done(error, value)
          operation.over?.(told ? value : undefined)
          this.#next()
        }),
      fail: error => {
        entered.told = true
        done(error)
      },
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

/** An operation did not end in time. */
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
 * The file system for a process of root that writes to the directory of another user: what it makes is given to `owner`.
 * What cannot be given stays as it is.
 *
 * # Facts
 * - The user may have put anything under a name of ours: another name of a file that is not theirs, a link. So a file is given away only
 *   when it was made this moment, or when it is a file of root with one name.
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

/*
 * Names of files in the cache directory (docs/disk-layout.md). Knows paths, touches no disk.
 */

/** The layout this program reads and writes; it stands in the path, so versions never mix. */
export const layoutVersion = 2

/** How the files of downloads below `tmp/` end. */
export const temporarySuffix = '.part'

/** First line of CACHEDIR.TAG, fixed by the Cache Directory Tagging Specification: back-up programs skip such directories. */
export const cacheDirectoryTag = `Signature: 8a477f597d28d172789f06886806bc55
# This directory holds copies of files from package archives, kept by cachesvc.
# Whatever is lost here is fetched again. See https://bford.info/cachedir/
`

const DIGEST = /^[0-9a-f]{64}$/

/** Whether a text is a SHA-256 in lower-case hex: the name of a blob. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

/** The places of one cache directory. */
export class Layout {
  readonly directory: string
  readonly tag: string
  readonly root: string
  readonly blobs: string
  readonly temporary: string
  /** The log of entries, and the snapshot of their table. */
  readonly log: string
  readonly snapshot: string
  /** What adopted indexes say; derived from contents. */
  readonly suites: string
  /** What no other process uses in names, and how many names there are with it. */
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

  /** One that nothing has yet. */
  temporaryFile(): string {
    this.#count += 1
    const count = this.#count.toString(16).padStart(8, '0')
    return `${this.temporary}/${this.#run}${count}${temporarySuffix}`
  }
}

/** The directories contents lie in: the first two digits of their names, so that no directory grows too long to list. */
export const shards: readonly string[] = Array.from({ length: 256 }, (_, i) =>
  i.toString(16).padStart(2, '0'),
)
