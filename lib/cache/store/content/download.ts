/**
 * A content while it arrives: many readers, the latest pieces in memory, a temporary file behind.
 *
 * # How pieces flow
 * `take` hashes a piece, keeps it in the tail by reference, gives it to the readers who wait and has it written behind. It
 * answers that the origin is to wait when the disk is more than a little behind. A reader that keeps up reads the tail; one that
 * is late or slow reads the file and returns to the tail when it catches up.
 *
 * # When the disk fails
 * No reader notices. The download passes through: what the file already has stays readable, the rest lives in the tail alone,
 * and the origin waits for the slowest reader, but for none that stands still longer than half a minute.
 *
 * # The end
 * `complete` verifies at once and shows the last bytes; flushing and naming the file come behind it. Readers in the middle keep
 * what they read from; readers that come when all of them have gone read the stored content.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import type { Disk } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import type { Blobs } from './blobs.ts'
import type { Checks, Expectation, ExpectedContent } from './checks.ts'
import type { OpenContent, SharedBlocks } from './open-content.ts'
import type { Contents } from './stored-contents.ts'
import { type Destination, Tail, WriteBehind } from './write-behind.ts'

/** Whether something was stored, and if not, why; the disk's failures are answers here, never errors. */
export type PutResult =
  | { readonly stored: true }
  | { readonly stored: false; readonly because: string }

interface Completed {
  readonly digest: string
  readonly size: number
  /** Never rejects: what became of it on disk. */
  readonly kept: Promise<PutResult>
}

interface DownloadParts {
  readonly clock: Clock
  readonly disk: Disk
  readonly health: Pick<DiskHealth, 'failed'>
  readonly blocks: SharedBlocks
  readonly blobs: Pick<Blobs, 'commit' | 'place'>
  readonly contents: Pick<Contents, 'read'>
  readonly checks: Pick<Checks, 'passed'>
  readonly expectation: Expectation
  readonly to: Destination
  /** Told at once when the content is whole and verified. */
  readonly onWhole: (download: Download, digest: string) => void
  /** Called once, when it is complete or has failed and its file is dealt with. */
  readonly onEnd: (download: Download) => void
  /** Bytes kept for readers at most; more than is ever held back. */
  readonly most?: number | undefined
}

export class Download {
  readonly #parts: DownloadParts
  readonly #tail: Tail
  readonly #file: WriteBehind
  readonly #readers: Readers
  readonly #content: GrowingContent
  #state: 'growing' | 'verified' | 'settled' | 'failed' = 'growing'
  #failure: Error | undefined
  #stored: string | undefined
  #kept: Promise<PutResult> | undefined
  #ready: (() => void) | undefined

