/**
 * The store: bytes by SHA-256, entries by key, in a directory with one writer (docs/decisions/0027). Other processes may read it
 * (`openStoreForReading`).
 *
 * Readers see a new entry at once. The disk gets it later: first the content, then the entries that name it, then a mark that says up to
 * which position of the log both survive a power cut. After an unclean stop, contents of entries after the last mark are hashed before
 * they are used.
 */
import {
  type AdminSocket,
  type RequestHandler,
  takeOwnership,
  wholeDirectory,
} from '../../admin-socket.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { BlockPool } from '../../bytes/block-pool.ts'
import { explainError, Failure } from '../../errors.ts'
import { ownerIn } from '../../files/directory-owner.ts'
import type { Content } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { Catalogue, type ListedEntry, type UsedEntry } from './catalogue/catalogue.ts'
import type { UnnamedContent, WhyStays } from './content/content-life.ts'
import type { Download, PutResult } from './content/download.ts'
import type { DownloadOptions } from './content/downloads.ts'
import { OpenFiles, SharedBlocks } from './content/open-content.ts'
import type { FileSystemSpace, Usage } from './content/space.ts'
import { Contents } from './content/stored-contents.ts'
import { Disk, givenFiles, Layout, type Surroundings } from './disk/disk.ts'
import { type Examination, type ExaminedContent, examineFile } from './disk/examine.ts'
import {
  checkVersion,
  createDirectories,
  directoryFailure,
  emptyTemporary,
  type Health,
  isFull,
  tryDisk,
} from './disk/health.ts'
import { checkEntry, type Entry, isTooLong, type Reading } from './entry.ts'
import type { StoreListener } from './events.ts'
import type { Forecast, RetentionRules } from './retention-rules.ts'
import type { SweepOptions, SweepResult } from './upkeep/retention.ts'
import { type StoreOptions, type StoreParts, wireStore } from './wiring.ts'

/** The properties of an entry by which its content is found. */
type EntryName = Pick<Entry, 'key' | 'digest' | 'size'>

interface ReadableParts extends Surroundings {
  readonly catalogue: Catalogue
  readonly contents: Contents
}

/** Entries and contents for reading. It needs no lock and writes nothing. */
export class ReadableStore<Parts extends ReadableParts = ReadableParts> {
  protected readonly parts: Parts

  constructor(parts: Parts) {
    this.parts = parts
  }

  peek(key: string): Entry | undefined {
    return this.parts.catalogue.peek(key)
  }

  /** The entry, at once when it is in memory or not stored. Logs an entry that cannot be read. */
  read(key: string): Reading | Promise<Reading> {
    const found = this.parts.catalogue.get(key)
    if (!(found instanceof Promise)) return found
    return found.catch((error: unknown): Reading => {
      this.parts.log.warn('cannot read an entry', { key, because: explainError(error) })
      return 'unreadable'
    })
  }

  /** The same for a caller that treats an entry that cannot be read as not stored. */
  get(key: string): Entry | undefined | Promise<Entry | undefined> {
    return continueWhenReady(this.read(key), found => (found === 'unreadable' ? undefined : found))
  }

  /** Whether the disk could not read a part of the log: then some stored entries are not known. */
  get incomplete(): boolean {
    return this.parts.catalogue.incomplete
  }

  entries(): AsyncIterable<UsedEntry> {
    return this.parts.catalogue.walk()
  }

  /** All entries with the properties that a listing shows, some at a time. */
  list(): AsyncIterable<readonly ListedEntry[]> {
    return this.parts.catalogue.list()
  }

  /**
   * The content of an entry from `first` to `last` inclusive, by default all of it; at once when it is in memory. Undefined when the
   * disk fails, and when the blob is missing or has the wrong size: a store open for writing then removes the entry as well.
   */
  content(
    entry: EntryName,
    first = 0,
    last: number = entry.size - 1,
  ): Content | Promise<Content | undefined> {
    const { key, digest, size } = entry
    const end = Math.min(last, size - 1) + 1
    const broken = (error: Error): void => this.broken(entry, explainError(error))
    const found = this.parts.contents.get({ digest, size, first, end, broken })
    if (!(found instanceof Promise)) return found
    return found.then(
      content => {
        if (content === undefined) this.broken(entry, 'the blob is missing or of another size')
        return content
      },
      error => {
        this.parts.log.warn('cannot read a blob', { key, digest, because: explainError(error) })
        return undefined
      },
    )
  }

