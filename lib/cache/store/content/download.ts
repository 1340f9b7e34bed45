/**
 * A content while it arrives: one writer, many readers, a temporary file and a window of the latest bytes.
 *
 * # How bytes flow
 * `append` hashes a block, copies it into the window, wakes the readers and has it written behind; it holds the writer back
 * when the disk is more than a little behind. A reader that keeps up lives on the window; one that is late or slow reads the
 * file and returns to the window when it catches up.
 *
 * # When the disk fails
 * Nobody notices. The download becomes a relay: what the file already has stays readable, the rest lives in the window alone,
 * and the writer waits for the slowest reader, but for none that stands still longer than `stall`.
 *
 * # The end
 * `complete` verifies, then shows the last block, then flushes and names the blob. Readers in the middle keep the same handle;
 * whoever comes after they have all gone reads the blob.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Change } from '../../../async/condition.ts'
import { Failure } from '../../../errors.ts'
import { iterate } from './blocks.ts'
import { Reader } from './download-reader.ts'
import type { Expectation } from './expectation.ts'
import { Window } from './tail-buffer.ts'
import { type Disk, Spool } from './write-behind.ts'

/** What came of a download: its content is in the store, or everybody was served and the disk did not take it. */
export type Completion =
  | { readonly digest: string; readonly size: number; readonly stored: true }
  | {
      readonly digest: string
      readonly size: number
      readonly stored: false
      readonly because: string
    }

/** What a download needs of its store. */
export interface DownloadParts {
  readonly clock: Clock
  readonly expectation: Expectation
  readonly disk: Disk
  /** Names the finished file. Throws when the disk fails. */
  readonly commit: (path: string, digest: string, size: number) => Promise<void>
  /** Reads the content after it was committed and the temporary handle is gone. */
  readonly reopen: (
    digest: string,
    range: { readonly first: number; readonly last: number; readonly size: number },
    signal: AbortSignal,
  ) => AsyncIterable<Buffer>
  /** Notes that the disk failed; answers the reason in words. */
  readonly diskFailed: (error: unknown) => string
  /** Called once, when it is complete or has failed and its file is dealt with. */
  readonly onEnd: () => void
  /** Bytes of the window; more than is ever held back. */
  readonly window?: number
  /** How long a reader may stand still while a relay waits for it, and the disk before it is given up. */
  readonly stall?: Milliseconds
}

const windowBytes = 4 * 1024 * 1024
const stallTime: Milliseconds = 30_000

export class Download {
  readonly #parts: DownloadParts
  readonly #window: Window
  readonly #spool: Spool
  readonly #limit: number
  readonly #stall: Milliseconds
  readonly #readers = new Set<Reader>()
  /** Whether a reader has ever begun: content may be whole before the first one does. */
  #joined = false
  #state: 'growing' | 'verified' | 'settled' | 'failed' = 'growing'
  #failure: Error | undefined
  /** The blob's name, once it has it. */
  #committed: string | undefined
  readonly #change = new Change()

