/**
 * The store: bytes by SHA-256, entries by key, in a directory with one writer (docs/disk-layout.md). Other processes may read it
 * (`openStoreForReading`).
 *
 * What is put is seen at once and written behind: first a content, then the entries that name it, then a mark that says up to
 * where both survive a power cut. What stands behind the last mark after an unclean stop is hashed before it is used.
 */
import {
  type AdminSocket,
  type RequestHandler,
  takeOwnership,
  wholeDirectory,
} from '../../admin-socket.ts'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { whenReady } from '../../async/ready.ts'
import { BlockPool } from '../../bytes/block-pool.ts'
import { explainError, Failure, systemCode } from '../../errors.ts'
import { ownerIn } from '../../files/directory-owner.ts'
import type { Content } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { Catalogue, type ListedEntry, type UsedEntry } from './catalogue/catalogue.ts'
import type { UnnamedContent, WhyStays } from './content/content-life.ts'
import type { Download, PutResult } from './content/download.ts'
import type { DownloadOptions, Resumable } from './content/downloads.ts'
import { OpenFiles, SharedBlocks } from './content/open-content.ts'
import { Contents } from './content/stored-contents.ts'
import { Disk, givenFiles, Layout, type Surroundings } from './disk/disk.ts'
import { type Examination, type ExaminedContent, examineFile } from './disk/examine.ts'
import type { Health } from './disk/health.ts'
import {
  checkVersion,
  createDirectories,
  directoryFailure,
  isFull,
  tryDisk,
} from './disk/self-test.ts'
import { checkEntry, type Entry, isTooLong, type Reading } from './entry.ts'
import type { StoreListener } from './events.ts'
import type { SweepOptions, Swept } from './upkeep/retention.ts'
import type { FileSystemSpace, Usage } from './upkeep/room.ts'
import type { RetentionRules } from './upkeep/rules.ts'
import { type StoreOptions, type StoreParts, wire } from './wiring.ts'

/** As much of an entry as its content is found by. */
type EntryName = Pick<Entry, 'key' | 'digest' | 'size'>

interface ReadableParts extends Surroundings {
  readonly catalogue: Catalogue
  readonly contents: Contents
}

/** Entries and contents for reading: needs no lock and writes nothing. */
export class ReadableStore {
  readonly #parts: ReadableParts

  constructor(parts: ReadableParts) {
    this.#parts = parts
  }

  peek(key: string): Entry | undefined {
    return this.#parts.catalogue.peek(key)
  }

  /** The entry, at once when it is in memory or not stored. That it cannot be read is logged. */
  read(key: string): Reading | Promise<Reading> {
    const found = this.#parts.catalogue.get(key)
    if (!(found instanceof Promise)) return found
    return found.catch((error: unknown): Reading => {
      this.#parts.log.warn('cannot read an entry', { key, because: explainError(error) })
      return 'unreadable'
    })
  }

  /** The same where an entry that cannot be read is as good as none: its file is fetched. */
  get(key: string): Entry | undefined | Promise<Entry | undefined> {
    return whenReady(this.read(key), found => (found === 'unreadable' ? undefined : found))
  }

  /** Whether the disk could not read a part of the entries: then others may be stored than are known. */
  get incomplete(): boolean {
    return this.#parts.catalogue.incomplete
  }

  entries(): AsyncIterable<UsedEntry> {
    return this.#parts.catalogue.walk()
  }

  /** As much of all entries as a listing shows, some at a time. */
  list(): AsyncIterable<readonly ListedEntry[]> {
    return this.#parts.catalogue.list()
  }

  /**
   * The content of an entry from `first` to `last` inclusive, all of it when not given; at once when it is in memory.
   * Undefined when the blob is not there or has the wrong size: the entry is then gone too, and the target is a miss.
   */
  content(
    entry: EntryName,
    first = 0,
    last: number = entry.size - 1,
  ): Content | Promise<Content | undefined> {
    const { key, digest, size } = entry
    const end = Math.min(last, size - 1) + 1
    const broken = (error: Error): void => this.broken(entry, explainError(error))
    const found = this.#parts.contents.get({ digest, size, first, end, broken })
    if (!(found instanceof Promise)) return found
    return found.then(
      content => {
        if (content === undefined) this.broken(entry, 'the blob is missing or of another size')
        return content
      },
      error => {
        this.#parts.log.warn('cannot read a blob', { key, digest, because: explainError(error) })
        return undefined
      },
    )
  }

  /** Reads all of the content under a digest and says what it hashes to. Changes nothing, whatever it finds. */
  examine(digest: string, examination: Examination): Promise<ExaminedContent> {
    return examineFile(this.#parts.disk, this.#parts.layout.blob(digest), examination)
  }

  async close(): Promise<void> {
    this.#parts.contents.close()
  }

  protected broken({ key, digest }: EntryName, because: string): void {
    this.#parts.log.warn('an entry without its content', { key, digest, because })
  }
}

/** A process that only looks: before each answer about an entry it sees what the owner has written meanwhile. */
class Reader extends ReadableStore {
  readonly #parts: ReadableParts

