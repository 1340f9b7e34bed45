/**
 * Contents as files named by their SHA-256: how they get their names, and how they go when no entry names them. Owns the state of
 * each content (content-life.ts), except what the table of entries shows: which are named.
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
import { valueUnlessMissing } from '../../../errors.ts'
import type { EntryTable } from '../catalogue/entry-table.ts'
import type { Journal } from '../catalogue/journal.ts'
import { type DiskFile, DiskHung, isForbidden, type Surroundings } from '../disk/disk.ts'
import { diskProblem } from '../disk/health.ts'
import type { StoreEvents } from '../events.ts'
import {
  afterEvent,
  type ContentEvent,
  type ContentState,
  isServed,
  isUnnamed,
  mayBeNamedAfterCut,
  type UnnamedContent,
  type WhyStays,
} from './content-life.ts'

interface BlobsParts extends Surroundings {
  /** Contents stay until an entry has named them. */
  readonly keepUnnamed?: boolean | undefined
  /** Which contents entries name. */
  readonly journal: Pick<Journal, 'removeRows'> & {
    readonly table: Pick<EntryTable, 'bytes' | 'references' | 'referring'>
  }
  readonly events: Pick<StoreEvents, 'tell'>
}

/** Contents that are not flushed; of some, the file is still open. */
export type FreshContents = ReadonlyMap<string, DiskFile | undefined>

/** Of so many contents that are not flushed the files stay open. */
const mostOpen = 512

export class Blobs {
  /** Bytes of contents without an entry. */
  unnamedBytes = 0
  readonly #parts: BlobsParts
  readonly #turns = new KeyedMutex()
  /** The contents that are neither absent nor named. */
  readonly #lives = new Map<string, UnnamedContent>()
  #fresh = new Map<string, DiskFile | undefined>()

  constructor(parts: BlobsParts) {
    this.#parts = parts
  }

  /** Bytes of all contents, whether an entry names them or not. */
  get bytes(): number {
    return this.#parts.journal.table.bytes + this.unnamedBytes
  }

  state(digest: string): ContentState {
    return this.#lives.get(digest)?.state ?? (this.#isNamed(digest) ? 'named' : 'absent')
  }

  has(digest: string): boolean {
    return isServed(this.state(digest))
  }

  /** Contents that have their names and are not flushed. */
  get fresh(): FreshContents {
    return this.#fresh
  }

  /** The same for a checkpoint that flushes them; what comes from now on is for the next one. */
  takeFresh(): FreshContents {
    const fresh = this.#fresh
    this.#fresh = new Map()
    return fresh
  }

  /** The next checkpoint flushes it, without opening the file again when it is given. */
  flushLater(digest: string, file?: DiskFile): void {
    const open = this.#fresh.get(digest) ?? (this.#fresh.size < mostOpen ? file : undefined)
    this.#fresh.set(digest, open)
    if (file !== open) file?.close()
  }

  /** An entry names it. */
  named(digest: string): void {
    this.#live(digest, 'named')
  }

  /** The last entry that named it is gone. */
  freed(digest: string, size: number): void {
    this.#live(digest, 'freed', { size })
  }

  /** Contents that no entry has named since `before`. */
  unnamed(before: Milliseconds = Number.POSITIVE_INFINITY): readonly UnnamedContent[] {
    return [...this.#lives.values()].filter(
      ({ state, since }) => isUnnamed(state) && since <= before,
    )
  }

  /** Contents whose files could not be removed: nothing is served from them. */
  staying(): readonly UnnamedContent[] {
    return this.#in('staying')
  }

  /** Contents that were removed since the last checkpoint. */
  removed(): readonly UnnamedContent[] {
    return this.#in('removed')
  }

