/**
 * A content while it arrives: it has many readers, keeps its latest pieces in memory, and is written to a temporary file.
 *
 * # How pieces flow
 * `take` hashes a piece, appends it to the tail by reference, gives it to the waiting readers and has it written. It answers that the
 * origin must wait when the disk has too much left to write. A fast reader reads the tail. A late or slow reader reads the file and
 * returns to the tail when it catches up.
 *
 * # When the disk fails
 * No reader notices. The bytes in the file stay readable and the tail alone keeps the rest. The origin then waits for the slowest reader,
 * but not for a reader that takes nothing for half a minute while others wait.
 *
 * # The end
 * `complete` verifies at once and shows the last bytes; the file gets its name afterwards. Readers that have begun go on with the tail
 * and the temporary file. A reader that begins when no other reader is left reads the stored content.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import type { Blobs } from './blobs.ts'
import type { Checks } from './checks.ts'
import type { Expectation, ExpectedContent } from './expectation.ts'
import type { OpenFiles } from './open-content.ts'
import { Tail } from './tail.ts'
import { WriteBehind, type WriteBehindParts } from './write-behind.ts'

/** Whether a content or an entry was stored, and if not, why. Failures of the disk are answers here, not errors. */
export type PutResult =
  | { readonly stored: true }
  | { readonly stored: false; readonly because: string }

interface Completed {
  readonly digest: string
  readonly size: number
  /** Resolves with what happened to the content on disk. Never rejects. */
  readonly kept: Promise<PutResult>
}

interface DownloadParts extends Omit<WriteBehindParts, 'tail' | 'changed'> {
  readonly clock: Clock
  readonly blobs: Pick<Blobs, 'commit' | 'place'>
  readonly files: Pick<OpenFiles, 'read'>
  readonly checks: Pick<Checks, 'passed'>
  readonly expectation: Expectation
  /** Called at once when the content is whole and verified. */
  readonly onWhole: (download: Download) => void
  /** Called once, when the download is complete or has failed and its file has been stored or removed. */
  readonly onEnd: (download: Download) => void
}

export class Download {
  readonly file: WriteBehind
  readonly #parts: DownloadParts
  readonly #tail: Tail
  readonly #readers: Readers
  #state: 'growing' | 'verified' | 'settled' | 'failed' = 'growing'
  #completed: Completed | undefined
  #ready: (() => void) | undefined

  constructor(parts: DownloadParts) {
    this.#parts = parts
    const { clock, expectation } = parts
    const tail = new Tail(expectation.length)
    const changed = (): void => this.#changed()
    const file = new WriteBehind({ ...parts, tail, changed })
    this.#tail = tail
    this.file = file
    this.#readers = new Readers({ clock, expectation, tail, file, changed })
  }

  /** Bytes that have arrived, also those that are still held back from readers. */
  get size(): number {
    return this.#tail.end
  }

  get length(): number | undefined {
    return this.#parts.expectation.length
  }

  /** Whether more bytes may come: the download is neither complete nor failed. */
  get growing(): boolean {
    return this.#state === 'growing'
  }

  /** The result of `complete`. */
  get completed(): Completed | undefined {
    return this.#completed
  }

  /** The SHA-256 of the bytes so far, lower-case hex. It may be asked only while the download grows. */
  digestSoFar(): string {
    return this.#parts.expectation.digestSoFar()
  }

  /** The number of readers. Without readers, fetching the rest of a download that is not stored serves no client. */
  get readers(): number {
    return this.#readers.size
  }

  /** Whether the first reader is still expected. */
  get awaited(): boolean {
    return this.#readers.awaited
  }

  get stored(): boolean {
    return this.because === undefined
  }

  get because(): string | undefined {
    return this.file.because
  }