  constructor(parts: ReadableParts) {
    super(parts)
    this.#parts = parts
  }

  override async read(key: string): Promise<Reading> {
    try {
      await this.#parts.catalogue.refresh()
    } catch (error) {
      this.#parts.log.warn('cannot read the entries', { because: explainError(error) })
    }
    return super.read(key)
  }
}

/** Memory for reading, and operations at once: the threads are the owner's, who may be this very process. */
const blockMemory = 8 * 1024 * 1024
const operationsAtOnce = 2

/**
 * Opens the directory for reading beside whichever process owns it. Changes nothing on disk; a directory that is not there is
 * empty. Throws a Failure like `openStore`.
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
    await checkVersion(disk, layout, log)
    await catalogue.load('reading')
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw await directoryFailure(disk, directory, error, 'read')
  }
  const files = new OpenFiles({ ...around, blocks })
  const contents = new Contents({ ...around, files, memory: 0 })
  return new Reader({ ...around, catalogue, contents })
}

/**
 * Opens the directory for this process alone: creates what is missing, takes the lock, clears leftovers, reads the entries,
 * tries the disk. A full disk is no failure: the store begins unwritable. Throws a Failure whose message is one sentence an
 * operator can act on.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { directory, clock, log } = options
  const owner = await ownerIn(directory)
  const files = options.disk?.files ?? (owner && givenFiles(owner))
  const parts = wire({ ...options, disk: { ...options.disk, ...(files && { files }) } })
  const { disk, layout, journal } = parts
  let socket: AdminSocket | undefined
  try {
    await disk.makeDirectory(directory)
    await checkVersion(disk, layout, log)
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
    const removed = await parts.partials.find()
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
export class Store extends ReadableStore {
  readonly #parts: StoreParts
  readonly #socket: AdminSocket
  readonly #arriving: Map<string, Entry>
  #proving: Promise<void> = Promise.resolve()
  #closed = false

  /** `full` is why the disk takes nothing now. */
  constructor(parts: StoreParts, socket: AdminSocket, full: unknown) {
    const { journal } = parts
    super({ ...parts, catalogue: journal })
    this.#parts = parts
    this.#socket = socket
    this.#arriving = parts.downloads.arriving
    if (full !== undefined) parts.health.failed(full, 'self-test')
    for (const digest of journal.unproven()) parts.checks.unproven.add(digest)
    if (parts.checks.unproven.size > 0) this.#proving = this.#proveAll()
  }

  /** From now on the listener hears what happens in the store. */
  listen(listener: StoreListener): void {
    this.#parts.events.listen(listener)
  }

  override peek(key: string): Entry | undefined {
    return this.#arriving.get(key) ?? super.peek(key)
  }

  override read(key: string): Reading | Promise<Reading> {
    return this.#arriving.get(key) ?? super.read(key)
  }