  /** Reads the whole content under a digest and answers its digests. It never changes the store. */
  examine(digest: string, examination: Examination): Promise<ExaminedContent> {
    return examineFile(this.parts.disk, this.parts.layout.blob(digest), examination)
  }

  async close(): Promise<void> {
    this.parts.contents.close()
  }

  protected broken({ key, digest }: EntryName, because: string): void {
    this.parts.log.warn('an entry without its content', { key, digest, because })
  }
}

/** The store of a process that only reads. Before each answer about an entry it reads what the owner has appended meanwhile. */
class Reader extends ReadableStore {
  override async read(key: string): Promise<Reading> {
    try {
      await this.parts.catalogue.refresh()
    } catch (error) {
      this.parts.log.warn('cannot read the entries', { because: explainError(error) })
    }
    return super.read(key)
  }
}

/** A reader has little memory and few operations at once, because the owner may run in the same process and needs the threads. */
const blockMemory = 8 * 1024 * 1024
const operationsAtOnce = 2

/**
 * Opens the directory for reading while another process may own it. Changes nothing on disk. A missing directory is read as an empty
 * one. Throws a Failure like `openStore`.
 */
export async function openStoreForReading({
  directory,
  clock,
  log,
}: {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
}): Promise<ReadableStore> {
  const disk = new Disk({ clock, slots: operationsAtOnce })
  const layout = new Layout(directory)
  const blocks = new SharedBlocks(new BlockPool({ limit: blockMemory }))
  const around = { disk, layout, clock, log }
  const catalogue = new Catalogue(around)
  try {
    await checkVersion(disk, layout)
    await catalogue.load('reading')
  } catch (error) {
    throw await directoryFailure(disk, directory, error, 'read')
  }
  const files = new OpenFiles({ ...around, blocks })
  const contents = new Contents({ ...around, files, memory: 0 })
  return new Reader({ ...around, catalogue, contents })
}

/**
 * Opens the directory for this process alone: takes the lock, creates missing directories, removes leftovers, reads the entries and tries
 * the disk. A full disk is no failure: the store is then not writable at first. Throws a Failure whose message is one sentence that an
 * operator can act on.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { directory, clock, log } = options
  const owner = await ownerIn(directory)
  const files = options.disk?.files ?? (owner && givenFiles(owner))
  const parts = wireStore({ ...options, disk: { ...options.disk, ...(files && { files }) } })
  const { disk, layout, journal } = parts
  let socket: AdminSocket | undefined
  try {
    await disk.makeDirectory(directory)
    await checkVersion(disk, layout)
    socket = await takeOwnership(
      {
        directory,
        lock: wholeDirectory,
        name: `cache directory ${directory}`,
        mend: 'name another directory',
      },
      { clock, log },
    )
    await createDirectories(disk, layout)
    const removed = await emptyTemporary(disk, layout)
    if (removed > 0) log.info('removed what an earlier run left half-written', { removed })
    await journal.open()
    const full = await tryDisk(disk, layout).catch(error => {
      if (!isFull(error)) throw error
      return error
    })
    await parts.space.get()
    return new Store(parts, socket, full)
  } catch (error) {
    await socket?.release()
    throw await directoryFailure(disk, directory, error)
  }
}

/** How long a client waits for an unproven content to be hashed. After that the content is absent for this client. */
const longestProof: Milliseconds = 10_000

/** A store open for writing. */
export class Store extends ReadableStore<StoreParts> {
  readonly #socket: AdminSocket
  readonly #arriving: Map<string, Entry>
  #proving: Promise<void> = Promise.resolve()
  #closed = false

  /** `full` is the error of a disk that is full now. */
  constructor(parts: StoreParts, socket: AdminSocket, full: unknown) {
    super(parts)
    this.#socket = socket
    this.#arriving = parts.downloads.arriving
    if (full !== undefined) parts.health.failed(full, 'self-test')
    for (const digest of parts.journal.unproven()) parts.checks.unproven.add(digest)
    if (parts.checks.unproven.size > 0) this.#proving = this.#proveAll()
  }

  /** From now on the listener gets the events of the store. */
  listen(listener: StoreListener): void {
    this.parts.events.listen(listener)
  }