  /** Whether a new reader can begin at `offset`. */
  canJoin(offset: number): boolean {
    if (this.#state === 'failed') return false
    if (this.#unread) return this.stored
    const { start } = this.#tail
    return offset >= start || (this.file.file !== undefined && start <= this.file.written)
  }

  /**
   * Reads the content from `first` to `last` inclusive, or to the end, while it grows. The source ends early when the content is
   * shorter. It fails when the download fails, and at once when `canJoin(first)` is false.
   */
  open(first: number, last?: number): Source {
    if (!this.canJoin(first)) {
      const error = this.#readers.failure ?? tooLate(first)
      return { next: take => take(error, undefined), close() {} }
    }
    const end = last === undefined ? Number.POSITIVE_INFINITY : last + 1
    if (this.#completed !== undefined && this.#unread) {
      const { digest, size } = this.#completed
      return this.#parts.files.read({ digest, size, first, end: Math.min(end, size) })
    }
    return this.#readers.add(first, end)
  }

  /**
   * Takes a piece and its ownership. False means that the caller must not send more until `whenReady` calls back. Throws a Failure
   * and fails the download when there are more bytes than expected. Throws the earlier error when the download has failed.
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
    this.file.write()
    this.#readers.wake()
    this.#trim()
    return !this.#pressed
  }

  /** Lets readers have the beginning of a content that is so small that all of it was held back. */
  show(): void {
    if (!this.growing) return
    this.#parts.expectation.show()
    this.#readers.wake()
  }

  /** Sets the expected size and digest that an index named only later. The download fails when the content cannot match. */
  promise(expected: ExpectedContent): void {
    if (!this.growing) return
    try {
      this.#parts.expectation.promise(expected, this.size)
      this.#readers.wake()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Calls `act` once when the download takes more pieces, or has failed. */
  whenReady(act: () => void): void {
    this.#ready = act
    // Blocks may have become scarce since the last piece, which makes smaller batches due: a write must be under way while the origin waits.
    this.file.write()
    this.#relieve()
  }

  /**
   * Verifies the content after its last byte, lets readers have the rest, and begins to store it (`kept`). Throws a Failure when the
   * content is not the expected one: then readers fail and nothing is stored.
   */
  complete(): Completed {
    try {
      this.#mustGrow()
      const digest = this.#parts.expectation.verify(this.size)
      this.#state = 'verified'
      this.#completed = { digest, size: this.size, kept: this.#keep(digest) }
      this.#parts.onWhole(this)
      this.#readers.wake()
      return this.#completed
    } catch (error) {
      throw this.#fail(error)
    }
  }

  /** Gives the download up: readers fail with the reason, and the temporary file is removed. Does nothing after `complete`. */
  discard(reason: Error): void {
    if (this.growing) this.#fail(reason)
  }

  async #keep(digest: string): Promise<PutResult> {
    // The bytes that readers were just given are sent first.
    await new Promise(resolve => setImmediate(resolve))
    await this.#commit(digest).catch(error => this.file.giveUp(error))
    if (!this.stored) await this.file.remove()
    this.#state = 'settled'
    if (!this.stored && this.awaited) this.#readers.watch(0)
    this.#release()
    this.#parts.onEnd(this)
    return this.because === undefined ? { stored: true } : { stored: false, because: this.because }
  }

  async #commit(digest: string): Promise<void> {
    const { blobs, checks } = this.#parts
    const content = { digest, size: this.size }
    const placed =
      this.file.atOnce() && (await blobs.place(content, file => this.file.writeAll(file)))
    if (!placed) {
      await this.file.flush()
      if (!this.stored) return
      const { file, path } = this.file
      if (file === undefined || path === undefined) throw new Error('there is no file')
      await blobs.commit(file, { path, ...content })
    }
    checks.passed(digest)
  }

  #mustGrow(): void {
    const { failure } = this.#readers
    if (failure !== undefined) throw failure
    if (!this.growing) throw new Error('the download is complete')
  }

  #fail(error: unknown): Error {
    const failure = error instanceof Error ? error : new Error(String(error))
    if (!this.growing) return failure
    this.#state = 'failed'
    this.#readers.failure = failure
    this.#release()
    this.#readers.wake()
    this.#relieve()
    void this.file.remove().then(() => this.#parts.onEnd(this))
    return failure
  }

  get #pressed(): boolean {
    if (!this.growing || !this.file.behind) return false
    if (!this.stored) this.#readers.watch(this.#tail.firstEnd ?? 0)
    return true
  }

  #relieve(): void {
    if (this.#ready === undefined || this.#pressed) return
    const ready = this.#ready
    this.#ready = undefined
    ready()
  }

  /** Trims the tail. A content larger than the tail may be gives up each written piece as soon as every reader has taken it. */
  #trim(): void {
    const { size, needed } = this.#readers
    const large = (this.length ?? this.size) > this.file.most
    this.file.trim(needed, large && size > 0 && this.stored)
    this.#release()
  }

  /** Whether the download is settled, has no readers, and no first reader is expected that could read the content only here. */
  get #unread(): boolean {
    const awaited = !this.stored && this.awaited
    return this.#state === 'settled' && this.#readers.size === 0 && !awaited
  }

  #changed(): void {
    this.#trim()
    this.#relieve()
  }

  /** Closes the file and drops the pieces as soon as no reader can need them. */
  #release(): void {
    if (this.#state === 'failed' || this.#unread) {
      this.#tail.clear()
      this.file.close()
      return
    }
    // The tail begins after the end of the file, so no new reader can begin in the file, and no present reader needs it.
    const { written } = this.file
    if (!this.stored && this.#tail.start > written && this.#readers.needed >= written) {
      this.file.close()
    }
  }
}

class DownloadReader implements Source {
  position: number
  movedAt: Milliseconds
  readonly #end: number
  readonly #readers: Readers
  #take: Take | undefined
  #behind: Source | undefined
  #reading = false
  #dropped: Error | undefined
  #closed = false

  constructor(readers: Readers, first: number, end: number) {
    this.#readers = readers
    this.position = first
    this.#end = end
    this.movedAt = readers.parts.clock.elapsed()
  }

