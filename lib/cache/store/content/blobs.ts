/**
 * Contents as files named by their SHA-256: how they get their names, and how they go when no entry names them.
 *
 * # Names and power cuts
 * A new content is not flushed when it gets its name: an entry that names it counts only after a checkpoint has flushed both,
 * or after its bytes were hashed. That holds as long as no entry from before a checkpoint names the same digest. Where one
 * does, or did until a checkpoint that is still to come, the content is flushed before it takes the name, and so is the name.
 *
 * # Small contents
 * Such a file is made under its name and written at once. What a crash leaves of it no entry names. It stays open until the
 * checkpoint, because opening it again costs as much as writing it.
 *
 * # Turns
 * Naming and removing one content take turns. A removal forgets the digest before it begins, and from then on no entry is put
 * for it; a content that is named at the same time comes before and is then in demand, or after, and brings its own file. So
 * a content that an entry names is never removed.
 */
import { dirname } from 'node:path'
import type { Milliseconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import { unlessMissing } from '../../../errors.ts'
import type { EntryTable } from '../catalogue/entry-table.ts'
import type { Journal } from '../catalogue/journal.ts'
import { type DiskFile, DiskHung, isForbidden, type Surroundings } from '../disk/disk.ts'
import { diskProblem } from '../disk/health.ts'
import type { StoreEvents } from '../events.ts'

interface BlobsParts extends Surroundings {
  /** Contents stay until an entry has named them. */
  readonly keepUnnamed?: boolean | undefined
  /** Which contents entries name. */
  readonly journal: Pick<Journal, 'removeRows'> & {
    readonly table: Pick<EntryTable, 'bytes' | 'references' | 'referring'>
  }
  readonly events: Pick<StoreEvents, 'tell'>
}

/** A content that no entry names, not yet or not any more. When it is named and freed again there is a new one of these. */
export interface UnnamedContent {
  readonly digest: string
  readonly size: number
  readonly since: Milliseconds
}

/** Why a file stays: what the disk says, and whose the directory of the file is when it says that this process may not. */
export interface WhyStays {
  readonly because: string
  readonly owner?: number
}

/** A content without an entry whose file could not be removed. */
export interface StayingContent {
  readonly size: number
  readonly why: WhyStays
}

/** Of so many contents that are not flushed the files stay open. */
const mostOpen = 512

export class Blobs {
  /** Contents that have their names and are not flushed; of some, the file is still open. */
  fresh = new Map<string, DiskFile | undefined>()
  /** Contents that are removed, until a checkpoint has come after the removal of their entries. */
  readonly removed = new Map<string, UnnamedContent>()
  unnamedBytes = 0
  /** Contents without an entry whose files could not be removed: nothing is served from them. */
  readonly unremovable = new Map<string, StayingContent>()
  readonly #parts: BlobsParts
  readonly #turns = new KeyedMutex()
  /** Contents that were found wrong, until verified content takes their place. */
  readonly #wrong = new Set<string>()
  readonly #unnamed = new Map<string, UnnamedContent>()

  constructor(parts: BlobsParts) {
    this.#parts = parts
  }

  /** Bytes of all contents, whether an entry names them or not. */
  get bytes(): number {
    return this.#parts.journal.table.bytes + this.unnamedBytes
  }

  has(digest: string): boolean {
    return this.#there(digest) && !this.#wrong.has(digest)
  }

  /** The next checkpoint flushes it, without opening the file again when it is given. */
  flushLater(digest: string, file?: DiskFile): void {
    const open = this.fresh.get(digest) ?? (this.fresh.size < mostOpen ? file : undefined)
    this.fresh.set(digest, open)
    if (file !== open) file?.close()
  }

  freed(digest: string, size: number, since = this.#parts.clock.elapsed()): void {
    this.taken(digest)
    this.#unnamed.set(digest, { digest, size, since })
    this.unnamedBytes += size
    this.#parts.events.tell('unused', digest)
  }

  taken(digest: string): void {
    this.unnamedBytes -= this.#unnamed.get(digest)?.size ?? 0
    this.#unnamed.delete(digest)
    this.unremovable.delete(digest)
  }

  /** Contents that no entry has named since `before`. */
  unnamed(before: Milliseconds = Number.POSITIVE_INFINITY): readonly UnnamedContent[] {
    return [...this.#unnamed.values()].filter(({ since }) => since <= before)
  }

  /**
   * Makes the file of a content under its name and has `write` write it: nothing reads it before an entry names it. Answers
   * whether it is there. Not where all was not taken, nor where such a file is or was until lately: a finished one must take its
   * place. Rejects when the disk fails.
   */
  place(
    { digest, size }: { digest: string; size: number },
    write: (file: DiskFile) => Promise<boolean>,
  ): Promise<boolean> {
    const { disk, layout } = this.#parts
    return this.#turns.run(digest, async () => {
      if (this.#there(digest) || this.removed.has(digest)) return false
      const path = layout.blob(digest)
      const file = await unlessMissing(disk.open(path, 'creating'), ['EEXIST'])
      if (file === undefined) return false
      let whole = false
      try {
        whole = await write(file)
      } finally {
        if (!whole) {
          file.close()
          await disk.remove(path).catch(() => undefined)
        }
      }
      if (!whole) return false
      this.flushLater(digest, file)
      this.#arrived({ digest, size })
      return true
    })
  }

  /** Gives a finished file its name, in place of any that has it. Rejects when the disk fails. */
  async commit(
    file: DiskFile,
    { path, digest, size }: { path: string; digest: string; size: number },
  ): Promise<void> {
    const { disk, layout } = this.#parts
    await this.#turns.run(digest, async () => {
      const place = layout.blob(digest)
      const flushed = this.#there(digest) || this.removed.has(digest)
      if (flushed) await file.sync()
      await disk.rename(path, place)
      this.#changed(digest)
      if (flushed) await disk.syncDirectory(dirname(place))
      else this.flushLater(digest)
      this.#wrong.delete(digest)
      this.#arrived({ digest, size })
    })
  }

  /** Removes a content unless it was named meanwhile. Answers whether it is gone. Where the disk refuses, it is not used any more. */
  remove(unnamed: UnnamedContent): Promise<boolean> {
    const { digest } = unnamed
    return this.#turns.run(digest, async () => {
      if (this.#unnamed.get(digest) !== unnamed) return false
      // From here on no entry is put for it.
      this.taken(digest)
      this.#wrong.delete(digest)
      this.removed.set(digest, unnamed)
      try {
        await this.#remove(digest)
        return true
      } catch (error) {
        this.#unnamed.set(digest, unnamed)
        this.unnamedBytes += unnamed.size
        const { layout } = this.#parts
        this.#stays(unnamed, await this.#whyStays(error, dirname(layout.blob(digest))))
        throw error
      }
    })
  }

  /** Serves nothing from contents whose files are to be removed later, because the disk fails now. */
  async setAside(contents: readonly UnnamedContent[], error: unknown): Promise<void> {
    const why = await this.#whyStays(error, this.#parts.layout.root)
    for (const unnamed of contents) {
      if (this.#unnamed.get(unnamed.digest) !== unnamed) continue
      this.#stays(unnamed, why)
      this.#changed(unnamed.digest)
    }
  }

  #stays({ digest, size }: UnnamedContent, why: WhyStays): void {
    this.unremovable.set(digest, { size, why })
    this.#wrong.add(digest)
  }

  /** `directory` is the one in which the disk did not let this process do something. */
  async #whyStays(error: unknown, directory: string): Promise<WhyStays> {
    const because = diskProblem(error)
    if (!isForbidden(error)) return { because }
    // What lies in a directory that this process may not enter cannot be looked at: the one above can.
    for (const at of [directory, dirname(directory)]) {
      const found = await this.#parts.disk.look(at).catch(() => undefined)
      if (found !== undefined) return { because, owner: found.uid }
    }
    return { because }
  }

  /** Removes a file of content that neither an entry nor this process knows of. */
  removeStray(digest: string): Promise<boolean> {
    return this.#turns.run(digest, async () => {
      if (this.has(digest)) return false
      await this.#remove(digest)
      return true
    })
  }

  /**
   * Makes a content survive a power cut. One that is gone meanwhile needs no more. Rejects when the disk fails; what it
   * failed to take is then removed, for the kernel forgets what it could not write and says of the next flush that all is well.
   */
  async flush(digest: string, open?: DiskFile): Promise<void> {
    const { disk, layout } = this.#parts
    const file = open ?? (await disk.openIfThere(layout.blob(digest)))
    try {
      await file?.sync()
    } catch (error) {
      if (!(error instanceof DiskHung)) await this.discard(digest)
      throw error
    } finally {
      file?.close()
    }
  }

  /**
   * Removes a content that is not what it says, and the entries that name it, unless verified content takes its place
   * meanwhile. Its readers go on.
   */
  discard(digest: string): Promise<void> {
    const { disk, layout, journal } = this.#parts
    journal.removeRows(journal.table.referring(digest))
    this.#wrong.add(digest)
    this.#changed(digest)
    return this.#turns.run(digest, async () => {
      if (!this.#wrong.has(digest)) return
      this.#changed(digest)
      await disk.removeTree(layout.blob(digest))
      // What comes under this digest next is flushed first: entries from before may still name it after a power cut.
      this.freed(digest, 0)
    })
  }

  #arrived({ digest, size }: { digest: string; size: number }): void {
    const { journal, keepUnnamed } = this.#parts
    if (journal.table.references(digest)) return
    this.freed(digest, size, keepUnnamed ? Number.POSITIVE_INFINITY : undefined)
  }

  /** The log names it, or did until lately. */
  #there(digest: string): boolean {
    return this.#unnamed.has(digest) || this.#parts.journal.table.references(digest)
  }

  #changed(digest: string): void {
    this.#parts.events.tell('changed', digest)
  }

  async #remove(digest: string): Promise<void> {
    const { disk, layout } = this.#parts
    this.#changed(digest)
    await disk.remove(layout.blob(digest))
    this.fresh.get(digest)?.close()
    this.fresh.delete(digest)
  }
}
