/**
 * The pieces of a growing download: the latest ones stay in memory (`Tail`), and large batches of them go to a temporary file
 * (`WriteBehind`).
 *
 * `WriteBehind` makes the temporary file with the first batch. A content that is complete before that is written straight to the file
 * with its final name. Readers can read the written bytes until `close`, also after the disk has failed.
 */
import { Piece } from '../../../bytes/piece.ts'
import type { Disk, DiskFile, End } from '../disk/disk.ts'
import type { DiskHealth } from '../disk/health.ts'
import { OpenContent, type SharedBlocks } from './open-content.ts'

/** The path to which the content is written, or the reason why it is not written to the disk. */
export type Destination =
  | {
      readonly path: string
      /**
       * Answers why a content of which `size` bytes have arrived must not be stored any more. Each write asks it first. With `made`,
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

interface Held {
  readonly start: number
  piece: Piece
}

/**
 * A piece smaller than `smallPiece` that does not continue the one before is copied together with its neighbours, because an origin
 * that sends single bytes as chunks would else cost a hundred times their memory. `copiedTogether` is the size of such a copy.
 */
const smallPiece = 16 * 1024
const copiedTogether = 64 * 1024
/** A first piece of at least this size is most likely the whole content and is copied alone. */
const aloneBytes = 512

/** One write takes at most this many buffers (IOV_MAX is 1,024). */
const mostPieces = 512

/**
 * Holds the latest pieces of a growing content in memory, by reference. The tail knows positions; it does not know readers or files.
 */
export class Tail {
  /** Position after the newest byte: the size of the content so far. */
  end = 0
  #held: Held[] = []
  #room = Buffer.alloc(0)
  readonly #expected: number

  /** `expected` is the length of the whole content. */
  constructor(expected = Number.POSITIVE_INFINITY) {
    this.#expected = expected
  }

  /** Position of the oldest byte that the tail holds. */
  get start(): number {
    return this.#held[0]?.start ?? this.end
  }

  get length(): number {
    return this.end - this.start
  }

  /** Position after the oldest piece, which is dropped as a whole; undefined when the tail is empty. */
  get firstEnd(): number | undefined {
    const [first] = this.#held
    return first && first.start + first.piece.bytes.length
  }

  append(arrived: Piece): void {
    const last = this.#held.at(-1)
    this.end += arrived.bytes.length
    const alone = !last?.piece.precedes(arrived) && arrived.bytes.length < smallPiece
    const piece = alone ? this.#copied(arrived) : arrived
    if (last?.piece.precedes(piece)) last.piece = last.piece.joined(piece)
    else this.#held.push({ start: this.end - piece.bytes.length, piece })
  }

  /** The bytes from `from` up to at most `end` that one piece has. The caller releases them. Throws when the tail does not hold `from`. */
  slice(from: number, end: number): Piece {
    const held = this.#held[this.#at(from)]
    if (held === undefined || from < held.start) throw new RangeError('these bytes are not held')
    const { start, piece } = held
    return piece.slice(from - start, Math.min(piece.bytes.length, end - start))
  }

  /** At most `wanted` bytes from `from` on, in pieces that the caller releases. */
  slices(from: number, wanted: number): Piece[] {
    const pieces: Piece[] = []
    const end = Math.min(this.end, from + wanted)
    for (let at = from; at < end && pieces.length < mostPieces; ) {
      const piece = this.slice(at, end)
      pieces.push(piece)
      at += piece.bytes.length
    }
    return pieces
  }

  dropFirst(): void {
    this.#held.shift()?.piece.release()
  }

  clear(): void {
    for (const { piece } of this.#held) piece.release()
    this.#held = []
  }

  #copied(piece: Piece): Piece {
    const { bytes } = piece
    const alone = this.#held.length === 0 && bytes.length >= aloneBytes
    const rest = Math.max(bytes.length, this.#expected - this.end + bytes.length)
    const most = alone ? bytes.length : Math.min(copiedTogether, rest)
    if (this.#room.length < bytes.length) this.#room = Buffer.allocUnsafeSlow(most)
    const copy = this.#room.subarray(0, bytes.copy(this.#room))
    this.#room = this.#room.subarray(bytes.length)
    piece.release()
    return new Piece(copy)
  }

  /** The index of the piece that has the byte at `position`, found by binary search. */
  #at(position: number): number {
    let [low, high] = [0, this.#held.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.#held[middle]?.start ?? 0) <= position) low = middle
      else high = middle - 1
    }
    return low
  }
}
