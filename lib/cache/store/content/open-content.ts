/**
 * The open files of contents: each file and its readers, which share the blocks that were read, and the files that stay open.
 *
 * # Representation
 * The file is read in chunks of one block, at multiples of the block's size, so that readers from different places use the same chunks.
 * One operation reads up to four chunks, and the next operation begins while the reader has two chunks left. A chunk is dropped when the
 * only reader has taken it; with several readers it is kept for the slower ones (`SharedBlocks`). A reader reads alone, into ordinary
 * memory, when its range is short, when it reaches the end of a file that still grows, or when no block is free.
 *
 * Measured: eight clients that read a file of 100 MB at the same time cost 0.26 s of processor time a GB, and 0.44 s when each reads chunks
 * of its own.
 */

import type { Milliseconds } from '../../../async/clock.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { type Block, type BlockPool, fileBlock } from '../../../bytes/block-pool.ts'
import { Piece } from '../../../bytes/piece.ts'
import { concatenatedSource, type Source, type Take } from '../../../bytes/source.ts'
import type { DiskFile, Surroundings } from '../disk/disk.ts'

/** The error of a file that is shorter than it should be. */
export class ShortFile extends Error {
  constructor(position: number, end: number) {
    super(`the file ends at byte ${position} and should reach ${end}`)
    this.name = 'ShortFile'
  }
}

/** How many bytes of a file may be read, and whether the file is complete. */
export interface Extent {
  readonly readable: number
  readonly whole: boolean
}

/** One operation reads `chunksAtOnce` chunks; the next operation begins when a reader has `chunksLeft` chunks left. */
const chunksAtOnce = 4
const chunksLeft = 2

/** A range of at most this many bytes is read alone, and a reader that reads alone reads this many bytes at once. */
const aloneBytes = 64 * 1024

/** Called when a chunk was read, with an error, or with `alone` when the reader must read by itself. */
type Waiting = (error: Error | undefined, alone: boolean) => void

interface Chunk {
  readonly number: number
  readonly content: OpenContent
  readonly waiting: Set<Waiting>
  piece?: Piece | undefined
}

export class OpenContent {
  /** Whether the file is forgotten: no new reader may begin, and the present readers go on. */
  closed = false
  readonly #file: DiskFile
  readonly #blocks: SharedBlocks
  readonly #extent: () => Extent
  readonly #onIdle: (content: OpenContent) => void
  readonly #chunks = new Map<number, Chunk>()
  readonly #readers = new Set<ChunkReader>()
  /** The number of readers that take chunks. */
  #sharing = 0

  constructor(
    file: DiskFile,
    blocks: SharedBlocks,
    extent: () => Extent,
    onIdle: (content: OpenContent) => void,
  ) {
    this.#file = file
    this.#blocks = blocks
    this.#extent = extent
    this.#onIdle = onIdle
  }

  get size(): number {
    return this.#extent().readable
  }

  /** Reads the bytes from `first` to `end`, exclusive, which must be readable. `failed` is called with the error when reading fails. */
  read(first: number, end: number, failed: (error: Error) => void = () => {}): Source {
    const reader = new ChunkReader(this, { first, end, failed })
    this.#readers.add(reader)
    if (!reader.short) this.#sharing += 1
    return reader
  }

