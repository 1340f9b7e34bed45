/**
 * Writes a growing download to a temporary file in large batches, while its latest pieces stay in memory (tail.ts).
 *
 * It makes the temporary file with the first batch. A content that is complete before that is written straight to the file
 * with its final name. Readers can read the written bytes until `close`, also after the disk has failed.
 */
import type { Piece } from '../../../bytes/piece.ts'
import type { Disk, DiskFile, End } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import { OpenContent, type SharedBlocks } from './open-content.ts'
import type { Tail } from './tail.ts'

/** The path to which the content is written, or the reason why it is not written to the disk. */
export type Destination =
  | {
      readonly path: string
      /**
       * Answers why a content with `size` bytes so far must no longer be stored. Each write asks it first. With `made`,
       * the write waits for that and asks again.
       */
      readonly refusal?: (
        size: number,
      ) => { readonly because: string; readonly made?: Promise<void> } | undefined
    }
  | { readonly because: string }

export interface WriteBehindParts {
  readonly disk: Disk
  readonly health: Pick<DiskHealth, 'failed'>
  readonly to: Destination
  readonly tail: Tail
  readonly blocks: SharedBlocks
  /** Most bytes that the tail keeps for readers. It must be more than is ever held back from them. */
  readonly most?: number | undefined
  /** Called after each write, and when writing has stopped for good. */
  readonly changed: () => void
}

/** A write begins when this many bytes wait; `batchScarce` applies when blocks are scarce. */
const batch = 1024 * 1024
const batchScarce = 256 * 1024
const mostAtOnce = 1024 * 1024
/** The origin waits when more bytes than this are not yet written. Both limits are larger than a batch. */
const mostBehind = 2 * 1024 * 1024
const mostBehindScarce = 512 * 1024
/** The tail keeps at most this many bytes for readers. */
const mostKept = 4 * 1024 * 1024
const mostKeptScarce = 256 * 1024

export class WriteBehind {
  written = 0
  /** The reason why writing has stopped; undefined while the disk takes the bytes. */
  because: string | undefined
  readonly #told: Array<(because: string) => void> = []
  readonly path: string | undefined
  readonly #parts: WriteBehindParts
  #file: DiskFile | undefined
  #content: OpenContent | undefined
  #busy = false
  #closed = false
  #awaitsRoom = false
  /** Bytes before this position are written without waiting for a full batch. */
  #wanted = 0
  #flushed: (() => void)[] = []
  #creating: Promise<void> | undefined
  #removing: Promise<unknown> | undefined

  constructor(parts: WriteBehindParts) {
    const { to } = parts
    this.#parts = parts
    if ('because' in to) this.because = to.because
    else this.path = to.path
  }

  /** The temporary file; undefined before the first batch and after `close`. */
  get file(): DiskFile | undefined {
    return this.#file
  }

  get most(): number {
    const { most = mostKept, blocks } = this.#parts
    return blocks.scarce ? Math.min(most, mostKeptScarce) : most
  }

  /** Whether the origin should wait: for the disk, or, when writing has stopped, for the readers that still need the tail. */
  get behind(): boolean {
    const { tail, blocks } = this.#parts
    if (this.because !== undefined) return tail.length > this.most
    return tail.end - this.written > (blocks.scarce ? mostBehindScarce : mostBehind)
  }

  /**
   * Drops the oldest pieces of the tail while it is longer than `most`. A piece may go when the file has it, or, after writing has
   * stopped, when no reader needs it. `needed` is the position of the oldest byte that a reader needs. With `passed`, pieces before
   * `needed` go also from a tail that is shorter than `most`.
   */
  trim(needed: number, passed: boolean): void {
    const { tail } = this.#parts
    for (let end = tail.firstEnd; end !== undefined; end = tail.firstEnd) {
      const taken = end <= needed
      const safe = this.#file !== undefined && end <= this.written
      if (!safe && !(taken && this.because !== undefined)) return
      if (tail.length <= this.most && !(passed && taken)) return
      tail.dropFirst()
    }
  }

