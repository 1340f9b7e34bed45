/**
 * The downloads under way: begins them, continues them after a crash, and finds those that clients can read.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { DiskFile } from '../disk/disk.ts'
import type { Entry } from '../entry.ts'
import type { StoreEvents } from '../events.ts'
import { type Checks, Expectation, type ExpectedContent } from './checks.ts'
import { Download } from './download.ts'
import type { OpenFiles, SharedBlocks } from './open-content.ts'
import type { UpkeepParts } from './removal.ts'
import type { Arrivals, Room } from './room.ts'
import {
  type Continuation,
  type Destination,
  isOf,
  type PartialDownload,
  type Partials,
  savePartial,
  sidecarOf,
  worthKeeping,
} from './write-behind.ts'

export interface DownloadOptions {
  /** The key of the target. With `fields`, the fields of the origin's response, a large download can be continued after a crash. */
  readonly key?: string
  readonly fields?: Entry['fields']
  readonly expected?: ExpectedContent | undefined
  readonly length?: number | undefined
  /** Why the content must not be written to the disk; only the clients that read it now get it then. */
  readonly passing?: string | undefined
}

/** The beginning of a download that a crash broke off. */
export interface ResumableDownload {
  readonly size: number
  readonly length: number | undefined
  readonly fields: Continuation['fields']
  /**
   * Hashes the bytes again and continues the download. Undefined when the bytes are not those that were written, or there is no room.
   * Rejects when the disk fails, and when the length is not the expected size. A partial download that does not continue is removed.
   */
  resume(expected?: ExpectedContent): Promise<Download | undefined>
}

/** A download waits this long in all for room within the quota. */
const longestWait: Milliseconds = 5_000

interface DownloadsParts extends UpkeepParts {
  readonly blocks: SharedBlocks
  readonly files: OpenFiles
  readonly checks: Checks
  readonly room: Room
  readonly arrivals: Arrivals
  readonly partials: Partials
  readonly events: Pick<StoreEvents, 'tell'>
}

export class Downloads {
  /** Entries whose content is whole and not yet stored, by key. */
  readonly arriving = new Map<string, Entry>()
  readonly #parts: DownloadsParts
  /** Each download with the key and the fields with which a crash lets it continue. */
  readonly #underWay = new Map<Download, Continuation | undefined>()
  readonly #whole = new Map<string, Download>()
  #closing: Error | undefined
  /** Callbacks for the moment when no download is under way. */
  readonly #awaitIdle: Array<() => void> = []

  constructor(parts: DownloadsParts) {
    this.#parts = parts
  }

  /** Begins a download. Throws a Failure when the announced length is not the expected size. */
  begin({ key, fields, expected, length, passing }: DownloadOptions): Download {
    const expectation = new Expectation(expected ?? {}, length)
    const to = passing === undefined ? this.#destination(expectation.length) : { because: passing }
    if (key !== undefined) this.#parts.partials.forget(key)
    const large = (expectation.length ?? worthKeeping) >= worthKeeping
    const continuation =
      key === undefined || fields === undefined || !large
        ? undefined
        : { key, fields: Object.fromEntries(fields) }
    return this.#start(expectation, to, continuation)
  }