  constructor(parts: DownloadParts) {
    this.#parts = parts
    this.#readers = new Readers(parts.clock)
    this.#tail = new Tail('begun' in parts.to ? parts.to.begun?.size : 0, this.length)
    const { disk, health, to, blocks, most } = parts
    const changed = (): void => this.#changed()
    this.#file = new WriteBehind({ disk, health, to, tail: this.#tail, blocks, most, changed })
    this.#content = {
      tail: this.#tail,
      clock: this.#parts.clock,
      failure: () => this.#failure,
      behind: () => this.#file.content,
      visible: () => (this.#done ? this.size : this.#parts.expectation.visible(this.size)),
      done: () => this.#done,
      moved: () => {
        if (!this.stored || this.#done) this.#changed()
      },
      left: reader => {
        this.#readers.delete(reader)
        this.#changed()
      },
    }
  }

  /** Bytes so far, also those that are still held back. */
  get size(): number {
    return this.#tail.end
  }

  get length(): number | undefined {
    return this.#parts.expectation.length
  }

  /** More may come: it is neither complete nor failed. */
  get growing(): boolean {
    return this.#state === 'growing'
  }

  /** The SHA-256 of the bytes so far, lower-case hex. Only while it grows. */
  digestSoFar(): string {
    return this.#parts.expectation.digestSoFar()
  }

  /** How many read it now: when there are none and it is not stored, fetching on serves no client. */
  get readers(): number {
    return this.#readers.size
  }

  /** Whether the first reader may still come. */
  get awaited(): boolean {
    return this.#readers.awaited
  }

  get stored(): boolean {
    return this.because === undefined
  }

  get because(): string | undefined {
    return this.#file.because
  }

  get file(): WriteBehind {
    return this.#file
  }

  /** What becomes of it on disk, once it is complete. Never rejects. */
  get kept(): Promise<PutResult> | undefined {
    return this.#kept
  }

  canJoin(offset: number): boolean {
    if (this.#state === 'failed') return false
    if (this.#stored !== undefined) return true
    if (this.#unread) return false
    const { start } = this.#tail
    return offset >= start || (this.#file.file !== undefined && start <= this.#file.written)
  }

  /**
   * The content from `first` to `last` inclusive, or to the end, following the growth. It ends early when the content is
   * shorter, and fails with the download, or at once when `canJoin(first)` is false.
   */
  open(first: number, last?: number): Source {
    if (!this.canJoin(first)) {
      const error = this.#failure ?? tooLate(first)
      return { next: take => take(error, undefined), close() {} }
    }
    const end = last === undefined ? Number.POSITIVE_INFINITY : last + 1
    if (this.#stored !== undefined && this.#unread) {
      const [digest, size] = [this.#stored, this.size]
      return this.#parts.contents.read({ digest, size, first, end: Math.min(end, size) })
    }
    return this.#readers.add(this.#content, first, end)
  }

  /**
   * Takes a piece over. False: no more until `whenReady` says so. Throws a Failure when there are more bytes than expected,
   * which fails the download, and what the download failed with before.
   */
  take(piece: Piece): boolean {
    const { bytes } = piece
    try {
      this.#mustGrow()
      this.#parts.expectation.update(bytes, this.size + bytes.length)
    } catch (error) {
      piece.release()
      throw this.#fail(error)
    }
    if (bytes.length === 0) piece.release()
    else this.#tail.append(piece)
    this.#file.write()
    this.#readers.wake()
    this.#trim()
    return !this.#pressed
  }

  /** Readers get the beginning of a content so small that all of it was kept from them. */
  show(): void {
    if (!this.growing) return
    this.#parts.expectation.show()
    this.#readers.wake()
  }

  /** What was expected later. When the content cannot be that, the download fails. */
  promise(expected: ExpectedContent): void {
    if (!this.growing) return
    try {
      this.#parts.expectation.promise(expected, this.size)
      this.#readers.wake()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Calls `act` once when the download takes more, or has failed. */
  whenReady(act: () => void): void {
    this.#ready = act
    this.#file.write() // Blocks may have become scarce since: what holds the origin up is always being written.
    this.#relieve()
  }

  /**
   * Everything has arrived: verifies it, lets readers have the rest, and stores it behind the answer. Throws a Failure when it
   * is not what was expected: then readers fail and nothing is stored.
   */
  complete(): Completed {
    try {
      this.#mustGrow()
      const digest = this.#parts.expectation.verify(this.size)
      this.#state = 'verified'
      this.#parts.onWhole(this, digest)
      this.#readers.wake()
      this.#kept = this.#keep(digest)
      return { digest, size: this.size, kept: this.#kept }
    } catch (error) {
      throw this.#fail(error)
    }
  }

  /** Gives it up: readers fail with the reason, the temporary file goes. Does nothing after `complete` has verified. */
  discard(reason: Error): void {
    if (this.growing) this.#fail(reason)
  }

  async #keep(digest: string): Promise<PutResult> {
    // What the readers were given leaves first.
    await new Promise(resolve => setImmediate(resolve))
    await this.#commit(digest).catch(error => this.#file.giveUp(error))
    if (!this.stored) await this.#file.remove()
    this.#state = 'settled'
    if (!this.stored && this.awaited) this.#readers.watch(0, () => this.#changed())
    this.#release()
    this.#parts.onEnd(this)
    return this.because === undefined ? { stored: true } : { stored: false, because: this.because }
  }

  async #commit(digest: string): Promise<void> {
    const { blobs, checks } = this.#parts
    const content = { digest, size: this.size }
    const placed =
      this.#file.atOnce() && (await blobs.place(content, file => this.#file.writeAll(file)))
    if (!placed) {
      await this.#file.flush()
      if (!this.stored) return
      const { file, path } = this.#file
      if (file === undefined || path === undefined) throw new Error('there is no file')
      await blobs.commit(file, { path, ...content })
    }
    checks.passed(digest)
    this.#stored = digest
  }

  #mustGrow(): void {
    if (this.#failure !== undefined) throw this.#failure
    if (!this.growing) throw new Error('the download is complete')
  }

  #fail(error: unknown): Error {
    const failure = error instanceof Error ? error : new Error(String(error))
    if (!this.growing) return failure
    this.#state = 'failed'
    this.#failure = failure
    this.#release()
    this.#readers.wake()
    this.#relieve()
    void this.#file.remove().then(() => this.#parts.onEnd(this))
    return failure
  }

  get #pressed(): boolean {
    if (!this.growing || !this.#file.behind) return false
    if (!this.stored) this.#readers.watch(this.#tail.firstEnd ?? 0, () => this.#changed())
    return true
  }

  #relieve(): void {
    if (this.#ready === undefined || this.#pressed) return
    const ready = this.#ready
    this.#ready = undefined
    ready()
  }

  /** What is in the file and larger than what may be kept goes as soon as every reader has taken it. */
  #trim(): void {
    const { size, needed } = this.#readers
    const large = (this.length ?? this.size) > this.#file.most
    this.#file.trim(needed, large && size > 0 && this.stored)
    this.#release()
  }

  get #done(): boolean {
    return this.#state === 'verified' || this.#state === 'settled'
  }

  /** It is over, no reader is in the middle of it, and no reader is awaited that could read it only here. */
  get #unread(): boolean {
    const awaited = !this.stored && this.awaited
    return this.#state === 'settled' && this.#readers.size === 0 && !awaited
  }

  #changed(): void {
    this.#trim()
    this.#relieve()
  }

  /** Lets go of the file and the pieces as soon as no reader can need them. */
  #release(): void {
    if (this.#state === 'failed' || this.#unread) {
      this.#tail.clear()
      this.#file.close()
      return
    }
    // The tail begins behind the end of the file: no reader can begin in the file, and those that did have finished with it.
    const { written } = this.#file
    if (!this.stored && this.#tail.start > written && this.#readers.needed >= written) {
      this.#file.close()
    }
  }
}

/** What a reader sees of its download. */
interface GrowingContent {
  readonly tail: Tail
  readonly failure: () => Error | undefined
  /** What is in the file; undefined when there is none. */
  readonly behind: () => OpenContent | undefined
  /** How far it may read, exclusive. */
  readonly visible: () => number
  /** No more will come, and all of it is verified. */
  readonly done: () => boolean
  readonly clock: Clock
  /** Told that a reader took a piece. */
  readonly moved: () => void
  readonly left: (reader: DownloadReader) => void
}

class DownloadReader implements Source {
  position: number
  movedAt: Milliseconds
  readonly #end: number
  readonly #content: GrowingContent
  #take: Take | undefined
  #behind: Source | undefined
  #reading = false
  #dropped: Error | undefined
  #closed = false

