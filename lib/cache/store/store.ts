/**
 * The store: bytes by SHA-256, entries by key, in one directory with one writer (docs/disk-layout.md). Wires the rooms of
 * this drawer together; nobody outside it knows a path.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import type { Clock } from '../../async/clock.ts'
import { explainError, Failure, systemCode } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { Download } from './content/download.ts'
import { Expectation, type Expected } from './content/expectation.ts'
import type { Disk, GrowingFile } from './content/write-behind.ts'
import { type AdminSocket, ownDirectory, type RequestHandler } from './disk/admin-socket.ts'
import { DiskHealth, type Health } from './disk/health.ts'
import { isDigest, Layout, nameOfEntryFile } from './disk/layout.ts'
import { type Named, Shelves } from './disk/reading.ts'
import {
  checkVersion,
  createDirectories,
  directoryFailure,
  sweepTemporary,
  trial,
  tryDisk,
} from './disk/self-test.ts'
import { checkEntry, type Entry, encodeEntry, maxEntryBytes } from './entry.ts'
import { Naming, type SweepOptions, type Swept, scheduleSweeps, sweep } from './upkeep/retention.ts'
import { Space, type Usage } from './upkeep/usage.ts'

export interface StoreOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  /** Bytes of memory for small content in demand. */
  readonly memory: number
  /** How a temporary file is created; for trials with failing disks. */
  readonly createFile?: (path: string) => Promise<GrowingFile>
}

/** Whether something was written, and if not, why; the disk's failures are answers here, never errors. */
export type Kept = { readonly stored: true } | { readonly stored: false; readonly because: string }

/**
 * Opens the directory for this process alone: creates what is missing, takes the lock, clears leftovers, tries the disk. A
 * full disk is no failure: the store begins unwritable. Throws a Failure whose message is one sentence an operator can act on.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { log, clock } = options
  const layout = new Layout(options.directory)
  let socket: AdminSocket | undefined
  try {
    await mkdir(options.directory, { recursive: true })
    await checkVersion(layout, log)
    socket = await ownDirectory(options.directory, { clock, log })
    await createDirectories(layout)
    const removed = await sweepTemporary(layout)
    if (removed > 0) log.info('removed what an earlier run left half-written', { removed })
    const full = await trial(layout)
    return new Store(layout, socket, { ...options, full })
  } catch (error) {
    await socket?.release()
    throw await directoryFailure(options.directory, error)
  }
}

/** A store open for writing. */
export class Store extends Shelves {
  readonly #clock: Clock
  readonly #socket: AdminSocket
  readonly #health: DiskHealth
  readonly #space: Space
  readonly #naming = new Naming()
  readonly #downloads = new Set<Download>()
  readonly #commits = new Set<Promise<void>>()
  readonly #closing = new AbortController()
  readonly #createFile: (path: string) => Promise<GrowingFile>
  readonly #counting: Promise<void>

  constructor(
    layout: Layout,
    socket: AdminSocket,
    options: StoreOptions & { readonly full: unknown },
  ) {
    const { clock, log, memory } = options
    super({ layout, clock, log, memory, writable: true })
    this.#clock = clock
    this.#socket = socket
    this.#createFile = options.createFile ?? createFile
    this.#space = new Space(layout.root, clock)
    this.#health = new DiskHealth({ clock, log, trial: () => tryDisk(layout) })
    this.#counting = this.#count()
    if (options.full !== undefined) this.#health.failed(options.full, 'self-test')
  }

