/**
 * The readers of a growing content: each from the tail when it keeps up, from the file when it does not.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import { Failure } from '../../../errors.ts'
import type { OpenContent } from './open-content.ts'
import type { Tail } from './tail.ts'

/** What a reader sees of its download. */
export interface GrowingContent {
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
export class Readers {
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
export function tooLate(offset: number): Failure {
  return new Failure(`Byte ${offset} of the download has passed and was not stored.`, {
    code: 'too-late',
    fault: 'internal',
    publicText: 'The beginning of this download is no longer available.',
    facts: { offset },
  })
}
