/**
 * The downloads under way: begins them, and finds those that clients can read.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Entry } from '../entry.ts'
import type { StoreEvents } from '../events.ts'
import type { Checks } from './checks.ts'
import { Download } from './download.ts'
import { Expectation, type ExpectedContent } from './expectation.ts'
import type { OpenFiles, SharedBlocks } from './open-content.ts'
import type { UpkeepParts } from './removal.ts'
import type { Arrivals, Room } from './room.ts'
import type { Destination } from './write-behind.ts'

export interface DownloadOptions {
  readonly expected?: ExpectedContent | undefined
  readonly length?: number | undefined
  /** Why the content must not be written to the disk; only the clients that read it now get it then. */
  readonly passing?: string | undefined
}

/** A download waits this long in all for room within the quota. */
const longestWait: Milliseconds = 5_000

interface DownloadsParts extends UpkeepParts {
  readonly blocks: SharedBlocks
  readonly files: OpenFiles
  readonly checks: Checks
  readonly room: Room
  readonly arrivals: Arrivals
  readonly events: Pick<StoreEvents, 'tell'>
}

export class Downloads {
  /** Entries whose content is whole and not yet stored, by key. */
  readonly arriving = new Map<string, Entry>()
  readonly #parts: DownloadsParts
  readonly #underWay = new Set<Download>()
  readonly #whole = new Map<string, Download>()
  #closing: Error | undefined
  /** Callbacks for the moment when no download is under way. */
  readonly #awaitIdle: Array<() => void> = []

  constructor(parts: DownloadsParts) {
    this.#parts = parts
  }

  /** Begins a download. Throws a Failure when the announced length is not the expected size. */
  begin({ expected, length, passing }: DownloadOptions): Download {
    const expectation = new Expectation(expected ?? {}, length)
    const to = passing === undefined ? this.#destination(expectation.length) : { because: passing }
    const { arrivals, room } = this.#parts
    const [onWhole, onEnd] = [this.#onWhole, this.#onEnd]
    const download = new Download({ ...this.#parts, expectation, to, onWhole, onEnd })
    this.#underWay.add(download)
    arrivals.begin(download)
    room.look()
    if (this.#closing !== undefined) download.discard(this.#closing)
    return download
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

  /** Whether a path is the temporary file of a download under way. */
  inUse(path: string): boolean {
    return [...this.#underWay].some(({ file }) => file.path === path)
  }

  /** Fails all downloads with `reason`, also those that begin later. Resolves when their files have been stored or removed. */
  async close(reason: Error): Promise<void> {
    this.#closing = reason
    for (const download of [...this.#underWay]) download.discard(reason)
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

  /** Answers before each write of a download whether it must no longer be stored, or has to wait for room. */
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

  readonly #onWhole = (download: Download): void => {
    const { completed, stored } = download
    this.#parts.arrivals.whole(download)
    if (stored && completed !== undefined) this.#whole.set(completed.digest, download)
  }

  readonly #onEnd = (download: Download): void => {
    const { journal, blobs, arrivals } = this.#parts
    const digest = download.completed?.digest
    this.#underWay.delete(download)
    arrivals.end(download)
    if (this.#underWay.size === 0) for (const resolve of this.#awaitIdle.splice(0)) resolve()
    if (digest !== undefined && this.#whole.get(digest) === download) this.#whole.delete(digest)
    // The entries that wait for this content are written when it is stored, and dropped when it is not.
    if (digest === undefined || (!download.stored && this.#whole.has(digest))) return
    const there = download.stored || blobs.has(digest)
    for (const [key, entry] of this.arriving) {
      if (entry.digest !== digest) continue
      this.arriving.delete(key)
      if (there) journal.put(entry)
    }
  }
}
