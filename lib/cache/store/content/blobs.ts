/**
 * Contents as files named by their SHA-256: gives them their names, and removes them when no entry names them. `Blobs` owns the state of
 * each content (content-life.ts); only the table of entries says which contents are named.
 *
 * # Names and power cuts
 * A new content is not flushed when it gets its name: after a power cut an entry that names it counts only when a checkpoint has flushed
 * both, or when the bytes have been hashed. This is safe as long as no durable entry names the same digest. When such an entry exists,
 * or no checkpoint has run since its removal, the content is flushed before it takes the name, and its directory afterwards.
 *
 * # Small contents
 * A small file is made under its final name and written at once. No entry names the part of it that a crash may leave. The file stays
 * open until the checkpoint, because opening it again costs as much as writing it.
 *
 * # Turns
 * Naming and removing one content take turns. A removal changes the state before it removes the file, and from then on no entry is put
 * for the digest. A content that is named before that is not removed; a content that is stored afterwards brings its own file. So the
 * store never removes a content that an entry names.
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
  /** Contents are kept until an entry has named them. */
  readonly keepUnnamed?: boolean | undefined
  /** The journal, which knows the contents that entries name. */
  readonly journal: Pick<Journal, 'removeRows'> & {
    readonly table: Pick<EntryTable, 'bytes' | 'references' | 'referring'>
  }
  readonly events: Pick<StoreEvents, 'tell'>
}

/** Contents that are not flushed, by digest, with the file where it is still open. */
export type FreshContents = ReadonlyMap<string, DiskFile | undefined>

/** At most this many files of contents that are not flushed stay open. */
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

  /** Hands those contents to the checkpoint that flushes them. Contents that come later are for the next checkpoint. */
  takeFresh(): FreshContents {
    const fresh = this.#fresh
    this.#fresh = new Map()
    return fresh
  }

  /** Has the next checkpoint flush a content. An open `file` spares the checkpoint an open, and belongs to this object from now on. */
  flushLater(digest: string, file?: DiskFile): void {
    const open = this.#fresh.get(digest) ?? (this.#fresh.size < mostOpen ? file : undefined)
    this.#fresh.set(digest, open)
    if (file !== open) file?.close()
  }

  /** Notes that an entry names the content. */
  named(digest: string): void {
    this.#live(digest, 'named')
  }

  /** Notes that the last entry that named the content is gone. */
  freed(digest: string, size: number): void {
    this.#live(digest, 'freed', { size })
  }

  /** Contents that no entry has named since `before`. */
  unnamed(before: Milliseconds = Number.POSITIVE_INFINITY): readonly UnnamedContent[] {
    return [...this.#lives.values()].filter(
      ({ state, since }) => isUnnamed(state) && since <= before,
    )
  }

  /** Contents whose files could not be removed. Clients do not get them. */
  staying(): readonly UnnamedContent[] {
    return this.#in('staying')
  }

  /** Contents that were removed since the last checkpoint. */
  removed(): readonly UnnamedContent[] {
    return this.#in('removed')
  }

  /** Notes that a checkpoint has run since these contents were removed. */
  marked(removed: readonly UnnamedContent[]): void {
    for (const content of removed) {
      if (this.#lives.get(content.digest) === content) this.#live(content.digest, 'marked')
    }
  }

  /**
   * Makes the file of a content under its final name and has `write` write it; no client reads it before an entry names it. Answers
   * whether the content is stored. It is not when `write` could not write all bytes, nor when a file of that name exists or a durable
   * entry may name it: then `commit` must give a finished file the name. Rejects when the disk fails.
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
          await disk.remove(path).catch(() => this.#live(digest, 'found-wrong', { size }))
        }
      }
      if (!whole) return false
      this.flushLater(digest, file)
      this.#stored(digest, size)
      return true
    })
  }

  /** Gives a finished file its final name and replaces any file of that name. Rejects when the disk fails. */
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
      let certain = false
      try {
        if (flushed) await disk.syncDirectory(dirname(place))
        certain = flushed
      } finally {
        // Also when the disk fails here: the file has its name and takes room, and goes when no entry comes.
        if (!certain) this.flushLater(digest)
        this.#stored(digest, size)
      }
    })
  }

  /**
   * Removes a content unless its state has changed meanwhile. Answers whether it is gone. Rejects when the disk fails; the content is
   * then `staying` and clients do not get it.
   */
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
        // The content counts as stored again while `#whyStays` asks the disk.
        this.#live(digest, 'refused', { size, since, why: { because: diskProblem(error) } })
        const why = await this.#whyStays(error, dirname(layout.blob(digest)))
        this.#live(digest, 'refused', { size, since, why })
        throw error
      }
    })
  }

  /** Marks contents as `staying`, because the disk failed with `error` and their files must be removed later. */
  async setAside(contents: readonly UnnamedContent[], error: unknown): Promise<void> {
    const why = await this.#whyStays(error, this.#parts.layout.root)
    for (const unnamed of contents) {
      const { digest, size, since } = unnamed
      if (this.#lives.get(digest) !== unnamed) continue
      this.#live(digest, 'refused', { size, since, why })
      this.#changed(digest)
    }
  }

  /** Why a file stays. `directory` is the one in which the disk refused the operation. */
  async #whyStays(error: unknown, directory: string): Promise<WhyStays> {
    const because = diskProblem(error)
    if (!isForbidden(error)) return { because }
    // A process that may not enter the directory cannot look at it, but can look at its parent.
    for (const at of [directory, dirname(directory)]) {
      const found = await this.#parts.disk.look(at).catch(() => undefined)
      if (found !== undefined) return { because, owner: found.uid }
    }
    return { because }
  }

  /** Removes the file of a content that neither an entry nor this process knows. Answers whether it removed it. */
  removeStray(digest: string): Promise<boolean> {
    return this.#turns.run(digest, async () => {
      if (this.has(digest)) return false
      await this.#remove(digest)
      return true
    })
  }

  /**
   * Flushes a content, so that it survives a power cut; a content that is gone is passed over. Rejects when the disk fails. It then
   * removes the content, because the kernel forgets the bytes that it could not write and reports success for the next flush. A content
   * stays when the disk hung.
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
   * Removes a content whose bytes do not have its digest, and the entries that name it. The file stays when a verified one takes its
   * place meanwhile. Readers of the wrong file go on.
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
      // The state stays `wrong`, so that the next file of this digest is flushed before it takes the name.
      this.#live(digest, 'emptied', { size: 0 })
    })
  }

  #stored(digest: string, size: number): void {
    const since = this.#parts.keepUnnamed ? Number.POSITIVE_INFINITY : undefined
    this.#live(digest, 'stored', { size, since })
    if (this.#isNamed(digest)) this.#live(digest, 'named')
  }

  /**
   * Applies an event to the state of a content; `size` and `why` keep their old values when they are not given. A content that may have a
   * file and has no entry afterwards is reported as `unused`, unless the disk just refused to remove it, so that the upkeep of the store
   * looks at it.
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