  override async *list(): AsyncGenerator<readonly ListedEntry[]> {
    const arriving = new Map(this.#arriving)
    const lastUsed = this.#parts.clock.now()
    yield [...arriving.values()].map(entry => ({ ...entry, lastUsed }))
    for await (const some of super.list()) yield some.filter(({ key }) => !arriving.has(key))
  }

  override content(
    entry: EntryName,
    first = 0,
    last: number = entry.size - 1,
  ): Content | Promise<Content | undefined> {
    const { digest, size } = entry
    const { downloads, checks, clock } = this.#parts
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

  has(digest: string): boolean {
    const { downloads, blobs } = this.#parts
    return downloads.whole(digest) !== undefined || blobs.has(digest)
  }

  /** Whether an entry names a content. */
  names(digest: string): boolean {
    if (this.#parts.journal.table.references(digest)) return true
    for (const entry of this.#arriving.values()) if (entry.digest === digest) return true
    return false
  }

  /**
   * Remembers an entry whose content is in the store, or whole and being stored; it is written behind. Throws a Failure when
   * the entry is malformed.
   */
  put(entry: Entry): PutResult {
    return this.#put(entry, 'put')
  }

  /** The same for an entry that an operator changes. It is no use of the file: retention counts as before. */
  amend(entry: Entry): PutResult {
    return this.#put(entry, 'amend')
  }

  #put(entry: Entry, how: 'put' | 'amend'): PutResult {
    checkShape(entry)
    const { downloads, blobs, journal } = this.#parts
    if (downloads.whole(entry.digest) !== undefined) {
      downloads.put(entry)
      return { stored: true }
    }
    if (!blobs.has(entry.digest)) {
      return { stored: false, because: 'its content is not in the store' }
    }
    this.#arriving.delete(entry.key)
    journal[how](entry)
    return { stored: true }
  }

  /** Notes that a client asked for it, now unless told: retention counts from here. */
  touch(key: string, at?: Milliseconds): void {
    this.#parts.journal.touch(key, at === undefined ? undefined : at / 1000)
  }

  /** When a client asked for it last, as retention counts; undefined when it is not stored. */
  lastUsed(key: string): Milliseconds | undefined {
    return this.#parts.journal.lastUsed(key)
  }

  /** Forgets an entry; its content goes after a while if no other entry names it. */
  remove(key: string): void {
    this.#arriving.delete(key)
    this.#parts.journal.remove(key)
  }

  /**
   * Removes those of these contents that no entry names, for an operator who does not wait. Answers those whose files could not
   * be removed: they are served no more, and are tried again.
   */
  async removeContents(digests: ReadonlySet<string>): Promise<Unremovable> {
    await this.#parts.retention.removeNow(digests)
    return amountOf(this.#parts.blobs.staying().filter(({ digest }) => digests.has(digest)))
  }

  /** Contents that were removed and whose files stay, because the file system lets this process not remove them. */
  get unremovable(): Unremovable {
    return amountOf(this.#parts.blobs.staying())
  }

  /**
   * Forgets an entry that was found wrong, unless it names another digest by now; with `content` the bytes under that digest
   * go at once, and every entry that names them. Answers whether the entry is gone. Rejects when the disk fails.
   */
  async evict(
    key: string,
    { digest, content }: { readonly digest: string; readonly content: boolean },
  ): Promise<boolean> {
    const { journal, blobs } = this.#parts
    if (this.#arriving.get(key)?.digest === digest) this.#arriving.delete(key)
    const gone = journal.remove(key, digest)
    if (content) await blobs.discard(digest)
    return gone
  }

  /**
   * A place for content that is about to arrive. Throws a Failure when the announced length is not the expected size; a disk
   * that cannot take it makes the download pass through from the start.
   */
  download(options: DownloadOptions = {}): Download {
    return this.#parts.downloads.begin(options)
  }

  resumable(key: string): Resumable | undefined {
    return this.#parts.downloads.resumable(key)
  }

  /** Downloads whose content is not yet whole on disk. */
  get writing(): number {
    return this.#parts.downloads.count
  }

  /** Settles once no such download is left. */
  idle(): Promise<void> {
    return this.#parts.downloads.idle()
  }

  usage(): Usage {
    const { count, contents, bytes } = this.#parts.journal.table
    return { objects: count, blobs: contents, bytes }
  }

  /** What room there is now. Undefined when the file system does not say. */
  fileSystem(): Promise<FileSystemSpace | undefined> {
    return this.#parts.space.fresh()
  }

  health(): Health {
    return this.#parts.health.state
  }

  /** Why nothing can be stored although the disk works; undefined when something can. */
  get full(): string | undefined {
    return this.#parts.room.full
  }

  sweep(options: SweepOptions): Promise<Swept> {
    return this.#parts.retention.sweep(options)
  }

  /** What is kept from now on. From the first call on the store sweeps every day until it closes. */
  retain(rules: RetentionRules): void {
    this.#parts.room.use(rules)
    this.#parts.retention.daily()
  }

  /** A stored content is hashed again while it is read when its last check is older than this. */
  recheckAfter(age: Milliseconds): void {
    this.#parts.checks.maxAge = age
  }

  /** Notes that these contents were hashed just now by a check beside the store, and are right. */
  noteChecked(digests: readonly string[]): void {
    const { blobs, checks } = this.#parts
    for (const digest of digests) if (blobs.has(digest)) checks.passed(digest)
  }

  get damaged(): number {
    return this.#parts.checks.damaged
  }

  /** Answers requests of commands that run beside this process; undefined takes none any more. */
  answerCommands(handle: RequestHandler | undefined): void {
    this.#socket.answer(handle)
  }

  /** Makes everything that was stored so far survive a power cut. Rejects when the disk fails. */
  checkpoint(): Promise<void> {
    return this.#parts.checkpoints.run()
  }

  /** Fails downloads under way, writes down what is pending, lets the directory go. */
  override async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const { downloads, retention, room, checks, checkpoints, journal, health } = this.#parts
    retention.close()
    room.close()
    checks.close()
    await downloads.close(closing())
    await this.#proving
    for (const part of [checkpoints, journal]) {
      await part.close().catch(error => {
        const because = explainError(error)
        this.#parts.log.warn('not everything could be made durable', { because })
      })
    }
    health.close()
    await super.close()
    await this.#socket.release()
  }

  protected override broken(entry: EntryName, because: string): void {
    super.broken(entry, because)
    this.#parts.journal.remove(entry.key, entry.digest)
  }

  async #proveAll(): Promise<void> {
    const { journal, checks, log } = this.#parts
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

/** Contents whose files could not be removed, and their bytes. */
export interface Unremovable {
  readonly contents: number
  readonly bytes: number
  /** Why, of the first of them. */
  readonly why?: WhyStays
}

function amountOf(staying: readonly UnnamedContent[]): Unremovable {
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