  /**
   * Remembers an entry whose content is in the store. Durable when it returns, unless only times changed. Throws a Failure
   * when the entry is malformed.
   */
  async put(entry: Entry): Promise<Kept> {
    checkShape(entry)
    const done = this.#naming.start(entry.digest)
    try {
      if (!(await this.blobs.has(entry.digest, entry.size))) {
        return { stored: false, because: 'its content is not in the store' }
      }
      await this.entryFiles.put(entry)
      return { stored: true }
    } catch (error) {
      this.entryFiles.remember(entry)
      return { stored: false, because: this.#health.failed(error, 'writing an entry') }
    } finally {
      done()
    }
  }

  /** Notes that somebody asked for it: retention counts from here. */
  touch(key: string): void {
    this.entryFiles.touch(key)
  }

  /** Forgets an entry; its content goes with the next sweep if nobody else names it. */
  async remove(key: string): Promise<void> {
    await this.entryFiles.remove(key)
  }

  /**
   * Forgets an entry that was found wrong, unless it names another digest by now; with `content` the bytes under that digest
   * go at once, whoever else names them. Answers whether the entry is gone. Throws what the file system throws.
   */
  async evict(
    key: string,
    { digest, content }: { readonly digest: string; readonly content: boolean },
  ): Promise<boolean> {
    if (content) await this.blobs.discard(digest)
    return this.entryFiles.remove(key, { only: digest })
  }

  /**
   * A place for content that is about to arrive. `length` is what the origin announced. Throws a Failure when that is not the
   * expected size; a disk that cannot take it makes the download a relay from the start.
   */
  async download(
    wanted: {
      readonly expected?: Expected
      readonly length?: number | undefined
      /** Why the content must not touch the disk; it is then relayed to whoever is there. */
      readonly passing?: string | undefined
    } = {},
  ): Promise<Download> {
    const expectation = new Expectation(wanted.expected ?? {}, wanted.length)
    const download: Download = new Download({
      clock: this.#clock,
      expectation,
      disk:
        wanted.passing === undefined
          ? await this.#temporaryFile(expectation.length)
          : { because: wanted.passing },
      commit: (path, digest, size) => this.#commit(path, digest, size),
      reopen: (digest, range, signal) =>
        this.blobs.stream({ digest, ...range, onBroken: () => undefined }, signal),
      diskFailed: error => this.#health.failed(error, 'storing a download'),
      onEnd: () => this.#downloads.delete(download),
    })
    this.#downloads.add(download)
    return download
  }

  /** How much there is, without a walk. The file system's figures may be some seconds old. */
  async usage(): Promise<Usage> {
    return {
      objects: this.entryTally.count,
      blobs: this.blobTally.count,
      bytes: this.blobTally.bytes,
      counting: this.entryTally.counting || this.blobTally.counting,
      filesystem: await this.#space.get(),
    }
  }

  /** Whether the disk takes what it is given. */
  health(): Health {
    return this.#health.state
  }

  /** Kept when the count after the start is over. */
  async counted(): Promise<void> {
    await this.#counting
  }

  /** Removes what is due. See retention.ts. */
  async sweep(options: SweepOptions): Promise<Swept> {
    const { layout, entryFiles: entries, blobs } = this
    return sweep({ layout, entries, blobs, naming: this.#naming }, options)
  }

  /** Sweeps every day until the store closes; `unusedDays` is asked anew each time. */
  sweepDaily(unusedDays: () => number): void {
    const stop = scheduleSweeps(
      signal => this.sweep({ unusedDays: unusedDays(), now: this.#clock.now(), signal }),
      { clock: this.#clock, log: this.log },
    )
    this.#closing.signal.addEventListener('abort', stop, { once: true })
  }

  /** Answers requests of commands that run beside this process; undefined takes none any more. */
  answerCommands(handle: RequestHandler | undefined): void {
    this.#socket.answer(handle)
  }

  /** Fails downloads under way, writes down what is pending, lets the directory go. */
  override async close(): Promise<void> {
    this.#closing.abort(new Error('the store closes'))
    const downloads = [...this.#downloads]
    await Promise.all(downloads.map(one => one.discard(closing())))
    await Promise.allSettled([...this.#commits, this.#counting])
    await this.entryFiles.close()
    this.#health.close()
    await super.close()
    await this.#socket.release()
  }

  protected override async broken(entry: Named, because: string): Promise<void> {
    await super.broken(entry, because)
    try {
      await this.entryFiles.remove(entry.key, { only: entry.digest })
    } catch (error) {
      this.log.warn('cannot remove it', { key: entry.key, because: explainError(error) })
    }
  }

  async #commit(path: string, digest: string, size: number): Promise<void> {
    const commit = this.blobs.commit(path, digest, size)
    this.#commits.add(commit)
    try {
      await commit
    } finally {
      this.#commits.delete(commit)
    }
  }

  async #temporaryFile(length: number | undefined): Promise<Disk> {
    const path = this.layout.temporaryFile()
    try {
      const free = (await this.#space.get())?.free
      // No fault of the disk: it still takes what fits.
      if (length !== undefined && free !== undefined && length > free) {
        const because = `${length} bytes do not fit into the ${free} that are free`
        this.log.warn('not stored', { because })
        return { because }
      }
      return { file: await this.#create(path), path }
    } catch (error) {
      return { because: this.#health.failed(error, 'beginning a download') }
    }
  }

  async #create(path: string): Promise<GrowingFile> {
    try {
      return await this.#createFile(path)
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
      await mkdir(this.layout.temporary, { recursive: true })
      return this.#createFile(path)
    }
  }

  async #count(): Promise<void> {
    const { signal } = this.#closing
    try {
      await this.entryTally.countAll(nameOfEntryFile, signal)
      await this.blobTally.countAll(file => (isDigest(file) ? file : undefined), signal)
    } catch (error) {
      this.log.warn('cannot count what is stored', { because: explainError(error) })
    }
  }
}

function createFile(path: string): Promise<FileHandle> {
  return open(path, 'wx+', 0o644)
}

function checkShape(entry: Entry): void {
  const because =
    checkEntry({ ...entry }).because ??
    (Buffer.byteLength(encodeEntry(entry)) > maxEntryBytes ? 'it is too long' : undefined)
  if (because === undefined) return
  throw new Failure(`The entry of ${entry.key} cannot be stored: ${because}.`, {
    code: 'malformed-entry',
    fault: 'internal',
    publicText: 'The response cannot be stored.',
    facts: { key: entry.key, because },
  })
}

function closing(): Failure {
  return new Failure('The store closes while a download is under way.', {
    code: 'store-closing',
    fault: 'internal',
    publicText: 'The service is shutting down.',
  })
}