  constructor(content: GrowingContent, first: number, end: number) {
    this.#content = content
    this.position = first
    this.#end = end
    this.movedAt = content.clock.elapsed()
  }

  /** The oldest byte it still needs; infinite when it has all it asked for. */
  get needs(): number {
    return this.position < this.#end ? this.position : Number.POSITIVE_INFINITY
  }

  next(take: Take): void {
    if (this.#closed) return take(undefined, undefined)
    this.#take = take
    this.wake()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#take = undefined
    this.#behind?.close()
    this.#content.left(this)
  }

  /** There may be more, or an end: looks, if a piece is waited for and not already being read. */
  wake(): void {
    if (this.#take === undefined) return
    const content = this.#content
    const wrong = this.#dropped ?? content.failure()
    if (wrong !== undefined) return this.#give(wrong, undefined)
    if (this.#behind !== undefined) return this.#readBehind(this.#behind)
    const end = Math.min(content.visible(), this.#end)
    const { tail } = content
    if (this.position >= this.#end) this.#give(undefined, undefined)
    else if (this.position >= end) {
      if (content.done()) this.#give(undefined, undefined)
    } else if (this.position >= tail.start) this.#give(undefined, tail.slice(this.position, end))
    else this.#fallBehind(end)
  }

  /** Fails it from now on, for it has stood still for `stall` while others waited. */
  drop(): void {
    this.#dropped = new Failure(`A reader took nothing for ${stall} ms while others waited.`, {
      code: 'reader-stalled',
      fault: 'downstream',
      publicText: 'The client did not take what it asked for.',
      facts: { stall },
    })
    this.wake()
  }

  /** What the tail has let go is in the file, up to where the tail begins now; by then it may have moved on. */
  #fallBehind(end: number): void {
    const behind = this.#content.behind()
    if (behind === undefined) {
      return this.#give(new Error('the bytes are neither in memory nor on disk'), undefined)
    }
    this.#behind = behind.read(this.position, Math.min(end, this.#content.tail.start))
    this.#readBehind(this.#behind)
  }

  #readBehind(behind: Source): void {
    if (this.#reading) return
    this.#reading = true
    behind.next((error, piece) => {
      this.#reading = false
      if (piece === undefined) {
        behind.close()
        this.#behind = undefined
        if (error === undefined) return this.wake()
      }
      this.#give(error, piece)
    })
  }

  #give(error: Error | undefined, piece: Piece | undefined): void {
    const take = this.#take
    this.#take = undefined
    // It was told of a failure while the file was being read for it.
    if (take === undefined) return piece?.release()
    if (piece !== undefined) {
      this.position += piece.bytes.length
      this.movedAt = this.#content.clock.elapsed()
      this.#content.moved()
    }
    take(error, piece)
  }
}

/** How long a reader may stand still while the origin waits for it. */
const stall: Milliseconds = 30_000

/** All readers of a download. */
class Readers {
  readonly #clock: Clock
  readonly #readers = new Set<DownloadReader>()
  #watching = false
  #awaited = true

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#readers.size
  }

