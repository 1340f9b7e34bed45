/**
 * Entries and contents for reading: what the owner of a directory and those who only look have in common.
 */
import type { Clock } from '../../../async/clock.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Content } from '../../../http/message/message.ts'
import type { Logger } from '../../../log/log.ts'
import type { Entry } from '../entry.ts'
import { Tally } from '../upkeep/usage.ts'
import { type BlobRequest, Blobs } from './blobs.ts'
import { Entries, type UsedEntry } from './entries.ts'
import { type Examination, type Examined, examineFile } from './examine.ts'
import { Layout } from './layout.ts'
import { checkVersion, directoryFailure } from './self-test.ts'

/** What reading needs: no lock, no writing. */
export interface ReadableStore {
  /** The entry if memory has it, at once. */
  peek(key: string): Entry | undefined
  /** The entry; what cannot be read counts as absent and is logged. */
  get(key: string): Promise<Entry | undefined>
  /** The content from `first` to `last` if memory has it, at once. */
  peekContent(entry: Named, first: number, last: number): Content | undefined
  /** All entries, read one by one. */
  entries(): AsyncIterable<UsedEntry>
  /**
   * The content of an entry from `first` to `last` inclusive, all of it when not given. Undefined when the blob is not there
   * or has the wrong size: the entry is then gone too, and the target is a miss.
   */
  content(entry: Named, first?: number, last?: number): Promise<Content | undefined>
  /** Reads all of the content under a digest and says what it hashes to. Changes nothing, whatever it finds. */
  examine(digest: string, examination: Examination): Promise<Examined>
  close(): Promise<void>
}

/** What a directory is opened for reading with. */
export interface ReadingOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Opens the directory for reading beside whoever owns it. Changes nothing on disk; a directory that is not there is empty.
 * Throws a Failure like `openStore`.
 */
export async function openStoreForReading(options: ReadingOptions): Promise<ReadableStore> {
  const layout = new Layout(options.directory)
  try {
    await checkVersion(layout, options.log)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw await directoryFailure(options.directory, error)
  }
  return new Shelves({ ...options, layout, memory: 0, writable: false })
}

/** As much of an entry as its content is found by. */
export type Named = Pick<Entry, 'key' | 'digest' | 'size'>

export interface ShelvesParts {
  readonly layout: Layout
  readonly clock: Clock
  readonly log: Logger
  /** Bytes of memory for small content in demand. */
  readonly memory: number
  /** False leaves every file as it is. */
  readonly writable: boolean
}

/** Entries and blobs for reading; what both openers share. */
export class Shelves implements ReadableStore {
  protected readonly layout: Layout
  protected readonly log: Logger
  protected readonly entryTally: Tally
  protected readonly blobTally: Tally
  protected readonly entryFiles: Entries
  protected readonly blobs: Blobs

  constructor({ layout, clock, log, memory, writable }: ShelvesParts) {
    this.layout = layout
    this.log = log
    this.entryTally = new Tally(layout.entries, { sized: false })
    this.blobTally = new Tally(layout.blobs, { sized: true })
    this.entryFiles = new Entries({ layout, clock, log, tally: this.entryTally, writable })
    this.blobs = new Blobs({ layout, clock, log, tally: this.blobTally, memory })
  }

  peek(key: string): Entry | undefined {
    return this.entryFiles.peek(key)
  }

  async get(key: string): Promise<Entry | undefined> {
    try {
      return await this.entryFiles.get(key)
    } catch (error) {
      this.log.warn('cannot read an entry', { key, because: explainError(error) })
      return undefined
    }
  }

  entries(): AsyncIterable<UsedEntry> {
    return this.entryFiles.walk()
  }

  peekContent({ digest, size }: Named, first: number, last: number): Content | undefined {
    return this.blobs.peek({ digest, size, first, last: Math.min(last, size - 1) })
  }

  async content(
    entry: Named,
    first = 0,
    last: number = entry.size - 1,
  ): Promise<Content | undefined> {
    const { key, digest, size } = entry
    const request: BlobRequest = {
      digest,
      size,
      first,
      last: Math.min(last, size - 1),
      onBroken: error => void this.broken(entry, explainError(error)),
    }
    try {
      const content = await this.blobs.content(request)
      if (content === undefined) await this.broken(entry, 'the blob is missing or of another size')
      return content
    } catch (error) {
      this.log.warn('cannot read a blob', { key, digest, because: explainError(error) })
      return undefined
    }
  }

  examine(digest: string, examination: Examination): Promise<Examined> {
    return examineFile(this.layout.blob(digest), examination)
  }

  async close(): Promise<void> {
    await this.blobs.close()
  }

  /** What to do about an entry whose content is not what it says. */
  protected async broken(entry: Named, because: string): Promise<void> {
    this.log.warn('an entry without its content', { key: entry.key, digest: entry.digest, because })
  }
}
