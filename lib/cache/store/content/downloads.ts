/**
 * The downloads under way: begins them, continues them after a crash, finds those that can be read.
 */
import type { DiskFile } from '../disk/disk.ts'
import type { Entry } from '../entry.ts'
import { Arrivals } from '../upkeep/arrivals.ts'
import type { UpkeepParts } from '../upkeep/removal.ts'
import type { Room, UnderWay } from '../upkeep/room.ts'
import type { Checks } from './checks.ts'
import { Download } from './download.ts'
import { Expectation, type Expected } from './expectation.ts'
import {
  type Continuation,
  findPartials,
  openPartial,
  type Partial,
  removePartial,
  savePartial,
  sidecarOf,
  worthKeeping,
} from './partial.ts'
import type { SharedBlocks } from './shared-blocks.ts'
import type { Contents } from './stored-contents.ts'
import type { Destination } from './write-behind.ts'

export interface DownloadOptions {
  /** With `fields`, those of the origin's response: a large download can be continued after a crash. */
  readonly key?: string
  readonly fields?: Entry['fields']
  readonly expected?: Expected | undefined
  readonly length?: number | undefined
  /** Why the content must not be written to the disk; it then goes only to the clients that read it now. */
  readonly passing?: string | undefined
}

/** The beginning of a download that a crash broke off. */
export interface Resumable {
  readonly size: number
  readonly length: number | undefined
  readonly fields: Continuation['fields']
  /**
   * Reads them again. Undefined when they are not what was written. Rejects when the disk fails, and when
   * the whole cannot be as long as is expected. What does not go on is removed.
   */
  resume(expected?: Expected): Promise<Download | undefined>
}

interface DownloadsParts extends UpkeepParts {
  readonly blocks: SharedBlocks
  readonly contents: Contents
  readonly checks: Checks
  readonly room: Room
  /** Told when a download begins that a checkpoint can make continuable. */
  readonly soon: () => void
  readonly onArriving: ((entry: Entry, kept: Promise<unknown>) => void) | undefined
}

interface Ending {
  readonly continuation: Continuation | undefined
  /** A crash now would leave something to be continued. */
  saved: boolean
}

export class Downloads {
  /** Entries whose content is whole and not yet stored, by key. */
  readonly arriving = new Map<string, Entry>()
  /** Keys of such entries, by the digest of their content; also of some that have gone meanwhile. */
  readonly #keys = new Map<string, Set<string>>()
  readonly #parts: DownloadsParts
  /** Downloads that a crash broke off, by key. */
  #partials: Map<string, Partial> = new Map()
  /** Those that are just being read again. */
  readonly #resuming = new Set<Partial>()
  readonly #underWay = new Map<Download, Ending>()
  readonly #arrivals: Arrivals
  readonly #whole = new Map<string, Download>()
  #closing: Error | undefined
  #onIdle: (() => void) | undefined

  constructor(parts: DownloadsParts) {
    this.#parts = parts
    this.#arrivals = new Arrivals(parts.clock)
  }

  /** Finds what an earlier process left, to be continued, and removes the rest. Answers how much that was. */
  async findPartials(): Promise<number> {
    const { disk, layout } = this.#parts
    const { partials, removed } = await findPartials(disk, layout)
    this.#partials = partials
    return removed
  }

  /** Begins one. Throws a Failure when the announced length is not the expected size. */
  begin({ key, fields, expected, length, passing }: DownloadOptions): Download {
    const expectation = new Expectation(expected ?? {}, length)
    const to = passing === undefined ? this.#destination(expectation.length) : { because: passing }
    if (key !== undefined) this.#forget(key)
    const large = (expectation.length ?? worthKeeping) >= worthKeeping
    const continuation =
      key === undefined || fields === undefined || !large
        ? undefined
        : { key, fields: Object.fromEntries(fields) }
    return this.#start(expectation, to, continuation)
  }