  /** Reads the written bytes; undefined when there is no file. */
  get content(): OpenContent | undefined {
    if (this.#file === undefined) return undefined
    const { blocks } = this.#parts
    const extent = () => ({ readable: this.written, whole: false })
    this.#content ??= new OpenContent(this.#file, blocks, extent, () => {})
    return this.#content
  }

  /** Whether one write can store the whole content: no byte of it is on the disk yet, and no rule refuses it. */
  atOnce(): boolean {
    const begun = this.#busy || this.#file !== undefined || this.#parts.tail.start > 0
    return !begun && !this.#closed && this.because === undefined && !this.#refused()
  }

  /** Writes the whole content into another file. Answers whether the disk took all bytes. Rejects when the disk fails. */
  writeAll(file: DiskFile): Promise<boolean> {
    const { tail } = this.#parts
    return new Promise((resolve, reject) => {
      writePieces(file, tail.slices(0, tail.end), 0, (error, written) =>
        error ? reject(error) : resolve(written === tail.end),
      )
    })
  }

  write(): void {
    const { tail, blocks } = this.#parts
    if (this.#busy || this.because !== undefined || this.#closed) return
    const waiting = tail.end - this.written
    const now = this.#flushed.length > 0 && (waiting > 0 || this.#file === undefined)
    if (waiting < (blocks.scarce ? batchScarce : batch) && !now) return
    if (this.#refused()) return
    this.#busy = true
    if (this.#file === undefined) this.#create()
    else this.#writeTo(this.#file)
  }

  /** Resolves when the bytes that have arrived by now are in the file or writing has stopped. */
  async flush(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#wanted = this.#parts.tail.end
      this.#flushed.push(resolve)
      this.write()
      this.#tell()
    })
  }

  /** Stops writing for good: the name of the file is removed, and its bytes stay readable through the open file. */
  giveUp(error: unknown): void {
    if (this.because !== undefined) return
    this.#stop(this.#parts.health.failed(error, 'storing a download'))
  }

  #refused(): boolean {
    const { tail, to } = this.#parts
    if (this.#awaitsRoom) return true
    const refused = 'path' in to ? to.refusal?.(tail.end) : undefined
    if (refused === undefined) return false
    if (refused.made === undefined) this.#stop(refused.because)
    else {
      this.#awaitsRoom = true
      void refused.made.then(() => {
        this.#awaitsRoom = false
        this.write()
        this.#parts.changed()
      })
    }
    return true
  }

  /** Calls `tell` once when writing stops later. */
  whenStopped(tell: (because: string) => void): void {
    this.#told.push(tell)
  }

  #stop(because: string): void {
    this.because = because
    for (const tell of this.#told) tell(because)
    void this.remove()
    this.#tell()
    this.#parts.changed()
  }

  async remove(): Promise<void> {
    const { disk } = this.#parts
    // A file that is being created now would else appear after its removal.
    await this.#creating
    if (this.path !== undefined) this.#removing ??= disk.remove(this.path).catch(() => undefined)
    await this.#removing
  }

  close(): void {
    this.#closed = true
    this.#file?.close()
    this.#file = undefined
    this.#content = undefined
    this.#tell()
  }

  #create(): void {
    const { disk } = this.#parts
    this.#creating = disk.open(this.path ?? '', 'creating').then(
      file => {
        if (this.#closed) return file.close()
        this.#file = file
        this.#goOn()
      },
      error => this.giveUp(error),
    )
  }

  #writeTo(file: DiskFile): void {
    const pieces = this.#parts.tail.slices(this.written, mostAtOnce)
    writePieces(file, pieces, this.written, (error, written = 0) => {
      if (error) return this.giveUp(error)
      if (written === 0 && pieces.length > 0)
        return this.giveUp(new Error('the disk took no bytes'))
      // Writing was given up meanwhile: readers get the following bytes from the tail, not from the file.
      if (this.because !== undefined) return
      this.written += written
      this.#goOn()
    })
  }

  #goOn(): void {
    this.#busy = false
    this.#tell()
    this.write()
    this.#parts.changed()
  }

  #tell(): void {
    const done = this.because !== undefined || this.#closed
    if (!done && (this.written < this.#wanted || this.#file === undefined)) return
    for (const resolve of this.#flushed.splice(0)) resolve()
  }
}

/** Writes the pieces and releases them. */
function writePieces(
  file: DiskFile,
  pieces: readonly Piece[],
  position: number,
  done: End<number>,
): void {
  const buffers = pieces.map(({ bytes }) => bytes)
  file.write(buffers, position, done, () => {
    for (const piece of pieces) piece.release()
  })
}