  /** Position of the oldest byte that this reader still needs; infinite when it has all bytes that it asked for. */
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
    this.#readers.left(this)
  }

  /** Looks for the next piece or the end, if the consumer waits for a piece that is not being read yet. */
  wake(): void {
    if (this.#take === undefined) return
    const wrong = this.#dropped ?? this.#readers.failure
    if (wrong !== undefined) return this.#give(wrong, undefined)
    if (this.#behind !== undefined) return this.#readBehind(this.#behind)
    const { tail, expectation } = this.#readers.parts
    const end = Math.min(expectation.visible(tail.end), this.#end)
    if (this.position >= this.#end) this.#give(undefined, undefined)
    else if (this.position >= end) {
      if (expectation.verified) this.#give(undefined, undefined)
    } else if (this.position >= tail.start) this.#give(undefined, tail.slice(this.position, end))
    else this.#fallBehind(end)
  }

  /** Fails this reader, because it took nothing for `stall` while others waited. */
  drop(): void {
    this.#dropped = new Failure(`A reader took nothing for ${stall} ms while others waited.`, {
      code: 'reader-stalled',
      fault: 'downstream',
      publicText: 'The client did not take what it asked for.',
      facts: { stall },
    })
    this.wake()
  }

  /** Reads from the file the bytes that the tail has dropped, up to the present start of the tail. */
  #fallBehind(end: number): void {
    const { tail, file } = this.#readers.parts
    if (file.content === undefined) {
      return this.#give(new Error('the bytes are neither in memory nor on disk'), undefined)
    }
    this.#behind = file.content.read(this.position, Math.min(end, tail.start))
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
    // The consumer got a failure while the file was being read.
    if (take === undefined) return piece?.release()
    if (piece !== undefined) {
      this.position += piece.bytes.length
      const { clock, expectation, file, changed } = this.#readers.parts
      this.movedAt = clock.elapsed()
      if (file.because !== undefined || expectation.verified) changed()
    }
    take(error, piece)
  }
}

/** How long a reader may take nothing while the origin waits for it. */
const stall: Milliseconds = 30_000

interface ReadersParts {
  readonly clock: Clock
  readonly expectation: Expectation
  readonly tail: Tail
  readonly file: WriteBehind
  /** Called when fewer bytes or readers may be needed. */
  readonly changed: () => void
}

/** All readers of a download. */
class Readers {
  readonly parts: ReadersParts
  /** Why the download has failed. */
  failure: Error | undefined
  readonly #readers = new Set<DownloadReader>()
  #watching = false
  #awaited = true

  constructor(parts: ReadersParts) {
    this.parts = parts
  }

  get size(): number {
    return this.#readers.size
  }

  /** Whether the first reader is still expected: none has come, and the origin has not waited `stall` for it either. */
  get awaited(): boolean {
    return this.#awaited
  }

  /** Position of the oldest byte that a reader still needs, 0 while the first reader is expected, infinite when no reader needs any. */
  get needed(): number {
    if (this.#awaited) return 0
    let needed = Number.POSITIVE_INFINITY
    for (const reader of this.#readers) needed = Math.min(needed, reader.needs)
    return needed
  }

  add(first: number, end: number): DownloadReader {
    this.#awaited = false
    const reader = new DownloadReader(this, first, end)
    this.#readers.add(reader)
    return reader
  }

  left(reader: DownloadReader): void {
    this.#readers.delete(reader)
    this.parts.changed()
  }

  wake(): void {
    for (const reader of this.#readers) reader.wake()
  }

  /**
   * Watches while the origin waits for the readers that need bytes before `end`, or for the first reader. After `stall` it fails those
   * of them that took nothing while other readers waited. A reader that no other reader waits for may be slow.
   */
  watch(end: number): void {
    if (this.#watching) return
    this.#watching = true
    const blockers = [...this.#readers].filter(reader => reader.needs < end)
    const { clock, changed } = this.parts
    const now = clock.elapsed()
    const alone = blockers.length === this.#readers.size
    const since = alone ? now : Math.min(now, ...blockers.map(reader => reader.movedAt))
    clock.after(Math.max(1, since + stall - now), () => {
      this.#watching = false
      this.#awaited = false
      const before = clock.elapsed() - stall
      const othersWait = [...this.#readers].some(reader => !blockers.includes(reader))
      for (const reader of blockers) {
        if (!othersWait || reader.movedAt > before || !this.#readers.delete(reader)) continue
        reader.drop()
      }
      changed()
    })
  }
}

/** The failure of a reader whose first byte is no longer in memory or on disk. */
function tooLate(offset: number): Failure {
  return new Failure(`Byte ${offset} of the download has passed and was not stored.`, {
    code: 'too-late',
    fault: 'internal',
    publicText: 'The beginning of this download is no longer available.',
    facts: { offset },
  })
}
