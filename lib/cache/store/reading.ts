/**
 * Entries and contents for reading: what the owner of a directory and processes that only look have in common.
 */
import type { Clock } from '../../async/clock.ts'
import { whenReady } from '../../async/ready.ts'
import { BlockPool } from '../../bytes/block-pool.ts'
import { explainError, systemCode } from '../../errors.ts'
import type { Content } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import { Catalogue, type ListedEntry, type UsedEntry } from './catalogue/catalogue.ts'
import { SharedBlocks } from './content/open-content.ts'
import { OpenFiles } from './content/open-files.ts'
import { Contents } from './content/stored-contents.ts'
import { Disk, type Surroundings } from './disk/disk.ts'
import { type Examination, type ExaminedContent, examineFile } from './disk/examine.ts'
import { Layout } from './disk/layout.ts'
import { checkVersion, directoryFailure } from './disk/self-test.ts'
import type { Entry, Reading } from './entry.ts'

/** As much of an entry as its content is found by. */
export type EntryName = Pick<Entry, 'key' | 'digest' | 'size'>

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