  /** What there is of a download that a crash broke off. */
  resumable(key: string): Resumable | undefined {
    const partial = this.#partials.get(key)
    if (partial === undefined) return undefined
    const { bytes, length, fields } = partial
    return { size: bytes, length, fields, resume: expected => this.#resume(partial, expected) }
  }

  get count(): number {
    return this.#underWay.size
  }

  /** What they take of the disk, together with what crashes have left of earlier ones. */
  get bytes(): UnderWay {
    const { arrived, unwritten, coming } = this.#arrivals.bytes
    let left = 0
    for (const { bytes } of this.#partials.values()) left += bytes
    for (const { bytes } of this.#resuming) left += bytes
    return { arrived: arrived + left, unwritten, coming }
  }

  /** Remembers an entry until its content, which must be whole, is stored. */
  put(entry: Entry): void {
    const { key, digest } = entry
    this.arriving.set(key, entry)
    this.#keys.set(digest, (this.#keys.get(digest) ?? new Set()).add(key))
    const kept = this.#whole.get(digest)?.kept
    if (kept !== undefined) this.#parts.onArriving?.(entry, kept)
  }

  whole(digest: string): Download | undefined {
    return this.#whole.get(digest)
  }

  inUse(path: string): boolean {
    const begun = [...this.#underWay.keys()].flatMap(({ file }) => file.path ?? [])
    const resuming = [...this.#resuming].map(partial => partial.path)
    return [...begun, ...resuming].some(one => path === one || path === sidecarOf(one))
  }

  /** Removes what a crash has left of one download. Answers whether there was any. Rejects when the disk fails. */
  async dropPartial(): Promise<boolean> {
    const [partial] = this.#partials.values()
    if (partial === undefined) return false
    this.#partials.delete(partial.key)
    await removePartial(this.#parts.disk, partial.path)
    return true
  }

  removed(path: string): void {
    for (const [key, partial] of this.#partials) {
      if (path === partial.path || path === sidecarOf(partial.path)) this.#partials.delete(key)
    }
  }

  /** Makes those that are large enough continuable after a crash. Answers whether there may be more to save. */
  async save(): Promise<boolean> {
    let more = false
    for (const [download, { continuation }] of [...this.#underWay]) {
      if (continuation === undefined || !download.stored || !download.growing) continue
      more = true
      if (download.size >= worthKeeping) await this.#save(download, continuation)
    }
    return more
  }

  /** Fails all of them, and those that still begin, with `reason`; waits until their files are dealt with. */
  async close(reason: Error): Promise<void> {
    this.#closing = reason
    for (const download of [...this.#underWay.keys()]) download.discard(reason)
    if (this.#underWay.size === 0) return
    await new Promise<void>(resolve => {
      this.#onIdle = resolve
    })
  }

  #destination(length: number | undefined): Destination {
    const { disk, health, layout, log, room } = this.#parts
    if (disk.hung) return { because: 'the disk does not answer' }
    // A trial tells within seconds that it takes writes again; until then a response must not say that it is stored.
    if (!health.state.writable) return { because: health.state.because }
    const because = room.refusal(length ?? 0)
    room.look()
    if (because === undefined) return { path: layout.temporaryFile(), refusal: this.#refusal }
    // The disk did not fail: it still takes what fits.
    log.info('not stored', { because })
    return { because }
  }

  /** Why a download of which so many bytes are here is not stored any more. */
  readonly #refusal = (size: number): string | undefined => {
    const { room } = this.#parts
    room.look()
    return room.overflow(size)
  }

  #start(expectation: Expectation, to: Destination, continuation?: Continuation): Download {
    const { clock, disk, health, blocks, blobs, contents, checks } = this.#parts
    let digest: string | undefined
    const download: Download = new Download({
      clock,
      disk,
      health,
      blocks,
      blobs,
      contents,
      checks,
      expectation,
      to,
      onWhole: found => {
        digest = found
        this.#arrivals.whole(download)
        if (download.stored) this.#whole.set(found, download)
      },
      onEnd: () => this.#end(download, digest),
    })
    this.#underWay.set(download, { continuation, saved: 'begun' in to })
    this.#arrivals.begin(download)
    if (continuation !== undefined) this.#parts.soon()
    this.#parts.room.look()
    if (this.#closing !== undefined) download.discard(this.#closing)
    return download
  }

  #end(download: Download, digest: string | undefined): void {
    const { disk, journal, blobs } = this.#parts
    const { path } = download.file
    const saved = this.#underWay.get(download)?.saved
    this.#underWay.delete(download)
    this.#arrivals.end(download)
    if (this.#underWay.size === 0) this.#onIdle?.()
    if (digest !== undefined && this.#whole.get(digest) === download) this.#whole.delete(digest)
    if (saved && path !== undefined) void disk.remove(sidecarOf(path)).catch(() => undefined)
    // The entries that wait for its content can be written, or are void.
    if (digest === undefined || (!download.stored && this.#whole.has(digest))) return
    const there = download.stored || blobs.has(digest)
    for (const key of this.#keys.get(digest) ?? []) {
      const entry = this.arriving.get(key)
      if (entry?.digest !== digest) continue
      this.arriving.delete(key)
      if (there) journal.put(entry)
    }
    this.#keys.delete(digest)
  }

  async #save(download: Download, { key, fields }: Continuation): Promise<void> {
    const { size, length, file } = download
    const { path } = file
    const sha256 = download.digestSoFar()
    await file.flush()
    if (path === undefined || !download.stored || !download.growing) return
    await file.sync()
    const underWay = this.#underWay.get(download)
    if (underWay === undefined) return
    underWay.saved = true
    await savePartial(this.#parts.disk, { path, key, fields, length, bytes: size, sha256 })
  }

  async #resume(partial: Partial, expected: Expected = {}): Promise<Download | undefined> {
    const { disk, log, room } = this.#parts
    const { key, fields, path, bytes, length } = partial
    if (!this.#partials.delete(key)) return undefined
    let file: DiskFile | undefined
    try {
      const expectation = new Expectation(expected, length)
      const because = room.refusal(expectation.length ?? bytes, bytes)
      if (because !== undefined) log.info('not continued', { because })
      else file = await this.#reopen(partial, expectation)
      const to = file && { path, begun: { file, size: bytes }, refusal: this.#refusal }
      return to && this.#start(expectation, to, { key, fields })
    } finally {
      if (file === undefined) await removePartial(disk, path).catch(() => undefined)
    }
  }

  #reopen(partial: Partial, expectation: Expectation): Promise<DiskFile | undefined> {
    this.#resuming.add(partial)
    return openPartial(this.#parts.disk, partial, expectation).finally(() =>
      this.#resuming.delete(partial),
    )
  }

  /** It is fetched anew: what there is of it is not wanted. */
  #forget(key: string): void {
    const partial = this.#partials.get(key)
    if (partial === undefined) return
    this.#partials.delete(key)
    void removePartial(this.#parts.disk, partial.path).catch(() => undefined)
  }
}