  /**
   * Answers the chunk, which may still be in reading, and begins to read the following chunks when they are due. Undefined when the
   * reader must read alone.
   */
  want(number: number, last: number): Chunk | undefined {
    const ahead = this.#blocks.scarce ? number : number + chunksLeft
    let missing = number
    while (missing <= ahead && this.#chunks.has(missing)) missing += 1
    if (missing <= Math.min(ahead, last)) this.#read(missing, last)
    return this.#chunks.get(number)
  }

  taken(chunk: Chunk): void {
    if (this.#sharing > 1 && !this.#blocks.scarce) this.#blocks.keep(chunk)
    else if (chunk.waiting.size === 0) this.drop(chunk)
  }

  drop(chunk: Chunk): void {
    if (this.#chunks.get(chunk.number) === chunk) this.#chunks.delete(chunk.number)
    this.#blocks.forget(chunk)
    chunk.piece?.release()
    chunk.piece = undefined
  }

  readAlone(position: number, end: number, take: Take): void {
    const { readable } = this.#extent()
    const bytes = Buffer.allocUnsafe(Math.min(aloneBytes, Math.min(end, readable) - position))
    this.#file.read([bytes], position, (error, read = 0) => {
      if (error) take(error, undefined)
      else if (read === 0) take(new ShortFile(position, end), undefined)
      else take(undefined, new Piece(bytes.subarray(0, read)))
    })
  }

  left(reader: ChunkReader): void {
    if (!this.#readers.delete(reader)) return
    if (!reader.short) this.#sharing -= 1
    // The chunks that were read ahead for the last reader are no longer needed.
    for (const chunk of [...this.#chunks.values()]) {
      if (this.#sharing === 0) this.drop(chunk)
      else if (chunk.piece !== undefined) this.#blocks.keep(chunk)
    }
    if (this.#readers.size > 0) return
    if (this.closed) this.#file.close()
    this.#onIdle(this)
  }

  close(): void {
    this.closed = true
    if (this.#readers.size === 0) this.#file.close()
  }

  /** Reads up to four missing chunks, from `number` on. */
  #read(number: number, last: number): void {
    const most = this.#blocks.scarce ? 1 : chunksAtOnce
    const blocks: Block[] = []
    const buffers: Buffer[] = []
    while (blocks.length < most && number + blocks.length <= last) {
      const length = this.#length(number + blocks.length)
      if (length === 0 || this.#chunks.has(number + blocks.length)) break
      const block = this.#blocks.take()
      if (block === undefined) break
      blocks.push(block)
      buffers.push(block.memory.subarray(0, length))
    }
    if (blocks.length === 0) return
    const chunks = blocks.map(
      (_, i): Chunk => ({ number: number + i, content: this, waiting: new Set() }),
    )
    for (const chunk of chunks) this.#chunks.set(chunk.number, chunk)
    this.#file.read(
      buffers,
      number * fileBlock,
      (error, read = 0) => {
        let rest = read
        for (const [i, chunk] of chunks.entries()) {
          const [block, bytes] = [blocks[i], buffers[i]]
          if (block === undefined || bytes === undefined) continue
          rest -= bytes.length
          this.#arrived(chunk, error, rest < 0 ? undefined : { block, bytes })
        }
      },
      () => {
        for (const block of blocks) block.release()
      },
    )
  }

  #arrived(
    chunk: Chunk,
    error: Error | null | undefined,
    came: { readonly block: Block; readonly bytes: Buffer } | undefined,
  ): void {
    const wanted = this.#chunks.get(chunk.number) === chunk
    if (wanted && !error && came !== undefined) {
      came.block.retain()
      chunk.piece = new Piece(came.bytes, came.block)
    } else if (wanted) this.#chunks.delete(chunk.number)
    const waiting = [...chunk.waiting]
    chunk.waiting.clear()
    for (const tell of waiting) tell(error ?? undefined, chunk.piece === undefined)
  }

  /** The number of bytes of a chunk; 0 when the growing file does not have all of it yet. */
  #length(number: number): number {
    const { readable, whole } = this.#extent()
    const length = Math.min(fileBlock, readable - number * fileBlock)
    return whole || length === fileBlock ? Math.max(0, length) : 0
  }
}

class ChunkReader implements Source {
  readonly #content: OpenContent
  readonly #end: number
  readonly #failed: (error: Error) => void
  /** Whether it reads alone, because its range is short. */
  readonly short: boolean
  #position: number
  #take: Take | undefined
  #waitsFor: Chunk | undefined
  #closed = false

  constructor(
    content: OpenContent,
    of: { readonly first: number; readonly end: number; readonly failed: (error: Error) => void },
  ) {
    this.#content = content
    this.#position = of.first
    this.#end = of.end
    this.#failed = of.failed
    this.short = of.end - of.first <= aloneBytes
  }

  next(take: Take): void {
    if (this.#closed || this.#position >= this.#end) return take(undefined, undefined)
    this.#take = take
    this.#go()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#take = undefined
    this.#waitsFor?.waiting.delete(this.#arrived)
    this.#content.left(this)
  }

  #go(): void {
    const number = Math.floor(this.#position / fileBlock)
    const last = Math.floor((this.#end - 1) / fileBlock)
    const chunk = this.short ? undefined : this.#content.want(number, last)
    if (chunk === undefined) return this.#alone()
    const { piece } = chunk
    if (piece === undefined) {
      this.#waitsFor = chunk
      chunk.waiting.add(this.#arrived)
      return
    }
    const start = number * fileBlock
    const to = Math.min(piece.bytes.length, this.#end - start)
    const part = piece.slice(this.#position - start, to)
    this.#content.taken(chunk)
    this.#give(part)
  }

  readonly #arrived: Waiting = (error, alone) => {
    this.#waitsFor = undefined
    if (error !== undefined) this.#fail(error)
    else if (alone) this.#alone()
    else this.#go()
  }

  #alone(): void {
    this.#content.readAlone(this.#position, this.#end, (error, piece) => {
      if (this.#closed) return
      if (error !== undefined) this.#fail(error)
      else if (piece !== undefined) this.#give(piece)
    })
  }

  #give(piece: Piece): void {
    this.#position += piece.bytes.length
    const take = this.#take
    this.#take = undefined
    take?.(undefined, piece)
  }

  #fail(error: Error): void {
    const take = this.#take
    this.#take = undefined
    this.#failed(error)
    take?.(error, undefined)
  }
}

/** At most this many blocks are kept: 32 MiB. */
const mostKept = 64

/**
 * Keeps blocks of files for slower readers, a bounded number for all files together.
 *
 * Copying a block out of the page cache is two fifths of the cost of sending it, so readers at near positions of one file get the same
 * block by reference. No block is kept when blocks are scarce.
 */
export class SharedBlocks {
  readonly #pool: BlockPool
  readonly #kept = new Set<Chunk>()

  constructor(pool: BlockPool) {
    this.#pool = pool
  }

  /** Whether few blocks are left: then no block is read ahead or kept. */
  get scarce(): boolean {
    return this.#pool.scarce
  }

  /** A free block to read into. Evicts kept blocks for it; undefined when there is still none. */
  take(): Block | undefined {
    for (;;) {
      const block = this.#pool.take(fileBlock)
      const [oldest] = this.#kept
      if (block !== undefined || oldest === undefined) return block
      oldest.content.drop(oldest)
    }
  }

  keep(kept: Chunk): void {
    this.#kept.add(kept)
    const [oldest] = this.#kept
    if (this.#kept.size > mostKept && oldest !== undefined) oldest.content.drop(oldest)
  }

  forget(kept: Chunk): void {
    this.#kept.delete(kept)
  }
}

/** At most `mostIdle` files without readers stay open, each for `idleTime`, so that the next client of a package finds its file open. */
const mostIdle = 64
const idleTime: Milliseconds = 10_000

/** A part of a content. */
export interface ContentPart {
  readonly digest: string
  readonly size: number
  readonly first: number
  /** Exclusive. */
  readonly end: number
  /** Called when reading shows that the file is shorter than `size`. */
  readonly broken?: (error: Error) => void
}

/** Reads an open file: the part that was wanted, or the given one. */
export type Opener = (part?: { readonly first: number; readonly end: number }) => Source

interface OpenFilesParts extends Surroundings {
  readonly blocks: SharedBlocks
}

/** The open files of stored contents. All readers of a content share one file, which stays open for a while after the last reader. */
export class OpenFiles {
  readonly #parts: OpenFilesParts
  readonly #openings = new SingleFlight<OpenContent | undefined>()
  readonly #files = new Map<string, OpenContent>()
  /** The moment since which a file has no readers, in the order of these moments. */
  readonly #idle = new Map<string, Milliseconds>()
  #tidying = false

  constructor(parts: OpenFilesParts) {
    this.#parts = parts
  }

  /** Opens the file now and answers how to read the part; undefined when there is none of that size. */
  async open(wanted: ContentPart): Promise<Opener | undefined> {
    const content = await this.#opened(wanted)
    if (content === undefined) return undefined
    return part => {
      const of = { ...wanted, ...part }
      return content.closed ? this.read(of) : this.#readFrom(content, of)
    }
  }

  read(wanted: ContentPart): Source {
    // The file is opened now, because it may lose its name before its first piece is asked for.
    const opening = this.#opened(wanted).then(content => {
      if (content === undefined) throw new ShortFile(wanted.first, wanted.size)
      return this.#readFrom(content, wanted)
    })
    opening.catch(() => undefined)
    const source = concatenatedSource([() => opening])
    return {
      next: take => source.next(take),
      close() {
        source.close()
        opening.then(
          opened => opened.close(),
          () => undefined,
        )
      },
    }
  }

  /** Forgets the open file, because the digest may stand for another file now. Present readers go on. */
  forget(digest: string): void {
    this.#openings.forget(digest)
    this.#close(digest)
  }

  close(): void {
    for (const digest of [...this.#files.keys()]) this.#close(digest)
  }

  #readFrom(content: OpenContent, { digest, first, end, broken }: ContentPart): Source {
    this.#idle.delete(digest)
    return content.read(first, end, error => {
      if (this.#files.get(digest) === content) this.#close(digest)
      if (error instanceof ShortFile) broken?.(error)
    })
  }

  async #opened({ digest, size }: ContentPart): Promise<OpenContent | undefined> {
    for (;;) {
      const known = this.#files.get(digest)
      if (known !== undefined) return known.size === size ? known : undefined
      if ((await this.#open(digest)) === undefined) return undefined
    }
  }

  /** Opens the file and adds it to the open files, unless it is forgotten meanwhile. */
  #open(digest: string): Promise<OpenContent | undefined> {
    return this.#openings.run(digest, async isCurrent => {
      const opened = await this.#openNow(digest)
      if (!isCurrent()) opened?.close()
      else if (opened !== undefined) {
        this.#files.set(digest, opened)
        this.#rest(digest, opened)
      }
      return opened
    })
  }

  async #openNow(digest: string): Promise<OpenContent | undefined> {
    const file = await this.#parts.disk.openIfThere(this.#parts.layout.blob(digest))
    if (file === undefined) return undefined
    try {
      const found = await file.look()
      const extent = { readable: found.isFile() ? found.size : -1, whole: true }
      const onIdle = (content: OpenContent): void => this.#rest(digest, content)
      return new OpenContent(file, this.#parts.blocks, () => extent, onIdle)
    } catch (error) {
      file.close()
      throw error
    }
  }

  #rest(digest: string, content: OpenContent): void {
    if (content.closed) return
    this.#idle.set(digest, this.#parts.clock.elapsed())
    const [oldest] = this.#idle.keys()
    if (this.#idle.size > mostIdle && oldest !== undefined) this.#close(oldest)
    this.#tidyLater()
  }

  #tidyLater(): void {
    if (this.#tidying) return
    this.#tidying = true
    this.#parts.clock.after(idleTime, () => {
      this.#tidying = false
      const before = this.#parts.clock.elapsed() - idleTime
      for (const [digest, since] of this.#idle) if (since <= before) this.#close(digest)
      if (this.#idle.size > 0) this.#tidyLater()
    })
  }

  #close(digest: string): void {
    const content = this.#files.get(digest)
    if (content === undefined) return
    this.#files.delete(digest)
    this.#idle.delete(digest)
    content.close()
  }
}