  /** A checkpoint came after these were removed. */
  marked(removed: readonly UnnamedContent[]): void {
    for (const content of removed) {
      if (this.#lives.get(content.digest) === content) this.#live(content.digest, 'marked')
    }
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
      if (mayBeNamedAfterCut(this.state(digest))) return false
      const path = layout.blob(digest)
      const file = await valueUnlessMissing(disk.open(path, 'creating'), ['EEXIST'])
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
      this.#stored(digest, size)
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
      const flushed = mayBeNamedAfterCut(this.state(digest))
      if (flushed) await file.sync()
      await disk.rename(path, place)
      this.#changed(digest)
      if (flushed) await disk.syncDirectory(dirname(place))
      else this.flushLater(digest)
      this.#stored(digest, size)
    })
  }

  /** Removes a content unless it was named meanwhile. Answers whether it is gone. Where the disk refuses, it is not used any more. */
  remove(unnamed: UnnamedContent): Promise<boolean> {
    const { digest, size, since } = unnamed
    return this.#turns.run(digest, async () => {
      if (this.#lives.get(digest) !== unnamed || !isUnnamed(unnamed.state)) return false
      // From here on no entry is put for it.
      this.#live(digest, 'removal', { size, since })
      try {
        await this.#remove(digest)
        return true
      } catch (error) {
        const { layout } = this.#parts
        // It counts again while it is found out why.
        this.#live(digest, 'refused', { size, since, why: { because: diskProblem(error) } })
        const why = await this.#whyStays(error, dirname(layout.blob(digest)))
        this.#live(digest, 'refused', { size, since, why })
        throw error
      }
    })
  }

  /** Serves nothing from contents whose files are to be removed later, because the disk fails now. */
  async setAside(contents: readonly UnnamedContent[], error: unknown): Promise<void> {
    const why = await this.#whyStays(error, this.#parts.layout.root)
    for (const unnamed of contents) {
      const { digest, size, since } = unnamed
      if (this.#lives.get(digest) !== unnamed) continue
      this.#live(digest, 'refused', { size, since, why })
      this.#changed(digest)
    }
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
    this.#live(digest, 'found-wrong')
    this.#changed(digest)
    return this.#turns.run(digest, async () => {
      const { state } = this.#lives.get(digest) ?? {}
      if (state !== 'wrong' && state !== 'staying') return
      this.#changed(digest)
      await disk.removeTree(layout.blob(digest))
      // It stays `wrong`, without a file: what comes under this digest next is flushed before it takes the name.
      this.#live(digest, 'emptied', { size: 0 })
    })
  }

  #stored(digest: string, size: number): void {
    const since = this.#parts.keepUnnamed ? Number.POSITIVE_INFINITY : undefined
    this.#live(digest, 'stored', { size, since })
    if (this.#isNamed(digest)) this.#live(digest, 'named')
  }

  /**
   * Takes an event into the life of a content. Its size and why it stays are as before unless they are given. The store is told of each
   * that comes to be, or still is, without an entry, so that its upkeep looks for it.
   */
  #live(
    digest: string,
    event: ContentEvent,
    { size, since, why }: { size?: number; since?: Milliseconds | undefined; why?: WhyStays } = {},
  ): void {
    const before = this.#lives.get(digest)
    const state = afterEvent(this.state(digest), event)
    if (before !== undefined && isUnnamed(before.state)) this.unnamedBytes -= before.size
    this.#lives.delete(digest)
    if (state === 'absent' || state === 'named') return
    const reason = why ?? before?.why
    const life: UnnamedContent = {
      digest,
      state,
      size: size ?? before?.size ?? 0,
      since: since ?? this.#parts.clock.elapsed(),
      ...(state === 'staying' && reason !== undefined && { why: reason }),
    }
    this.#lives.set(digest, life)
    if (!isUnnamed(state)) return
    this.unnamedBytes += life.size
    if (event !== 'refused') this.#parts.events.tell('unused', digest)
  }

  #in(state: ContentState): readonly UnnamedContent[] {
    return [...this.#lives.values()].filter(life => life.state === state)
  }

  #isNamed(digest: string): boolean {
    return this.#parts.journal.table.references(digest)
  }

  #changed(digest: string): void {
    this.#parts.events.tell('changed', digest)
  }

  async #remove(digest: string): Promise<void> {
    const { disk, layout } = this.#parts
    this.#changed(digest)
    await disk.remove(layout.blob(digest))
    this.#fresh.get(digest)?.close()
    this.#fresh.delete(digest)
  }
}
