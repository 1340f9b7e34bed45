/**
 * The open files of contents: each file and its readers, which share what they read, and which files stay open.
 *
 * # Representation
 * The file is read in chunks of one block, at multiples of the block's size, so that readers from different places meet in the
 * same chunks. Up to four chunks are read by one operation; the next four while the reader has two left. A chunk is dropped
 * when the only reader has taken it; with several readers it is kept for those behind (`SharedBlocks`). A short range, the
 * end of a file that still grows, and a reader for whom there is no block read what they want alone, into ordinary memory.
 */

import type { Milliseconds } from '../../../async/clock.ts'
import { type Block, type BlockPool, fileBlock } from '../../../bytes/block-pool.ts'
import { Piece } from '../../../bytes/piece.ts'
import type { Source, Take } from '../../../bytes/source.ts'
import type { DiskFile, Surroundings } from '../disk/disk.ts'

/** A file that ended before the length it should have. */
export class ShortFile extends Error {
  constructor(position: number, end: number) {
    super(`the file ends at byte ${position} and should reach ${end}`)
    this.name = 'ShortFile'
  }
}

/** How far a file may be read. */
export interface Extent {
  readonly readable: number
  readonly whole: boolean
}

/** Chunks of one operation, and of how many left the next operation begins. */
const chunksAtOnce = 4
const chunksLeft = 2

const aloneBytes = 64 * 1024

/** Told when a chunk was read; with an error, or with `alone` when the reader is to read by itself. */
type Waiting = (error: Error | undefined, alone: boolean) => void

class Chunk implements KeptBlock {
  readonly number: number
  readonly waiting = new Set<Waiting>()
  piece: Piece | undefined
  readonly #content: OpenContent

  constructor(number: number, content: OpenContent) {
    this.number = number
    this.#content = content
  }

  drop(): void {
    this.#content.drop(this)
  }
}

export class OpenContent {
  /** No new reader may begin; those that read it now go on. */
  closed = false
  readonly #file: DiskFile
  readonly #blocks: SharedBlocks
  readonly #extent: () => Extent
  readonly #onIdle: (content: OpenContent) => void
  readonly #chunks = new Map<number, Chunk>()
  readonly #readers = new Set<ChunkReader>()

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

  /** The bytes from `first` up to and without `end`, which must be readable. `failed` is told why it broke off. */
  read(first: number, end: number, failed: (error: Error) => void = () => {}): Source {
    const reader = new ChunkReader(this, { first, end, failed })
    this.#readers.add(reader)
    return reader
  }

  /** The chunk, perhaps still being read, and what follows it if it is time; undefined when it is to be read alone. */
  want(number: number, last: number): Chunk | undefined {
    const ahead = this.#blocks.scarce ? number : number + chunksLeft
    let missing = number
    while (missing <= ahead && this.#chunks.has(missing)) missing += 1
    if (missing <= Math.min(ahead, last)) this.#read(missing, last)
    return this.#chunks.get(number)
  }

  taken(chunk: Chunk): void {
    if (this.#readers.size > 1 && !this.#blocks.scarce) this.#blocks.keep(chunk)
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
    // What was read ahead for it alone is not needed now.
    for (const chunk of [...this.#chunks.values()]) {
      if (this.#readers.size === 0) this.drop(chunk)
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

  /** Reads up to four chunks that are missing, from `number` on. */
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
    const chunks = blocks.map((_, i) => new Chunk(number + i, this))
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

  /** Bytes of a chunk; 0 when it is not yet whole. */
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
  readonly #short: boolean
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
    this.#short = of.end - of.first <= aloneBytes
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
    const chunk = this.#short ? undefined : this.#content.want(number, last)
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

/** A block that was read, as its file keeps it. */
interface KeptBlock {
  drop(): void
}

/** 32 MiB. */
const mostKept = 64

/**
 * Keeps blocks of files that the next reader may want, a bounded number for all files together.
 *
 * Copying a block out of the page cache is two fifths of what it costs to send it, so readers of one file who are near each
 * other get the same block by reference. When blocks are scarce none is kept.
 */
export class SharedBlocks {
  readonly #pool: BlockPool
  readonly #kept = new Set<KeptBlock>()

  constructor(pool: BlockPool) {
    this.#pool = pool
  }

  /** Few blocks are left: nothing is read ahead and nothing kept. */
  get scarce(): boolean {
    return this.#pool.scarce
  }

  /** A block to read into; undefined when there is none, even for what is kept. */
  take(): Block | undefined {
    for (;;) {
      const block = this.#pool.take(fileBlock)
      const [oldest] = this.#kept
      if (block !== undefined || oldest === undefined) return block
      this.#evict(oldest)
    }
  }

  keep(kept: KeptBlock): void {
    this.#kept.add(kept)
    const [oldest] = this.#kept
    if (this.#kept.size > mostKept && oldest !== undefined) this.#evict(oldest)
  }

  forget(kept: KeptBlock): void {
    this.#kept.delete(kept)
  }

  #evict(kept: KeptBlock): void {
    this.#kept.delete(kept)
    kept.drop()
  }
}

/*
 * The open files of stored contents: one for all readers of a content, open a while after the last.
 */

/** Files without readers that stay open, and for how long: the next client of a package in demand finds it open. */
const mostIdle = 64
const idleTime: Milliseconds = 10_000

/** A part of a content. */
export interface ContentPart {
  readonly digest: string
  readonly size: number
  readonly first: number
  /** Exclusive. */
  readonly end: number
  /** Told when it turns out to be shorter in the middle. */
  readonly broken?: (error: Error) => void
}

/** Reads an open file: the part that was wanted, or another. */
export type Opener = (part?: { readonly first: number; readonly end: number }) => Source

interface OpenFilesParts extends Surroundings {
  readonly blocks: SharedBlocks
}

export class OpenFiles {
  readonly #parts: OpenFilesParts
  readonly #openings = new Map<string, Promise<OpenContent | undefined>>()
  readonly #files = new Map<string, OpenContent>()
  /** Since when a file has no readers, the one that was left first in front. */
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
    return openingSource(
      this.#opened(wanted).then(content => {
        if (content === undefined) throw new ShortFile(wanted.first, wanted.size)
        return this.#readFrom(content, wanted)
      }),
    )
  }

  /** The name no longer stands for this file: its readers go on, and the next one opens the file anew. */
  forget(digest: string): void {
    this.#openings.delete(digest)
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
      if ((await (this.#openings.get(digest) ?? this.#open(digest))) === undefined) return undefined
    }
  }

  /** Opens the file and puts it among those that are open, unless it is forgotten meanwhile. */
  #open(digest: string): Promise<OpenContent | undefined> {
    const opening = this.#openNow(digest).then(opened => {
      if (this.#openings.get(digest) !== opening) opened?.close()
      else if (opened !== undefined) {
        this.#files.set(digest, opened)
        this.#rest(digest, opened)
      }
      return opened
    })
    this.#openings.set(digest, opening)
    return opening.finally(() => {
      if (this.#openings.get(digest) === opening) this.#openings.delete(digest)
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

function openingSource(opening: Promise<Source>): Source {
  let closed = false
  return {
    next(take) {
      opening.then(
        source => closed || source.next(take),
        (error: unknown) => {
          if (!closed) take(error instanceof Error ? error : new Error(String(error)), undefined)
        },
      )
    },
    close() {
      closed = true
      opening.then(
        source => source.close(),
        () => undefined,
      )
    },
  }
}