  /** The partial download of a key; undefined when there is none. */
  resumable(key: string): ResumableDownload | undefined {
    const partial = this.#parts.partials.get(key)
    if (partial === undefined) return undefined
    const { bytes, length, fields } = partial
    return { size: bytes, length, fields, resume: expected => this.#resume(partial, expected) }
  }

  get count(): number {
    return this.#underWay.size
  }

  /** Resolves when no download is under way and their files have been stored or removed. */
  async idle(): Promise<void> {
    if (this.#underWay.size === 0) return
    await new Promise<void>(resolve => this.#awaitIdle.push(resolve))
  }

  /** Remembers an entry until its content, which must be whole, is stored. */
  put(entry: Entry): void {
    this.arriving.set(entry.key, entry)
    const kept = this.#whole.get(entry.digest)?.completed?.kept
    if (kept !== undefined) this.#parts.events.tell('arriving', { entry, kept })
  }

  whole(digest: string): Download | undefined {
    return this.#whole.get(digest)
  }

  inUse(path: string): boolean {
    const begun = [...this.#underWay.keys()].flatMap(({ file }) => file.path ?? [])
    return begun.some(one => isOf(path, one))
  }

  /** Saves the downloads that are large enough, so that a crash lets them continue. Answers whether there may be more to save. */
  async save(): Promise<boolean> {
    let more = false
    for (const [download, continuation] of [...this.#underWay]) {
      if (continuation === undefined || !download.stored || !download.growing) continue
      more = true
      if (download.size >= worthKeeping) await this.#save(download, continuation)
    }
    return more
  }

  /** Fails all downloads with `reason`, also those that begin later. Resolves when their files have been stored or removed. */
  async close(reason: Error): Promise<void> {
    this.#closing = reason
    for (const download of [...this.#underWay.keys()]) download.discard(reason)
    await this.idle()
  }

  #destination(length: number | undefined): Destination {
    const { disk, health, layout, log, room } = this.#parts
    if (disk.hung) return { because: 'the disk does not answer' }
    // A trial finds out within seconds that the disk takes writes again. Until then a response must not say that it is stored.
    if (!health.state.writable) return { because: health.state.because }
    room.look()
    const because = room.refusal(length ?? 0)
    if (because === undefined) return { path: layout.temporaryFile(), refusal: this.#refusals() }
    // The disk did not fail: it still takes smaller contents.
    log.info('not stored', { because })
    return { because }
  }

  /** Answers before each write of a download whether it must not be stored any more, or has to wait for room. */
  #refusals(): NonNullable<Extract<Destination, { readonly path: string }>['refusal']> {
    const { room, clock } = this.#parts
    let until: Milliseconds | undefined
    let waited = false
    return size => {
      room.look()
      const refused = room.overflow(size)
      if (refused === undefined) {
        waited = false
        return undefined
      }
      const { because, wait } = refused
      until ??= clock.elapsed() + longestWait
      const left = until - clock.elapsed()
      // A wait that made no room is not repeated: nothing else may be removed.
      if (!wait || waited || left <= 0) return { because }
      waited = true
      return { because, made: room.made(left) }
    }
  }

  #start(expectation: Expectation, to: Destination, continuation?: Continuation): Download {
    const { arrivals, events, room } = this.#parts
    const [onWhole, onEnd] = [this.#onWhole, this.#onEnd]
    const download = new Download({ ...this.#parts, expectation, to, onWhole, onEnd })
    this.#underWay.set(download, continuation)
    arrivals.begin(download)
    if (continuation !== undefined) events.tell('begun', undefined)
    room.look()
    if (this.#closing !== undefined) download.discard(this.#closing)
    return download
  }

  readonly #onWhole = (download: Download): void => {
    const { completed, stored } = download
    this.#parts.arrivals.whole(download)
    if (stored && completed !== undefined) this.#whole.set(completed.digest, download)
  }

  readonly #onEnd = (download: Download): void => {
    const { disk, journal, blobs, arrivals } = this.#parts
    const digest = download.completed?.digest
    const { path } = download.file
    const savable = this.#underWay.get(download) !== undefined && download.size >= worthKeeping
    this.#underWay.delete(download)
    arrivals.end(download)
    if (this.#underWay.size === 0) for (const resolve of this.#awaitIdle.splice(0)) resolve()
    if (digest !== undefined && this.#whole.get(digest) === download) this.#whole.delete(digest)
    if (savable && path !== undefined) void disk.remove(sidecarOf(path)).catch(() => undefined)
    // The entries that wait for this content are written when it is stored, and dropped when it is not.
    if (digest === undefined || (!download.stored && this.#whole.has(digest))) return
    const there = download.stored || blobs.has(digest)
    for (const [key, entry] of this.arriving) {
      if (entry.digest !== digest) continue
      this.arriving.delete(key)
      if (there) journal.put(entry)
    }
  }

  async #save(download: Download, { key, fields }: Continuation): Promise<void> {
    const { size, length, file } = download
    const { path } = file
    const sha256 = download.digestSoFar()
    await file.flush()
    if (path === undefined || !download.stored || !download.growing) return
    await file.sync()
    if (!this.#underWay.has(download)) return
    await savePartial(this.#parts.disk, { path, key, fields, length, bytes: size, sha256 })
  }

  async #resume(
    partial: PartialDownload,
    expected: ExpectedContent = {},
  ): Promise<Download | undefined> {
    const { log, room, partials } = this.#parts
    const { key, fields, path, bytes, length } = partial
    if (!partials.take(partial)) return undefined
    let file: DiskFile | undefined
    try {
      const expectation = new Expectation(expected, length)
      const because = room.refusal(expectation.length ?? bytes, bytes)
      if (because !== undefined) log.info('not continued', { because })
      else file = await partials.reopen(partial, expectation)
      const to = file && { path, begun: { file, size: bytes }, refusal: this.#refusals() }
      return to && this.#start(expectation, to, { key, fields })
    } finally {
      if (file === undefined) await partials.remove(partial).catch(() => undefined)
    }
  }
}
