/**
 * The only way from the store to the file system: files and directories, every operation with a deadline.
 *
 * Paths come from layout.ts. Reading and writing content takes callbacks, because a promise for each block costs more than it
 * gives; everything that is done once for a file is a promise.
 */
import * as fs from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from '../../../async/clock.ts'
import { systemCode, unlessMissing } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import type { Layout } from './layout.ts'
import { type End, type Operation, Slots, type SlotsOptions } from './slots.ts'

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
    return unlessMissing(this.open(path, 'reading'), noName)
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
      (await unlessMissing(
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
    return (await unlessMissing(this.list(directory), noName)) ?? []
  }

  /** What has this name; undefined when nothing has. Links are not followed. */
  look(path: string): Promise<fs.Stats | undefined> {
    const found = this.#wait<fs.Stats>({ begin: end => this.#files.lstat(path, end) })
    return unlessMissing(found, noName)
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