  constructor(parts: DownloadParts) {
    this.#parts = parts
    this.#limit = parts.window ?? windowBytes
    this.#stall = parts.stall ?? stallTime
    this.#window = new Window(parts.expectation.length)
    this.#spool = new Spool({
      disk: parts.disk,
      window: this.#window,
      limit: this.#limit,
      failed: parts.diskFailed,
      changed: () => this.#change.announce(),
    })
  }

  /** Bytes so far, also those that are still held back. */
  get size(): number {
    return this.#window.end
  }

  /** The final length, when the origin or the archive named it. */
  get length(): number | undefined {
    return this.#parts.expectation.length
  }

  /** The SHA-256 of the bytes so far, lower-case hex. */
  digestSoFar(): string {
    return this.#parts.expectation.digestSoFar()
  }

  /** How many read it now: when nobody does and it is not stored, fetching on serves nobody. */
  get readers(): number {
    return this.#readers.size
  }

  /** Whether the content goes to disk; `because` tells why not. */
  get stored(): boolean {
    return this.because === undefined
  }

  get because(): string | undefined {
    return this.#spool.because
  }

  /** Whether a reader may still begin at this byte. */
  canJoin(offset: number): boolean {
    if (this.#state === 'failed') return false
    if (this.#committed !== undefined) return true
    if (this.#state === 'settled' && this.#joined && this.#readers.size === 0) return false
    if (offset >= this.#window.start) return true
    return this.#spool.file !== undefined && this.#window.start <= this.#spool.written
  }

  /**
   * The content from `first` to `last` inclusive, or to the end, following the growth. Ends early when the content is shorter.
   * Throws the download's failure, and the signal's reason. Throws at once when `canJoin(first)` is false.
   */
  open(first: number, last: number | undefined, signal: AbortSignal): AsyncIterable<Buffer> {
    if (!this.canJoin(first)) throw this.#failure ?? tooLate(first)
    if (this.#committed !== undefined && this.#spool.file === undefined) {
      const { size } = this
      const end = Math.min(last ?? size - 1, size - 1)
      return this.#parts.reopen(this.#committed, { first, last: end, size }, signal)
    }
    const reader = new Reader({ first, last, now: this.#parts.clock.now() }, this.#content)
    this.#readers.add(reader)
    this.#joined = true
    return iterate(reader, signal)
  }

  /**
   * Takes the next bytes; the block may be used again when the promise is kept. Throws a Failure when there are more than
   * expected, which fails the download, and whatever the download failed with meanwhile.
   */
  async append(block: Buffer): Promise<void> {
    this.#mustGrow()
    if (block.length === 0) return
    try {
      this.#parts.expectation.update(block, this.size + block.length)
    } catch (error) {
      throw await this.#fail(error)
    }
    this.#window.append(block)
    this.#spool.write()
    this.#change.announce()
    while (this.#state === 'growing' && this.#pressed()) await this.#relief()
    if (this.#failure !== undefined) throw this.#failure
  }

  /**
   * Everything has arrived: verifies it, lets readers have the rest, and stores it. Throws a Failure when it is not what was
   * expected: then readers fail and nothing is stored. A failing disk is an answer, not an error.
   */
  async complete(): Promise<Completion> {
    this.#mustGrow()
    const { size } = this
    let digest: string
    try {
      digest = this.#parts.expectation.verify(size)
    } catch (error) {
      throw await this.#fail(error)
    }
    this.#state = 'verified'
    this.#change.announce()
    while (this.#spool.busy) await this.#relief()
    await this.#spool.finish(async path => {
      await this.#parts.commit(path, digest, size)
      this.#committed = digest
    })
    this.#state = 'settled'
    this.#release()
    this.#parts.onEnd()
    return this.because === undefined
      ? { digest, size, stored: true }
      : { digest, size, stored: false, because: this.because }
  }

  /** Gives it up: readers fail with the reason, the temporary file goes. Does nothing after `complete` has verified. */
  async discard(reason: Error): Promise<void> {
    if (this.#state === 'growing') await this.#fail(reason)
  }

  #mustGrow(): void {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#state !== 'growing') throw new Error('the download is complete')
  }

  async #fail(error: unknown): Promise<Error> {
    const failure = error instanceof Error ? error : new Error(String(error))
    this.#state = 'failed'
    this.#failure = failure
    this.#release()
    this.#change.announce()
    await this.#spool.remove()
    this.#parts.onEnd()
    return failure
  }

  // Holding the writer back.

  #pressed(): boolean {
    if (this.because === undefined) return this.#spool.behind
    this.#window.trim(this.#limit, this.#slowest())
    this.#release()
    return this.#window.length > this.#limit
  }

  #slowest(): number {
    let needed = Number.POSITIVE_INFINITY
    for (const reader of this.#readers) needed = Math.min(needed, reader.needs)
    return needed
  }

  /** Waits until something changes; gives up on the disk, or on a reader, that has stood still for too long. */
  async #relief(): Promise<void> {
    const { clock } = this.#parts
    const now = clock.now()
    const since = Math.min(now, ...this.#blockers().map(reader => reader.movedAt))
    const cancel = clock.after(Math.max(1, since + this.#stall - now), () => this.#cut())
    try {
      await this.#change.wait()
    } finally {
      cancel()
    }
  }

  /** Readers a relay waits for: those who have not taken the oldest chunk. */
  #blockers(): readonly Reader[] {
    if (this.because === undefined) return []
    return [...this.#readers].filter(reader => reader.needs < this.#window.firstEnd)
  }

  #cut(): void {
    if (this.because === undefined) {
      this.#spool.giveUp(new Error(`the disk took nothing for ${this.#stall} ms`))
      return
    }
    const before = this.#parts.clock.now() - this.#stall
    for (const reader of this.#blockers()) {
      if (reader.movedAt > before) continue
      reader.drop(this.#stall)
      this.#readers.delete(reader)
    }
    this.#change.announce()
  }

  // Readers come, move and go.

  get #content() {
    return {
      window: this.#window,
      state: () => this.#view(),
      changed: () => this.#change.wait(),
      moved: () => this.#moved(),
      left: (reader: Reader) => this.#left(reader),
    }
  }

  #view() {
    const done = this.#state === 'verified' || this.#state === 'settled'
    return {
      failure: this.#failure,
      file: this.#spool.file,
      visible: done ? this.size : this.#parts.expectation.visible(this.size),
      done,
    }
  }

  #moved(): Milliseconds {
    if (this.because !== undefined) this.#change.announce()
    return this.#parts.clock.now()
  }

  #left(reader: Reader): void {
    this.#readers.delete(reader)
    this.#release()
    this.#change.announce()
  }

  /** Closes the file, and empties the window, as soon as nobody can need them. */
  #release(): void {
    const unread = this.#state === 'settled' && this.#joined && this.#readers.size === 0
    if (this.#state === 'failed' || unread) {
      this.#window.clear()
      this.#spool.close()
      return
    }
    // A relay whose window has left the file behind: nobody new can begin in it, and all who did are through.
    const { written } = this.#spool
    const passed = this.because !== undefined && this.#window.start > written
    if (passed && this.#slowest() >= written) this.#spool.close()
  }
}

function tooLate(offset: number): Failure {
  return new Failure(`Byte ${offset} of the download has passed and was not stored.`, {
    code: 'too-late',
    fault: 'internal',
    publicText: 'The beginning of this download is no longer available.',
    facts: { offset },
  })
}