  override peek(key: string): Entry | undefined {
    return this.#arriving.get(key) ?? super.peek(key)
  }

  override read(key: string): Reading | Promise<Reading> {
    return this.#arriving.get(key) ?? super.read(key)
  }

  override async *list(): AsyncGenerator<readonly ListedEntry[]> {
    const arriving = new Map(this.#arriving)
    const lastUsed = this.parts.clock.now()
    yield [...arriving.values()].map(entry => ({ ...entry, lastUsed }))
    for await (const some of super.list()) yield some.filter(({ key }) => !arriving.has(key))
  }

  override content(
    entry: EntryName,
    first = 0,
    last: number = entry.size - 1,
  ): Content | Promise<Content | undefined> {
    const { digest, size } = entry
    const { downloads, checks, clock } = this.parts
    const download = downloads.whole(digest)
    if (download?.size === size && download.canJoin(first)) {
      const end = Math.min(last, size - 1)
      return { kind: 'stream', length: end + 1 - first, open: () => download.open(first, end) }
    }
    if (!checks.unproven.has(digest)) return super.content(entry, first, last)
    return resultInTime(checks.check(digest, size), clock, longestProof).then(right => {
      return right ? super.content(entry, first, last) : undefined
    })
  }

  /** Whether a content is stored, or whole and being stored. */
  has(digest: string): boolean {
    const { downloads, blobs } = this.parts
    return downloads.whole(digest) !== undefined || blobs.has(digest)
  }

  /** Whether an entry names a content. */
  names(digest: string): boolean {
    if (this.parts.journal.table.references(digest)) return true
    for (const entry of this.#arriving.values()) if (entry.digest === digest) return true
    return false
  }

  /** The same as `put` for an entry that an operator changes. The change does not count as a use of the file for retention. */
  amend(entry: Entry): PutResult {
    return this.put(entry, this.lastUsed(entry.key))
  }

  /**
   * Remembers an entry whose content is stored, or whole and being stored. The log gets it some milliseconds later. Its last use is `used`,
   * by default now. Throws a Failure when the entry is malformed.
   */
  put(entry: Entry, used = this.parts.clock.now()): PutResult {
    checkShape(entry)
    const { downloads, blobs, journal } = this.parts
    if (downloads.whole(entry.digest) !== undefined) {
      downloads.put(entry)
      return { stored: true }
    }
    if (!blobs.has(entry.digest)) {
      return { stored: false, because: 'its content is not in the store' }
    }
    this.#arriving.delete(entry.key)
    journal.put(entry, used / 1000)
    return { stored: true }
  }

  /** Notes that a client asked for the target, by default now. Retention counts from here. */
  touch(key: string, at = this.parts.clock.now()): void {
    this.parts.journal.touch(key, at / 1000)
  }

  /** When a client last asked for the target, as retention counts; undefined when no entry is stored. */
  lastUsed(key: string): Milliseconds | undefined {
    return this.parts.journal.lastUsed(key)
  }

  /** Forgets an entry. Its content is removed after a while if no other entry names it. */
  remove(key: string): void {
    this.#arriving.delete(key)
    this.parts.journal.remove(key)
  }

  /**
   * Removes those of these contents that no entry names, at once, as an operator asks. Answers the amount of those whose files could not
   * be removed: clients no longer get them, and the store tries again later.
   */
  async removeContents(digests: ReadonlySet<string>): Promise<UnremovableContents> {
    await this.parts.retention.removeNow(digests)
    return amountOf(this.parts.blobs.staying().filter(({ digest }) => digests.has(digest)))
  }

  /** Removed contents whose files stay, because the file system refuses to remove them. */
  get unremovable(): UnremovableContents {
    return amountOf(this.parts.blobs.staying())
  }

  /**
   * Forgets an entry that was found wrong, unless it names another digest by now. With `content`, the bytes under that digest and every
   * entry that names them are removed at once. Answers whether the entry is gone. Rejects when the disk fails.
   */
  async evict(
    key: string,
    { digest, content }: { readonly digest: string; readonly content: boolean },
  ): Promise<boolean> {
    const { journal, blobs } = this.parts
    if (this.#arriving.get(key)?.digest === digest) this.#arriving.delete(key)
    const gone = journal.remove(key, digest)
    if (content) await blobs.discard(digest)
    return gone
  }

  /**
   * Begins a download. Throws a Failure when the announced length is not the expected size. When the disk cannot take the content, the
   * download only passes it through to the clients.
   */
  download(options: DownloadOptions = {}): Download {
    return this.parts.downloads.begin(options)
  }

  /** The number of downloads whose content is not yet whole on disk. */
  get writing(): number {
    return this.parts.downloads.count
  }

  /** Resolves when no such download is left. */
  idle(): Promise<void> {
    return this.parts.downloads.idle()
  }

  usage(): Usage {
    const { count, contents, bytes } = this.parts.journal.table
    return { objects: count, blobs: contents, bytes }
  }

  /** The space on the file system now; undefined when the file system does not answer. */
  fileSystem(): Promise<FileSystemSpace | undefined> {
    return this.parts.space.fresh()
  }

  health(): Health {
    return this.parts.health.state
  }

  /** Why no content can be stored although the disk works; undefined when contents can be stored. */
  get full(): string | undefined {
    return this.parts.room.full
  }

  /** What retention would remove now and next, and why. */
  forecast(options: Parameters<StoreParts['retention']['forecast']>[0]): Promise<Forecast> {
    return this.parts.retention.forecast(options)
  }

  sweep(options: SweepOptions): Promise<SweepResult> {
    return this.parts.retention.sweep(options)
  }

  /** Sets the rules of retention. From the first call on, the store sweeps every day until it closes. */
  retain(rules: RetentionRules): void {
    this.parts.room.use(rules)
    this.parts.retention.daily()
  }

  /** Sets the age of a check beyond which a stored content is hashed again when it is read. */
  recheckAfter(age: Milliseconds): void {
    this.parts.checks.maxAge = age
  }

  /** Notes that a check outside the store hashed these contents just now and found them right. */
  noteChecked(digests: readonly string[]): void {
    const { blobs, checks } = this.parts
    for (const digest of digests) if (blobs.has(digest)) checks.passed(digest)
  }

  /** The number of contents that were found damaged since the start. */
  get damaged(): number {
    return this.parts.checks.damaged
  }

  /** Sets the handler for requests of commands that run in other processes; undefined stops answering them. */
  answerCommands(handle: RequestHandler | undefined): void {
    this.#socket.answer(handle)
  }

  /** Flushes everything that was stored so far, so that it survives a power cut. Rejects when the disk fails. */
  checkpoint(): Promise<void> {
    return this.parts.checkpoints.run()
  }

  /** Fails the downloads under way, writes the pending entries, and releases the lock of the directory. */
  override async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const { downloads, retention, room, checks, checkpoints, journal, health } = this.parts
    retention.close()
    room.close()
    checks.close()
    await downloads.close(closing())
    await this.#proving
    for (const part of [checkpoints, journal]) {
      await part.close().catch(error => {
        const because = explainError(error)
        this.parts.log.warn('not everything could be made durable', { because })
      })
    }
    health.close()
    await super.close()
    await this.#socket.release()
  }

  protected override broken(entry: EntryName, because: string): void {
    super.broken(entry, because)
    this.parts.journal.remove(entry.key, entry.digest)
  }

  async #proveAll(): Promise<void> {
    const { journal, checks, log } = this.parts
    const { unproven } = checks
    log.info('hashing what was not yet durable at the last stop', {
      contents: unproven.size,
    })
    for (const digest of [...unproven]) {
      const [row] = journal.table.referring(digest)
      if (this.#closed) return
      if (row === undefined) unproven.delete(digest)
      else await checks.check(digest, journal.table.size(row))
    }
  }
}

/** The number of contents whose files could not be removed, and their bytes. */
export interface UnremovableContents {
  readonly contents: number
  readonly bytes: number
  /** The reason for the first of them. */
  readonly why?: WhyStays
}

function amountOf(staying: readonly UnnamedContent[]): UnremovableContents {
  const bytes = staying.reduce((sum, { size }) => sum + size, 0)
  const { why } = staying[0] ?? {}
  return { contents: staying.length, bytes, ...(why && { why }) }
}

function checkShape(entry: Entry): void {
  const because = checkEntry(entry).because ?? (isTooLong(entry) ? 'it is too long' : undefined)
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