  /** Whether the first one may still come: it has not, and has not stayed away for `stall` either. */
  get awaited(): boolean {
    return this.#awaited
  }

  /** The oldest byte that one of them still needs; infinite when none does. */
  get needed(): number {
    if (this.#awaited) return 0
    let needed = Number.POSITIVE_INFINITY
    for (const reader of this.#readers) needed = Math.min(needed, reader.needs)
    return needed
  }

  add(content: GrowingContent, first: number, end: number): DownloadReader {
    this.#awaited = false
    const reader = new DownloadReader(content, first, end)
    this.#readers.add(reader)
    return reader
  }

  delete(reader: DownloadReader): void {
    this.#readers.delete(reader)
  }

  wake(): void {
    for (const reader of this.#readers) reader.wake()
  }

  /**
   * The origin waits for the readers that need bytes before `end`, or for the first reader. Fails those that stand still while others
   * wait for them, and calls `then`. A reader that keeps no other waiting may be as slow as the server lets it.
   */
  watch(end: number, then: () => void): void {
    if (this.#watching) return
    this.#watching = true
    const blockers = [...this.#readers].filter(reader => reader.needs < end)
    const now = this.#clock.elapsed()
    const alone = blockers.length === this.#readers.size
    const since = alone ? now : Math.min(now, ...blockers.map(reader => reader.movedAt))
    this.#clock.after(Math.max(1, since + stall - now), () => {
      this.#watching = false
      this.#awaited = false
      const before = this.#clock.elapsed() - stall
      const othersWait = [...this.#readers].some(reader => !blockers.includes(reader))
      for (const reader of blockers) {
        if (!othersWait || reader.movedAt > before || !this.#readers.delete(reader)) continue
        reader.drop()
      }
      then()
    })
  }
}

/** The bytes asked for have passed. */
function tooLate(offset: number): Failure {
  return new Failure(`Byte ${offset} of the download has passed and was not stored.`, {
    code: 'too-late',
    fault: 'internal',
    publicText: 'The beginning of this download is no longer available.',
    facts: { offset },
  })
}
